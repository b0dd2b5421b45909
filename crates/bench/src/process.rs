//! What a broker costs the machine, read from `/proc`: the process and everything it started.
//!
//! The times of children that have ended are part of their parent's (`cutime`, `cstime`), so the sum over the process tree
//! never runs backwards when a helper comes or goes. Threads are part of their process in every figure.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The figures of a process tree at one moment; the difference of two is the cost of what happened between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessUse {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    /// Memory that is there now.
    pub(crate) rss_bytes: u64,
    /// The most memory that was ever there, since the processes started.
    pub(crate) rss_peak_bytes: u64,
    /// How often a thread went to sleep.
    pub(crate) voluntary_switches: u64,
    /// How often a thread was pushed aside.
    pub(crate) involuntary_switches: u64,
    /// What went to the disk; 0 when the system does not tell.
    pub(crate) disk_written_bytes: u64,
}

impl ProcessUse {
    /// What was spent since `before`. Memory is not spent: it stays as it is now.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            rss_bytes: self.rss_bytes,
            rss_peak_bytes: self.rss_peak_bytes,
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
            disk_written_bytes: self
                .disk_written_bytes
                .saturating_sub(before.disk_written_bytes),
        }
    }

    fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.rss_bytes += other.rss_bytes;
        self.rss_peak_bytes += other.rss_peak_bytes;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.disk_written_bytes += other.disk_written_bytes;
    }
}

/// The process with this id together with everything it started.
pub(crate) fn sample_tree(pid: u32) -> io::Result<ProcessUse> {
    let mut total = sample(pid)?;
    for child in descendants(pid) {
        // It may have ended meanwhile; then its time is in its parent's.
        if let Ok(used) = sample(child) {
            total.add(&used);
        }
    }
    Ok(total)
}

/// The bench itself.
pub(crate) fn sample_self() -> ProcessUse {
    sample(std::process::id()).unwrap_or_default()
}

/// Memory of one process now; cheap enough to ask several times a second.
pub(crate) fn rss_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(file(pid, "status")).ok()?;
    status_kib(&status, "VmRSS").map(|kib| kib * 1024)
}

/// Lets the bench open as many connections as the system allows; most allow 1024 unless asked for more.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where this is refused, connecting fails later and says so.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn sample(pid: u32) -> io::Result<ProcessUse> {
    let stat = fs::read_to_string(file(pid, "stat"))?;
    let ticks = parse_stat(&stat)
        .ok_or_else(|| io::Error::other(format!("cannot read /proc/{pid}/stat")))?
        .ticks;
    let status = fs::read_to_string(file(pid, "status"))?;
    let (voluntary_switches, involuntary_switches) = switches(pid);
    let io_text = fs::read_to_string(file(pid, "io")).unwrap_or_default();
    let kib = |key| status_kib(&status, key).unwrap_or_default() * 1024;
    Ok(ProcessUse {
        cpu: Duration::from_millis(ticks * 1000 / clock_ticks_per_second().max(1)),
        rss_bytes: kib("VmRSS"),
        rss_peak_bytes: kib("VmHWM"),
        voluntary_switches,
        involuntary_switches,
        disk_written_bytes: number_of(&io_text, "write_bytes").unwrap_or_default(),
    })
}

/// Unlike the times, the switches in a process's `status` are those of its first thread alone.
fn switches(pid: u32) -> (u64, u64) {
    let Ok(threads) = fs::read_dir(file(pid, "task")) else {
        return (0, 0);
    };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .fold((0, 0), |(voluntary, involuntary), status| {
            (
                voluntary + number_of(&status, "voluntary_ctxt_switches").unwrap_or_default(),
                involuntary + number_of(&status, "nonvoluntary_ctxt_switches").unwrap_or_default(),
            )
        })
}

fn descendants(root: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(file(pid, "stat")).ok()?;
            Some((pid, parse_stat(&stat)?.parent))
        })
        .collect();
    below(root, &parents)
}

/// All processes below `root`, given each process with its parent.
fn below(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let children = parents
            .iter()
            .filter(|&&(pid, of)| of == parent && pid != root);
        found.extend(children.map(|&(pid, _)| pid));
        at += 1;
    }
    found.split_off(1)
}

struct Stat {
    parent: u32,
    ticks: u64,
}

/// `pid (name) state ppid …`, times in fields 14 to 17. The name may hold anything, brackets and spaces too.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, behind_name) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let mut ticks = 0;
    for field in fields.get(11..15)? {
        ticks += field.parse::<u64>().ok()?;
    }
    Some(Stat { parent, ticks })
}

fn status_kib(status: &str, key: &str) -> Option<u64> {
    number_of(status, key)
}

/// The number in a line `key:  number …`.
fn number_of(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.split_ascii_whitespace().next()?.parse().ok())
}

fn file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::{below, number_of, parse_stat, sample_self};

    #[test]
    fn times_are_found_behind_a_name_with_brackets() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 9 0 1000 1 1";
        let stat = parse_stat(stat).unwrap();
        assert_eq!(stat.parent, 3);
        assert_eq!(stat.ticks, 11 + 22 + 33 + 44);
    }

    #[test]
    fn a_line_of_a_status_file_is_found_by_its_whole_name() {
        let status = "VmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nnonvoluntary_ctxt_switches:\t5\n\
                      voluntary_ctxt_switches:\t7\n";
        assert_eq!(number_of(status, "VmRSS"), Some(1024));
        assert_eq!(number_of(status, "voluntary_ctxt_switches"), Some(7));
        assert_eq!(number_of(status, "VmSwap"), None);
    }

    #[test]
    fn grandchildren_belong_to_the_tree() {
        let parents = [(2, 1), (10, 2), (11, 10), (12, 10), (20, 1), (21, 20)];
        let mut tree = below(10, &parents);
        tree.sort_unstable();
        assert_eq!(tree, [11, 12]);
        let mut tree = below(2, &parents);
        tree.sort_unstable();
        assert_eq!(tree, [10, 11, 12]);
    }

    #[test]
    fn the_bench_can_read_itself() {
        assert!(sample_self().rss_bytes > 0);
    }
}
