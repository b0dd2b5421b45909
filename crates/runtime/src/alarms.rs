//! Memory and disk run low: publishers wait until there is room again. Consumers go on, and so does everything else.
//!
//! ```text
//!   measured twice a second and more often near a limit ─▶ alarm on or off ─▶ publishing connections wait, or go on
//!   the store is out of space ───────────────────────────▶ disk alarm
//! ```
//!
//! An alarm is a state and no event: whoever publishes looks whether one is on.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use leveret_store::Store;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

/// Between two looks, far from a limit and near one.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);

/// The part of the memory limit that transient messages may fill before they go to the disk. Reading them back costs more
/// than keeping them, so that they stay as long as there is memory.
const TRANSIENT_SHARE: u64 = 4;

/// As fast as memory or a disk can fill, in bytes per millisecond: the next look comes before that could reach a limit.
const FILLS_AT_MOST: u64 = 1_000_000;

/// An amount of memory or disk: bytes, or a share of the memory this process may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// This part of the machine's memory, or of what the control group allows if that is less.
    Share(f64),
}

/// A text that is no [`Amount`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no amount: give bytes (536870912), a size (512MB, 512MiB) or a share of the memory (0.6, 60%)"
)]
pub struct NotAnAmount(String);

impl FromStr for Amount {
    type Err = NotAnAmount;

    /// As in RabbitMQ's configuration: `k` and `kB` are 1000 bytes, `Ki` and `KiB` 1024, and a number with a point is a
    /// share. So is a percentage.
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let wrong = || NotAnAmount(text.to_owned());
        let trimmed = text.trim();
        let digits_end = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits_end);
        if unit == "%" {
            let percent: f64 = number.parse().map_err(|_| wrong())?;
            return Ok(Self::Share(percent / 100.0));
        }
        if number.contains('.') && unit.is_empty() {
            let share: f64 = number.parse().map_err(|_| wrong())?;
            return Ok(Self::Share(share));
        }
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "p" | "pb" => 1_000_000_000_000_000,
            "ki" | "kib" => 1 << 10,
            "mi" | "mib" => 1 << 20,
            "gi" | "gib" => 1 << 30,
            "ti" | "tib" => 1 << 40,
            "pi" | "pib" => 1 << 50,
            _ => return Err(wrong()),
        };
        number
            .checked_mul(factor)
            .map(Self::Bytes)
            .ok_or_else(wrong)
    }
}

impl Amount {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of some gigabytes need not be exact to the byte, and the cast keeps to the range"
    )]
    fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (total as f64 * share) as u64,
        }
    }
}

/// Where the alarms begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Memory in use from which on publishers wait.
    pub memory: Amount,
    /// Free space on the disk below which publishers wait.
    pub disk_free: Amount,
}

impl Limits {
    /// Memory in use from which on publishers wait, in bytes.
    pub(crate) fn memory_bytes(self) -> u64 {
        self.memory.bytes(memory_total())
    }
}

impl Default for Limits {
    /// RabbitMQ's.
    fn default() -> Self {
        Self {
            memory: Amount::Share(0.6),
            disk_free: Amount::Bytes(50_000_000),
        }
    }
}

/// Which alarms are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Alarm {
    /// More memory is in use than the limit.
    pub memory: bool,
    /// Less disk is free than the limit, or the store is out of space.
    pub disk: bool,
}

impl Alarm {
    /// Whether publishers wait.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.memory || self.disk
    }

    /// What blocked clients are told.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match (self.memory, self.disk) {
            (true, true) => "low on memory & disk",
            (true, false) => "low on memory",
            (false, _) => "low on disk",
        }
    }
}

/// What was measured last, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauges {
    /// Memory of this process that is no file's.
    pub memory_used: u64,
    /// Where the memory alarm begins.
    pub memory_limit: u64,
    /// What the process may use at most: the machine's memory, or less by its control group.
    pub memory_total: u64,
    /// Free space of the data directory's disk; 0 without a directory.
    pub disk_free: u64,
    /// Where the disk alarm begins.
    pub disk_free_limit: u64,
}

/// Watches memory and disk.
#[derive(Debug)]
pub(crate) struct Alarms {
    limits: Mutex<Limits>,
    gauges: Mutex<Gauges>,
    /// The store waits for space.
    out_of_space: AtomicBool,
    /// Alarms that an operator switched on, whatever is measured.
    by_hand: Mutex<Alarm>,
    /// The same as in `alarm`, for those who look at every read.
    is_on: AtomicBool,
    /// The same of memory alone, for those who look at every delivery.
    memory: Arc<AtomicBool>,
    /// What transient messages may take of the memory limit, in bytes.
    transient_max: AtomicU64,
    alarm: watch::Sender<Alarm>,
    look: Notify,
}

impl Alarms {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits: Mutex::new(limits),
            gauges: Mutex::default(),
            out_of_space: AtomicBool::new(false),
            by_hand: Mutex::default(),
            is_on: AtomicBool::new(false),
            memory: Arc::default(),
            transient_max: AtomicU64::new(u64::MAX),
            alarm: watch::channel(Alarm::default()).0,
            look: Notify::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether memory is short, at any moment from now on.
    pub(crate) fn memory_shortage(&self) -> Arc<AtomicBool> {
        self.memory.clone()
    }

    /// Bytes of transient messages above which they go to the disk.
    pub(crate) fn transient_max(&self) -> u64 {
        self.transient_max.load(Ordering::Relaxed)
    }

    pub(crate) fn alarm(&self) -> Alarm {
        *self.alarm.borrow()
    }

    /// Tells of every change.
    pub(crate) fn watch(&self) -> watch::Receiver<Alarm> {
        self.alarm.subscribe()
    }

    pub(crate) fn gauges(&self) -> Gauges {
        *self.gauges.lock()
    }

    pub(crate) fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        *self.limits.lock() = limits;
        self.look.notify_one();
    }

    /// Switches alarms on whatever is measured, or leaves them to what is.
    pub(crate) fn set_by_hand(&self, change: impl FnOnce(&mut Alarm)) {
        change(&mut self.by_hand.lock());
        self.look.notify_one();
    }

    /// The store says so, which is as good as a look at the disk.
    pub(crate) fn set_out_of_space(&self, is_out: bool) {
        self.out_of_space.store(is_out, Ordering::Relaxed);
        self.look.notify_one();
    }

    /// Returns when no alarm is on.
    pub(crate) async fn cleared(&self) {
        let mut alarm = self.alarm.subscribe();
        // The sender lives as long as this.
        let _ = alarm.wait_for(|alarm| !alarm.is_on()).await;
    }

    /// Looks, for as long as the store is open.
    pub(crate) async fn run(self: Arc<Self>, store: Weak<Store>) {
        loop {
            let Some(open) = store.upgrade() else {
                return;
            };
            let nap = self.look_around(&open);
            drop(open);
            // Woken or not, the next look tells.
            let _ = tokio::time::timeout(nap, self.look.notified()).await;
        }
    }

    /// Measures, switches the alarms, and says when to look again.
    pub(crate) fn look_around(&self, store: &Store) -> Duration {
        let limits = self.limits();
        let total = memory_total();
        let before = self.gauges();
        let gauges = Gauges {
            // What cannot be measured does not change.
            memory_used: memory_used().unwrap_or(before.memory_used),
            memory_limit: limits.memory.bytes(total),
            memory_total: total,
            disk_free: match store.free_bytes() {
                Some(free) => free.unwrap_or(before.disk_free),
                None => 0,
            },
            disk_free_limit: limits.disk_free.bytes(total),
        };
        *self.gauges.lock() = gauges;
        let transient_max = gauges.memory_limit / TRANSIENT_SHARE;
        self.transient_max.store(transient_max, Ordering::Relaxed);
        let has_disk = store.free_bytes().is_some();
        let by_hand = *self.by_hand.lock();
        let alarm = Alarm {
            memory: by_hand.memory || gauges.memory_used > gauges.memory_limit,
            disk: by_hand.disk
                || has_disk
                    && (gauges.disk_free < gauges.disk_free_limit
                        || self.out_of_space.load(Ordering::Relaxed)),
        };
        self.switch(alarm, gauges);

        let memory_room = gauges.memory_limit.abs_diff(gauges.memory_used);
        let disk_room = gauges.disk_free.abs_diff(gauges.disk_free_limit);
        let room = if has_disk {
            memory_room.min(disk_room)
        } else {
            memory_room
        };
        Duration::from_millis(room / FILLS_AT_MOST).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX)
    }

    fn switch(&self, alarm: Alarm, gauges: Gauges) {
        let before = self.alarm();
        if before == alarm {
            return;
        }
        let Gauges {
            memory_used,
            memory_limit,
            disk_free,
            disk_free_limit,
            ..
        } = gauges;
        match (before.memory, alarm.memory) {
            (false, true) => warn!(
                memory_used,
                memory_limit, "memory alarm: publishers wait until less memory is in use"
            ),
            (true, false) => info!(memory_used, memory_limit, "memory alarm is over"),
            _ => {}
        }
        match (before.disk, alarm.disk) {
            (false, true) => warn!(
                disk_free,
                disk_free_limit, "disk alarm: publishers wait until there is more space"
            ),
            (true, false) => info!(disk_free, disk_free_limit, "disk alarm is over"),
            _ => {}
        }
        self.is_on.store(alarm.is_on(), Ordering::Relaxed);
        self.memory.store(alarm.memory, Ordering::Relaxed);
        self.alarm.send_replace(alarm);
    }
}

/// Resident memory that is not a file's: what would be given back if messages went away.
fn memory_used() -> Option<u64> {
    kib_of(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// The machine's memory, or what the control groups allow if that is less. Where nothing can be read, nothing is the limit.
fn memory_total() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| kib_of(&text, "MemTotal:"));
    let groups = fs::read_to_string("/proc/self/cgroup")
        .ok()
        .map(|text| group_limits(&text))
        .unwrap_or_default();
    machine.into_iter().chain(groups).min().unwrap_or(u64::MAX)
}

/// A line of the system's files that ends in kB, in bytes.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// The limits of this process's group and of all above it.
fn group_limits(groups: &str) -> Vec<u64> {
    let files = groups.lines().flat_map(limit_files);
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        // `max` is no limit.
        .filter_map(|text| text.trim().parse().ok())
        .collect()
}

/// Files with the limits of one line of `/proc/self/cgroup`. In a container the path is that of the host, and what is
/// mounted begins with the container's own group: the root is looked at in any case.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, name) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|each| each == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    let below = Path::new(path.trim_start_matches('/'));
    below
        .ancestors()
        .map(|group| Path::new(root).join(group).join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_rabbitmq_reads_them() {
        for (text, amount) in [
            ("50000000", Amount::Bytes(50_000_000)),
            ("0", Amount::Bytes(0)),
            ("50MB", Amount::Bytes(50_000_000)),
            ("2kB", Amount::Bytes(2000)),
            ("2k", Amount::Bytes(2000)),
            ("2Ki", Amount::Bytes(2048)),
            ("1G", Amount::Bytes(1_000_000_000)),
            ("1PiB", Amount::Bytes(1 << 50)),
            ("40%", Amount::Share(0.4)),
            ("2GiB", Amount::Bytes(2 << 30)),
            (" 1 TiB", Amount::Bytes(1 << 40)),
            ("0.6", Amount::Share(0.6)),
            ("1.0", Amount::Share(1.0)),
        ] {
            assert_eq!(text.parse(), Ok(amount), "{text}");
        }
        for text in [
            "",
            "much",
            "-1",
            "1.5GB",
            "0.6x",
            "%",
            "99999999999TB",
            "1..0",
        ] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_of_the_total() {
        assert_eq!(Amount::Share(0.5).bytes(1000), 500);
        assert_eq!(Amount::Share(0.0).bytes(1000), 0);
        assert_eq!(Amount::Bytes(7).bytes(1000), 7);
    }

    #[test]
    fn this_process_uses_memory_and_less_than_there_is() {
        let used = memory_used().expect("the system tells");
        assert!(used > 0);
        assert!(used < memory_total());
    }

    #[test]
    fn limits_of_groups_are_looked_for_up_to_the_root() {
        let files = |line| -> Vec<String> {
            let files = limit_files(line);
            files
                .iter()
                .map(|file| file.display().to_string())
                .collect()
        };
        assert_eq!(
            files("0::/a/b"),
            [
                "/sys/fs/cgroup/a/b/memory.max",
                "/sys/fs/cgroup/a/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            files("4:memory:/"),
            ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
        assert!(files("3:cpu,cpuacct:/a").is_empty());
        assert!(files("nonsense").is_empty());
    }

    #[test]
    fn reasons_are_rabbitmqs() {
        let reason = |memory, disk| Alarm { memory, disk }.reason();
        assert_eq!(reason(true, false), "low on memory");
        assert_eq!(reason(false, true), "low on disk");
        assert_eq!(reason(true, true), "low on memory & disk");
    }
}
