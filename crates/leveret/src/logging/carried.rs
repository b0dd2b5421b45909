//! Threads that carry lines to where they go, so that no slow reader of a log holds up the broker.
//!
//! ```text
//!   event ─▶ line ─▶ at most WAITING_MAX ─▶ thread ─▶ console, file, syslog, journal
//!                 └▶ dropped when there are more; how many is said once there is room
//! ```
//!
//! What waits when the process ends is still carried, within [`FLUSH_PATIENCE`]: see [`flush`].

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::outlet::{Entry, Outlet, quietly};

/// Lines that wait for one thread.
pub(super) const WAITING_MAX: usize = 1024;

/// How long the end of the process waits for lines, for all threads together.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// The ways to all threads of this process.
static CARRIERS: Mutex<Vec<Sender<Order>>> = Mutex::new(Vec::new());

/// What a thread is to do next.
enum Order {
    Carry(Entry),
    /// Everything before is carried.
    Tell(SyncSender<()>),
}

/// The way to a thread that carries lines.
#[derive(Debug)]
pub(super) struct Carried {
    orders: Sender<Order>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl Outlet for Carried {
    fn take(&self, entry: Entry) {
        let counts = &self.counts;
        if counts.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
            // The thread lasts as long as there is somebody to send.
            let _ = self.orders.send(Order::Carry(entry));
        } else {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Starts a thread that does what `name` says, such as "log to syslog", by calling `send` with each line.
pub(super) fn carry(
    name: &str,
    mut send: impl FnMut(&Entry) -> io::Result<()> + Send + 'static,
) -> io::Result<Carried> {
    let (orders, given): (_, Receiver<Order>) = channel();
    let counts = Arc::new(Counts::default());
    let of_thread = counts.clone();
    let work = move || {
        // Lost lines are told once each time that it begins to go wrong: whoever reads this log misses them.
        let mut fails = false;
        for order in given {
            let entry = match order {
                Order::Carry(entry) => entry,
                Order::Tell(waiter) => {
                    // It may have lost its patience.
                    let _ = waiter.try_send(());
                    continue;
                }
            };
            let sent = send(&entry);
            of_thread.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Err(reason) = &sent
                && !fails
            {
                quietly(|| tracing::warn!("cannot {}: {reason}", thread_name()));
            }
            fails = sent.is_err();
            let dropped = of_thread.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                quietly(|| {
                    tracing::warn!("{dropped} lines were too many to {}", thread_name());
                });
            }
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    let mut carriers = CARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
    carriers.push(orders.clone());
    Ok(Carried { orders, counts })
}

/// Returns when every line that was logged before is where it goes, or nobody takes it in time. Before the process ends.
pub(crate) fn flush() {
    let carriers = CARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
    let until = Instant::now() + FLUSH_PATIENCE;
    let asked = carriers.iter().filter_map(|orders| {
        let (waiter, done) = sync_channel(1);
        orders.send(Order::Tell(waiter)).ok().map(|()| done)
    });
    let asked: Vec<_> = asked.collect();
    for done in asked {
        // After that time the process ends without.
        let _ = done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

fn thread_name() -> String {
    thread::current().name().unwrap_or("log").to_owned()
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn entry(line: &str) -> Entry {
        Entry {
            level: Level::INFO,
            said: line.to_owned(),
            line: line.to_owned(),
        }
    }

    #[test]
    fn whoever_logs_never_waits_and_what_is_too_much_is_dropped() {
        // Each line is carried when the test says so.
        let (go, goes) = channel::<()>();
        let (lines, carried_lines) = channel();
        let carried = carry("log to a test", move |entry| {
            let _ = goes.recv();
            let _ = lines.send(entry.line.clone());
            Ok(())
        })
        .expect("a thread");
        for number in 0..WAITING_MAX + 10 {
            carried.take(entry(&number.to_string()));
        }
        assert_eq!(carried.counts.dropped.load(Ordering::Relaxed), 10);
        drop(go);
        for number in 0..WAITING_MAX {
            assert_eq!(carried_lines.recv(), Ok(number.to_string()));
        }
        carried.take(entry("later"));
        assert_eq!(carried_lines.recv().as_deref(), Ok("later"));
    }
}
