//! Waiting for a process that writes the last of a file system that was unmounted: as long as it
//! makes progress, and with a word on how much is left.
//!
//! While it runs its loop it answers how it is. While it waits for the system to write files
//! (`fsync`) it does not, and sleeps where signals do not reach it, which counts as progress.

use crate::control::registry;
use crate::status::Report;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process without progress for so long is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(30);
/// How often it is looked whether the image is free, and how the process is.
const STEP: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_secs(1);
/// How long the process may take to say how it is.
const ANSWER: Duration = Duration::from_millis(500);

/// What changes while the process makes progress.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// What the file system has not written, and what went to devices.
    Told(u64, Vec<[u64; 2]>),
    /// Bytes that the process has written.
    Silent(Option<u64>),
}

/// A wait for one process.
#[derive(Debug)]
pub(super) struct Waiting {
    pid: u32,
    image: PathBuf,
    progress: Option<Progress>,
    /// Since when there was no progress.
    since: Instant,
    looked: Instant,
}

impl Waiting {
    pub(super) fn new(pid: u32, image: &Path) -> Waiting {
        let now = Instant::now();
        Waiting { pid, image: image.to_owned(), progress: None, since: now, looked: now }
    }

    /// True if it is for that process.
    pub(super) fn is_for(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Waits a little. False if the process is stuck.
    pub(super) fn step(&mut self) -> bool {
        std::thread::sleep(STEP);
        if self.looked.elapsed() >= LOOK {
            self.look();
            self.looked = Instant::now();
        }
        self.since.elapsed() < STUCK
    }

    /// Looks whether there was progress, and says how much is left.
    fn look(&mut self) {
        let report = registry::report_of(self.pid, ANSWER).ok();
        let progress = match &report {
            Some(report) => told(report),
            None => Progress::Silent(written_bytes(self.pid)),
        };
        let goes_on = report.is_none() && is_in_the_kernel(self.pid);
        if goes_on || self.progress.as_ref() != Some(&progress) {
            self.since = Instant::now();
        }
        let left = match &progress {
            Progress::Told(bytes @ 1.., _) => format!("{} of its changes are left", mebi(*bytes)),
            _ => match dirty_bytes() {
                Some(bytes) => format!("this machine has {} left to write to disks", mebi(bytes)),
                None => "its last writes are under way".to_owned(),
            },
        };
        self.progress = Some(progress);
        let (image, pid) = (self.image.display(), self.pid);
        tracing::info!("{image} was unmounted; waiting for process {pid}, which writes it: {left}");
    }
}

fn told(report: &Report) -> Progress {
    let unwritten = report.file_system.as_ref().map_or(0, |files| files.unwritten_bytes);
    let devices = report.devices.iter().map(|one| &one.traffic);
    let all = devices.chain(report.members.iter().map(|one| &one.traffic));
    Progress::Told(unwritten, all.map(|one| [one.writes + one.reads, one.flushes]).collect())
}

fn mebi(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Bytes that a process has written; none if that may not be seen.
fn written_bytes(pid: u32) -> Option<u64> {
    field(&std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?, "write_bytes:")
}

/// What the page cache of the machine has not written.
fn dirty_bytes() -> Option<u64> {
    let all = std::fs::read_to_string("/proc/meminfo").ok()?;
    Some((field(&all, "Dirty:")? + field(&all, "Writeback:")?) << 10)
}

/// The number in the line of a name.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// True if a thread of a process waits in the kernel for a device.
fn is_in_the_kernel(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
        .any(|stat| waits_for_a_device(&stat))
}

/// True if the state in a line of `/proc/PID/stat` is an uninterruptible sleep. The name of the
/// thread before it may hold anything.
fn waits_for_a_device(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "Dirty:             1524 kB\nWriteback:            12 kB\n";
        assert_eq!((field(text, "Dirty:"), field(text, "Writeback:")), (Some(1524), Some(12)));
        assert_eq!(field(text, "Free:"), None);
        assert!(dirty_bytes().is_some(), "this machine says so");
        assert!(waits_for_a_device("7 (ring) D) D 1 7"));
        assert!(!waits_for_a_device("7 (ring) D) S 1 7") && !waits_for_a_device(""));
    }

    #[test]
    fn a_wait_without_progress_ends() {
        let mut waiting = Waiting::new(u32::MAX, Path::new("none"));
        waiting.look();
        let since = waiting.since;
        waiting.look();
        assert_eq!(waiting.since, since, "nothing has changed");
        assert!(waiting.step());
        waiting.since = since.checked_sub(STUCK).expect("the machine has run for that long");
        assert!(!waiting.step());
    }
}
