//! How a process that serves is: what it has done for its clients, what its layout, its devices and
//! the members of an array say of themselves.
//!
//! [`Report`] is the answer to `{"command":"status"}` and the source of everything that shows it:
//! `seekless status`, `seekless top`, the text for Prometheus ([`metrics`]). All counts go on from
//! the start of the process; who wants rates asks twice.

pub mod latency;
pub mod meter;
pub mod metrics;

use latency::Latency;
use parking_lot::Mutex;
use seekless_engine::io::Rebuild;
use seekless_engine::member::Member;
use seekless_engine::node::Node;
use seekless_engine::traffic::{Faults, Traffic};
use seekless_engine::units::BLOCK_BYTES;
use seekless_engine::upkeep::Scrub;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How a process that serves is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of Seekless.
    pub version: String,
    /// Number of the process.
    pub pid: u32,
    /// Nanoseconds since it began to serve.
    pub uptime_ns: u64,
    /// The images, files or block devices; of an array its members in order.
    pub images: Vec<PathBuf>,
    /// Where clients find it: the URI of a server, the directory of a mount.
    pub at: String,
    /// What it is, in words.
    pub description: String,
    /// Name of the layout, if it has one.
    pub layout: Option<String>,
    /// Size as seen by clients.
    pub volume_bytes: u64,
    /// Changes are refused as was asked for.
    pub read_only: bool,
    /// Why changes are refused since an error, if they are.
    pub failed: Option<String>,
    /// Connections that are open.
    pub connections: u64,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// What clients asked for, by kind.
    pub requests: BTreeMap<String, Requests>,
    /// Of the writes, those that covered part of a block, which had to be read first.
    #[serde(default)]
    pub partial_writes: u64,
    /// Counters of the layout.
    pub layout_counters: BTreeMap<String, f64>,
    /// Requests of clients that failed as what is stored is damaged or cannot be reached.
    #[serde(default)]
    pub faults: FaultsReport,
    /// What lies below the layout.
    pub devices: Vec<DeviceReport>,
    /// The members of the array below the layout, in order.
    pub members: Vec<MemberReport>,
    /// How far the filling of a member has come.
    pub rebuild: Option<RebuildReport>,
    /// The scrub of the array that is under way, or the last one.
    pub scrub: Option<ScrubReport>,
    /// The file system, if one is mounted.
    pub file_system: Option<FileSystemReport>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// How many were answered.
    pub count: u64,
    /// How many of them with an error.
    pub errors: u64,
    /// Bytes that they read or wrote.
    pub bytes: u64,
    /// How long they took.
    pub latency: Latency,
}

/// A device below the layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its image, if it has one.
    pub image: Option<PathBuf>,
    /// Size.
    pub bytes: u64,
    /// What went to it.
    #[serde(flatten)]
    pub traffic: TrafficReport,
    /// Requests to it that failed.
    #[serde(default)]
    pub faults: FaultsReport,
    /// How long it was busy, if it is a simulated disk.
    pub busy_ns: Option<u64>,
    /// The cylinder below the head of a simulated disk.
    pub cylinder: Option<u32>,
    /// Its counters, if it keeps some.
    pub counters: BTreeMap<String, f64>,
}

/// Requests that failed since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultsReport {
    /// How many.
    pub count: u64,
    /// Why the last one failed.
    pub last: Option<String>,
}

impl From<Faults> for FaultsReport {
    fn from(faults: Faults) -> FaultsReport {
        FaultsReport { count: faults.count, last: faults.last.map(|error| error.to_string()) }
    }
}

/// Requests to a device, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl From<Traffic> for TrafficReport {
    fn from(traffic: Traffic) -> TrafficReport {
        let Traffic { reads, writes, flushes, trims, blocks_read, blocks_written } = traffic;
        TrafficReport {
            reads,
            writes,
            flushes,
            trims,
            read_bytes: blocks_read * BLOCK_BYTES as u64,
            written_bytes: blocks_written * BLOCK_BYTES as u64,
        }
    }
}

/// A member of an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its image, if it is there.
    pub image: Option<PathBuf>,
    /// `active`, `out` or `rebuilding`.
    pub state: String,
    /// Why it was removed, if that happened since the start.
    pub error: Option<String>,
    /// Blocks that it could not read.
    pub unreadable_blocks: u64,
    /// Blocks that were put right from the others.
    pub healed_blocks: u64,
    /// What went to it.
    #[serde(flatten)]
    pub traffic: TrafficReport,
}

impl MemberReport {
    fn new(member: Member, image: Option<PathBuf>) -> MemberReport {
        MemberReport {
            image,
            state: member.state.to_owned(),
            error: member.error.map(|error| error.to_string()),
            unreadable_blocks: member.unreadable_blocks,
            healed_blocks: member.healed_blocks,
            traffic: member.traffic.into(),
        }
    }
}

/// The filling of a member of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// `running`, `ended` or `failed`.
    pub state: String,
    /// Stripes that are filled.
    pub done_stripes: u64,
    /// Of how many; 0 if it does not run.
    pub stripes: u64,
}

impl From<Rebuild> for RebuildReport {
    fn from(rebuild: Rebuild) -> RebuildReport {
        let (state, done_stripes, stripes) = match rebuild {
            Rebuild::Running { done, stripes } => ("running", done, stripes),
            Rebuild::Ended => ("ended", 0, 0),
            Rebuild::Failed => ("failed", 0, 0),
        };
        RebuildReport { state: state.to_owned(), done_stripes, stripes }
    }
}

/// A scrub of an array that is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// `running`, `ended` or `stopped`.
    pub state: String,
    /// Stripes that were compared.
    pub done_stripes: u64,
    /// Of how many.
    pub stripes: u64,
    /// Rows of blocks in which copies differ or parity does not fit.
    pub mismatched_blocks: u64,
    /// Blocks that a member could not read.
    pub unreadable_blocks: u64,
    /// How many of them were written anew.
    pub repaired_blocks: u64,
}

impl From<Scrub> for ScrubReport {
    fn from(scrub: Scrub) -> ScrubReport {
        ScrubReport {
            state: scrub.state.name().to_owned(),
            done_stripes: scrub.done,
            stripes: scrub.stripes,
            mismatched_blocks: scrub.mismatched,
            unreadable_blocks: scrub.unreadable,
            repaired_blocks: scrub.repaired,
        }
    }
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystemReport {
    /// How writes of metadata are ordered.
    pub policy: String,
    /// Its counters.
    pub counters: BTreeMap<String, f64>,
    /// Bytes of changes that it has not written yet.
    #[serde(default)]
    pub unwritten_bytes: u64,
}

/// Where clients find what is served; it may become known only while it is served.
#[derive(Clone, Debug, Default)]
pub struct At(Arc<Mutex<String>>);

impl At {
    /// A place that is known.
    pub fn new(at: &str) -> At {
        At(Arc::new(Mutex::new(at.to_owned())))
    }

    /// It has become known.
    pub fn set(&self, at: String) {
        *self.0.lock() = at;
    }

    /// As far as it is known.
    pub fn get(&self) -> String {
        self.0.lock().clone()
    }
}

/// What is served, and where: what a report says of it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The images; of an array its members in order.
    pub images: Vec<Option<PathBuf>>,
    /// Where clients find it.
    pub at: At,
    /// What it is, in words.
    pub description: String,
    /// Name of the layout.
    pub layout: Option<&'static str>,
    /// Changes are refused as was asked for.
    pub read_only: bool,
}

impl Report {
    /// What a volume says, and what lies below it; the rest is the driver's to fill in.
    pub fn of_node(node: &Node, served: &Served, now: u64) -> Report {
        let members: Vec<Member> =
            node.devices.iter().flat_map(|device| device.status().members()).collect();
        let is_array = !members.is_empty();
        let image = |index: usize| served.images.get(index).cloned().flatten();
        let accounts = if is_array { Vec::new() } else { node.accounts() };
        let devices = node.devices.iter().zip(node.traffic()).enumerate();
        let devices = devices.map(|(port, (device, traffic))| DeviceReport {
            image: image(port).filter(|_| !is_array),
            bytes: device.blocks() * BLOCK_BYTES as u64,
            traffic: (*traffic).into(),
            faults: node.faults()[port].into(),
            busy_ns: accounts.get(port).map(|account| account.busy_ns()),
            cylinder: device
                .arm()
                .zip(device.head(now))
                .map(|(arm, head)| head.track / arm.tracks_per_cylinder()),
            counters: named(device.status().stats()),
        });
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: now,
            images: served.images.iter().flatten().cloned().collect(),
            at: served.at.get(),
            description: served.description.clone(),
            layout: served.layout.map(str::to_owned),
            volume_bytes: node.layer.blocks() * BLOCK_BYTES as u64,
            read_only: served.read_only,
            failed: node.layer.failed().map(|error| error.to_string()),
            layout_counters: named(node.layer.status().stats()),
            faults: node.answered_faults().into(),
            devices: devices.collect(),
            members: (0..)
                .zip(members)
                .map(|(index, member)| MemberReport::new(member, image(index)))
                .collect(),
            rebuild: node.devices.iter().find_map(|one| one.status().rebuild()).map(Into::into),
            scrub: node.devices.iter().find_map(|one| one.status().scrub()).map(Into::into),
            ..Report::default()
        }
    }

    /// All requests of clients together.
    pub fn total(&self) -> Requests {
        let mut all = Requests::default();
        for one in self.requests.values() {
            all.count += one.count;
            all.errors += one.errors;
            all.bytes += one.bytes;
            all.latency.add(&one.latency);
        }
        all
    }

    /// Share of the writes that covered part of a block; none before there are enough to tell.
    pub fn partial_share(&self) -> Option<f64> {
        let writes = self.requests.get("write").map_or(0, |writes| writes.count);
        (writes >= PARTIAL_LEAST).then(|| self.partial_writes as f64 / writes as f64)
    }

    /// Bytes written below the layout for each byte that clients wrote; none before the first.
    pub fn write_amplification(&self) -> Option<f64> {
        let asked = self.requests.get("write").map_or(0, |writes| writes.bytes);
        let written: u64 = match self.members.as_slice() {
            [] => self.devices.iter().map(|one| one.traffic.written_bytes).sum(),
            members => members.iter().map(|one| one.traffic.written_bytes).sum(),
        };
        (asked > 0).then(|| written as f64 / asked as f64)
    }
}

/// Writes that tell whether many of them cover part of a block.
const PARTIAL_LEAST: u64 = 100;

/// What matters most, in one line.
pub fn line(report: &Report) -> String {
    let total = report.total();
    let of = |kind: &str| report.requests.get(kind).map_or(0, |one| one.count);
    let ms = |share: f64| total.latency.quantile_ns(share).unwrap_or(0) as f64 / 1e6;
    let mut line = format!(
        "status: {:.0} s, {} connections, {} requests in flight; {} reads, {} writes, {} flushes, \
         {} errors; p50 {:.2} ms, p99 {:.2} ms",
        report.uptime_ns as f64 / 1e9,
        report.connections,
        report.in_flight,
        of("read"),
        of("write"),
        of("flush"),
        total.errors,
        ms(0.5),
        ms(0.99)
    );
    if let Some(amplification) = report.write_amplification() {
        line += &format!("; write amplification {amplification:.2}");
    }
    if let Some(RebuildReport { state, done_stripes, stripes }) = &report.rebuild {
        line += &format!("; rebuild {state}");
        if *stripes > 0 {
            line += &format!(" {} %", done_stripes * 100 / stripes);
        }
    }
    if let Some(failed) = &report.failed {
        line += &format!("; READ-ONLY: {failed}");
    }
    line
}

/// Counters by name.
pub fn named(stats: Vec<(&'static str, f64)>) -> BTreeMap<String, f64> {
    stats.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_engine::device::medium::Flat;
    use seekless_engine::device::ram::Ram;
    use seekless_engine::io::Io;
    use seekless_fs::block::plain::Plain;

    #[test]
    fn a_report_counts_what_went_below_and_comes_back_from_json() {
        let mut node = Node::new(
            Box::new(Plain::new(64)),
            vec![Box::new(Ram::volatile(Box::new(Flat::new(64))))],
            1,
        );
        let mut now = 0;
        node.run(&mut now, Io::write(0, 3, Data::zeros(2))).expect("memory");
        node.run(&mut now, Io::read(0, 3, 1)).expect("memory");
        let served = Served { images: vec![Some("disk.img".into())], ..Served::default() };
        let mut report = Report::of_node(&node, &served, 7);
        assert_eq!(report.devices[0].traffic.written_bytes, 8192);
        assert_eq!(report.devices[0].traffic.reads, 1);
        assert_eq!(report.devices[0].image, Some("disk.img".into()));
        assert_eq!(report.write_amplification(), None, "no client has written");
        let writes = Requests { count: 1, bytes: 4096, ..Requests::default() };
        report.requests.insert("write".to_owned(), writes);
        assert_eq!(report.write_amplification(), Some(2.0));
        let text = serde_json::to_string(&report).expect("JSON");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report);
    }
}
