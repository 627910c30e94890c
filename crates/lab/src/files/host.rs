//! What calls cost a host: tables of a CPU as data, and the CPU that is charged.
//!
//! There is one CPU. It runs one call after the other, in the order in which they were made, and
//! overlaps with I/O. What a table's papers do not say is *free*; reports show each figure for half
//! and double of all free costs.

use super::steps::Work;
use seekless_engine::units::Time;
use seekless_fs::call::{Ino, Request};
use seekless_fs::policy::PolicyKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The tables in this crate: name and text.
const TABLES: [(&str, &str); 3] = [
    ("p3-500", include_str!("../../hosts/p3-500.toml")),
    ("ultra170", include_str!("../../hosts/ultra170.toml")),
    ("sparc10", include_str!("../../hosts/sparc10.toml")),
];

/// Nanoseconds of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs {
    lookup: Time,
    make: Time,
    open: Time,
    close: Time,
    read: Time,
    write: Time,
    list: Time,
    unlink: Time,
    /// All other calls.
    other: Time,
    /// Moving 4 KiB between a program and the cache.
    copy_4k: Time,
    /// Each entry of a directory that a search passes: FFS of 2000 had no index.
    scan_entry: Time,
    /// Each request to the volume.
    request: Time,
    /// What soft updates add to a call that changes names.
    soft: Time,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    summary: String,
    cache_mib: u64,
    calibrated: Vec<String>,
    ns: Costs,
}

/// A host whose CPU calls wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub summary: String,
    /// Memory for cached blocks, in bytes.
    pub cache_bytes: u64,
    /// By how much its free costs are multiplied.
    pub factor: f64,
    calibrated: Vec<String>,
    costs: Costs,
}

/// There is no such table, or it is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The name is unknown.
    #[error("no host is called `{0}`; known are none, {known}", known = names().join(", "))]
    Unknown(String),
    /// A table of this crate cannot be read: a defect.
    #[error("the table of {0} is damaged: {1}")]
    Damaged(&'static str, String),
}

/// The names of the tables.
pub fn names() -> Vec<&'static str> {
    TABLES.iter().map(|(name, _)| *name).collect()
}

impl Host {
    /// A host that takes no time, with a cache of 64 MiB.
    pub fn none() -> Host {
        Host {
            name: "none",
            summary: "takes no time".to_owned(),
            cache_bytes: 64 << 20,
            factor: 1.0,
            calibrated: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// The host of a name.
    ///
    /// # Errors
    /// [`HostError::Unknown`].
    pub fn find(name: &str) -> Result<Host, HostError> {
        if name == "none" {
            return Ok(Host::none());
        }
        let found = TABLES.iter().find(|(known, _)| *known == name);
        let &(name, text) = found.ok_or_else(|| HostError::Unknown(name.to_owned()))?;
        let table: Table =
            toml::from_str(text).map_err(|error| HostError::Damaged(name, error.to_string()))?;
        Ok(Host {
            name,
            summary: table.summary,
            cache_bytes: table.cache_mib << 20,
            factor: 1.0,
            calibrated: table.calibrated,
            costs: table.ns,
        })
    }

    /// True if calls take time.
    pub fn takes_time(&self) -> bool {
        self.costs != Costs::default()
    }

    /// The same host under a policy: what the policy adds to calls that change names.
    #[must_use]
    pub fn under(&self, policy: PolicyKind) -> Host {
        let soft = if policy == PolicyKind::Soft { self.costs.soft } else { 0 };
        let Costs { make, unlink, other, .. } = self.costs;
        let (make, unlink, other) = (make + soft, unlink + soft, other + soft);
        Host { costs: Costs { make, unlink, other, ..self.costs }, ..self.clone() }
    }

    /// The same host with its free costs multiplied.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Host {
        let mut host = Host { factor, ..self.clone() };
        let free = |name: &str| !host.calibrated.iter().any(|known| known == name);
        let scaled = |name: &str, cost: Time| match free(name) {
            true => (cost as f64 * factor).round() as Time,
            false => cost,
        };
        let costs = self.costs;
        host.costs = Costs {
            lookup: scaled("lookup", costs.lookup),
            make: scaled("make", costs.make),
            open: scaled("open", costs.open),
            close: scaled("close", costs.close),
            read: scaled("read", costs.read),
            write: scaled("write", costs.write),
            list: scaled("list", costs.list),
            unlink: scaled("unlink", costs.unlink),
            other: scaled("other", costs.other),
            copy_4k: scaled("copy_4k", costs.copy_4k),
            scan_entry: scaled("scan_entry", costs.scan_entry),
            request: scaled("request", costs.request),
            soft: scaled("soft", costs.soft),
        };
        host
    }
}

/// The CPU of a host while a program runs.
#[derive(Debug)]
pub struct Cpu {
    host: Host,
    free_at: Time,
    /// Time it was busy.
    pub busy_ns: Time,
    /// Entries of directories, as far as they are known.
    entries: BTreeMap<Ino, u64>,
}

impl Cpu {
    /// An idle CPU.
    pub fn new(host: Host) -> Cpu {
        Cpu { host, free_at: 0, busy_ns: 0, entries: BTreeMap::new() }
    }

    /// When a call that is made now has had its CPU time.
    pub fn run(&mut self, now: Time, request: &Request) -> Time {
        let cost = self.cost(request);
        self.spend(now, cost)
    }

    /// When a program that computes from now on has had its CPU time.
    pub fn compute(&mut self, now: Time, work: Work) -> Time {
        let factor = if work.is_free { self.host.factor } else { 1.0 };
        self.spend(now, (work.ns as f64 * factor).round() as Time)
    }

    /// Requests to the volume were started.
    pub fn started(&mut self, now: Time, requests: u64) {
        self.spend(now, requests * self.host.costs.request);
    }

    fn spend(&mut self, now: Time, cost: Time) -> Time {
        self.busy_ns += cost;
        self.free_at = self.free_at.max(now) + cost;
        self.free_at
    }

    fn cost(&self, request: &Request) -> Time {
        let costs = &self.host.costs;
        let copied = |bytes: u64| bytes * costs.copy_4k / 4096;
        // A search that succeeds passes half of the entries, one that fails all of them.
        let scan = |dir: &Ino, part: u64| {
            self.entries.get(dir).copied().unwrap_or(0) * costs.scan_entry / part
        };
        match request {
            Request::Lookup { dir, .. } => costs.lookup + scan(dir, 2),
            Request::Make { dir, .. } => costs.make + scan(dir, 1),
            Request::Link { dir, .. } => costs.other + scan(dir, 1),
            Request::Unlink { dir, .. } | Request::RmDir { dir, .. } => costs.unlink + scan(dir, 2),
            Request::Rename { dir, to_dir, .. } => costs.other + scan(dir, 2) + scan(to_dir, 1),
            Request::Open { .. } => costs.open,
            Request::Release { .. } => costs.close,
            Request::Read { length, .. } => costs.read + copied(u64::from(*length)),
            Request::Write { data, .. } => costs.write + copied(data.len() as u64),
            Request::List { .. } => costs.list,
            Request::Forget { .. } => 0,
            _ => costs.other,
        }
    }

    /// A call has succeeded: notes what became of directories.
    pub fn succeeded(&mut self, request: &Request) {
        let (dir, by) = match request {
            Request::Make { dir, .. } | Request::Link { dir, .. } => (dir, 1),
            Request::Unlink { dir, .. } | Request::RmDir { dir, .. } => (dir, -1),
            _ => return,
        };
        let entries = self.entries.entry(*dir).or_default();
        *entries = entries.saturating_add_signed(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn every_table_can_be_read() {
        for name in names() {
            let host = Host::find(name).expect("a table of this crate");
            assert!(host.takes_time() && host.cache_bytes > 0, "{name}");
        }
        assert!(!Host::find("none").expect("always there").takes_time());
        let error = Host::find("pdp11").expect_err("there is none");
        assert!(error.to_string().contains("p3-500"), "{error}");
    }

    #[test]
    fn what_is_calibrated_is_not_scaled() {
        let host = Host::find("p3-500").expect("a table of this crate");
        let double = host.scaled(2.0);
        assert_eq!(double.costs.make, host.costs.make);
        assert_eq!(double.costs.lookup, 2 * host.costs.lookup);
        // Claim J20: 109 us for make, close and unlink of an empty file.
        let pair = |host: &Host| host.costs.make + host.costs.close + host.costs.unlink;
        assert_eq!(pair(&host), 109_000);
        // Claim J38: 21 us more under soft updates.
        assert_eq!(pair(&host.under(PolicyKind::Soft)), 130_000);
        assert_eq!(pair(&double.under(PolicyKind::Soft)), 130_000);
        assert_eq!(host.under(PolicyKind::Sync), host);
    }

    #[test]
    fn a_program_computes_behind_calls_and_only_free_work_is_scaled() {
        let mut cpu = Cpu::new(Host::find("p3-500").expect("a table of this crate").scaled(2.0));
        let open = Request::Open { ino: 2, truncate: false };
        assert_eq!(cpu.run(0, &open), 16_000);
        assert_eq!(cpu.compute(0, Work { ns: 500, is_free: false }), 16_500);
        assert_eq!(cpu.compute(0, Work { ns: 500, is_free: true }), 17_500);
        assert_eq!(cpu.busy_ns, 17_500);
    }

    #[test]
    fn calls_run_one_after_the_other_and_searches_cost_more_in_large_directories() {
        let mut cpu = Cpu::new(Host::find("p3-500").expect("a table of this crate"));
        let make = Request::Make {
            dir: 2,
            name: Bytes::from_static(b"a"),
            what: seekless_fs::call::New::File,
            mode: 0o644,
            open: true,
        };
        assert_eq!(cpu.run(10, &make), 55_010);
        assert_eq!(cpu.run(10, &make), 110_010, "behind the first");
        for _ in 0..100 {
            cpu.succeeded(&make);
        }
        assert_eq!(cpu.run(1_000_000, &make), 1_059_000);
    }
}
