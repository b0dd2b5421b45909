//! Time as the bodies carry it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
///
/// Not an `Instant`: a message may be taken from the queue by a later run than the one that published it.
pub(crate) fn now_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let secs = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    secs * 1_000_000_000 + nanos
}
