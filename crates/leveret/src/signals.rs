//! What the process is told by signals, from its first moment to its last.
//!
//! ```text
//!   SIGTERM, SIGINT   the first: end in order; a start ends at its next step, or where it is if that takes long
//!                     a second: end at once; what was confirmed is stored all the same
//!   SIGHUP            read certificates anew, as soon as there are some
//!   SIGXFSZ           nothing: the write that met the limit on the size of files fails, and says so
//! ```
//!
//! They are read by a task of their own, so that no step of a start or a stop that waits keeps a second one from being heard.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leveret_store::CallOff;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::timeout,
};
use tracing::{info, warn};

use crate::{ENDED_AT_ONCE, logging};

/// How long a start has to come to its next step when it is told to end: it may have a great deal to read, and whoever stops a
/// container waits for a moment only. What is stored is opened again as after a kill.
const STEP_WITHIN: Duration = Duration::from_millis(500);

/// Whether the process was told to end.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    told: watch::Receiver<Option<&'static str>>,
    call_off: CallOff,
    has_started: Arc<AtomicBool>,
}

impl Signals {
    /// From now on no signal ends the process by itself. SIGHUP is for whoever reads certificates; it remembers one that came
    /// before anybody did.
    pub(crate) fn listen() -> io::Result<(Self, Signal)> {
        let (terminate, interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let hangup = signal(SignalKind::hangup())?;
        let too_large = rustix::process::Signal::XFSZ.as_raw();
        // Once it is listened to it does nothing any more, also when nobody does.
        drop(signal(SignalKind::from_raw(too_large))?);
        let (tell, told) = watch::channel(None);
        let signals = Self {
            told,
            call_off: CallOff::default(),
            has_started: Arc::default(),
        };
        tokio::spawn(hear(terminate, interrupt, tell, signals.clone()));
        Ok((signals, hangup))
    }

    /// Somebody was let in: an end takes its steps.
    pub(crate) fn note_started(&self) {
        self.has_started.store(true, Ordering::Release);
    }

    /// Says to whoever opens a store that the process is to end.
    pub(crate) const fn call_off(&self) -> &CallOff {
        &self.call_off
    }

    /// Returns once the process is told to end, by the name of the signal; at once if it was told before.
    pub(crate) async fn told(&self) -> &'static str {
        let mut told = self.told.clone();
        match told.wait_for(Option::is_some).await {
            Ok(by) => by.unwrap_or_default(),
            // Only with the process.
            Err(_) => std::future::pending().await,
        }
    }
}

async fn hear(
    mut terminate: Signal,
    mut interrupt: Signal,
    tell: watch::Sender<Option<&'static str>>,
    signals: Signals,
) {
    let mut next = async || {
        tokio::select! {
            Some(()) = terminate.recv() => "SIGTERM",
            Some(()) = interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    };
    let by = next().await;
    info!("{by} received - shutting down");
    signals.call_off.say();
    tell.send_replace(Some(by));
    let again = match timeout(STEP_WITHIN, next()).await {
        Ok(again) => again,
        Err(_) if signals.has_started.load(Ordering::Acquire) => next().await,
        Err(_) => {
            warn!("the start does not come to its next step - ending before anybody was let in");
            logging::flush();
            process::exit(0);
        }
    };
    warn!(
        "{again} received again - ending at once; what was confirmed is stored, and the next start treats this as a crash"
    );
    logging::flush();
    process::exit(ENDED_AT_ONCE.into());
}
