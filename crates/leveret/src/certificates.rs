//! Certificates that change while the broker runs.

use std::{sync::Arc, time::Duration};

use leveret_tls::Tls;
use tokio::{
    signal::unix::Signal,
    time::{MissedTickBehavior, interval},
};
use tracing::{error, info};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Reads certificates anew when their files have changed, and on SIGHUP. Open connections go on with what they
/// began with.
pub(crate) async fn keep_fresh(listeners: Vec<Arc<Tls>>, mut hangup: Signal) {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let was_told = tokio::select! {
            Some(()) = hangup.recv() => true,
            _ = looks.tick() => false,
        };
        for tls in &listeners {
            let done = if was_told {
                tls.reload().map(|()| true)
            } else {
                tls.reload_if_changed()
            };
            match done {
                Ok(true) => info!("certificates were read anew"),
                Ok(false) => {}
                Err(reason) => {
                    error!(%reason, "new certificates are no good, going on with the old ones")
                }
            }
        }
    }
}
