//! Controller, bus and cache.

use super::is_default;
use serde::{Deserialize, Serialize};

/// How a disk without [`Cache`] reads ahead into its track buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// From the end of a read on, up to the fence or the end of the track. Sectors before the
    /// current request are dropped.
    Forward,
    /// The whole track from the first sector under the head; kept until another track is needed.
    WholeTrack,
}

/// Track buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Policy.
    pub read_ahead: ReadAhead,
    /// How far ahead it reads, in sectors.
    pub fence_sectors: u32,
    /// Rate at which buffered data reaches the host, in 10⁶ bytes per second.
    pub bus_mb_per_s: f64,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { read_ahead: ReadAhead::None, fence_sectors: 0, bus_mb_per_s: 10.0 }
    }
}

/// The way to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Time for a sector of 512 bytes to the host.
    pub read_sector_ms: f64,
    /// Time for a sector of 512 bytes from the host.
    pub write_sector_ms: f64,
    /// Time of arbitration for the bus, once for each transfer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arbitration_ms: f64,
    /// Share of a read, from 0 to 1, that must have come from the platter before the disk takes the
    /// bus to send it. 0 means that the first sector is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_watermark: f64,
    /// The same as a number of sectors, if that is more; at most the length of the read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_watermark_sectors: u32,
}

/// Costs of commands in the controller, by the content of the cache and the command before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// A read that finds its first sector in the cache, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub read_hit_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub read_hit_after_write_ms: f64,
    /// A read that goes to the platter, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub read_miss_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub read_miss_after_write_ms: f64,
    /// A write that continues what the cache holds, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub write_hit_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub write_hit_after_write_ms: f64,
    /// Any other write, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub write_miss_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub write_miss_after_write_ms: f64,
    /// A write that is reported early, whatever came before it. Without this it costs as much as
    /// any other write.
    #[serde(skip_serializing_if = "is_default")]
    pub early_write_ms: Option<f64>,
    /// The same for one that continues what the cache holds; by default as much.
    #[serde(skip_serializing_if = "is_default")]
    pub early_contiguous_write_ms: Option<f64>,
    /// The first sector of a write to the platter passes no earlier than this after the command
    /// was taken up.
    #[serde(skip_serializing_if = "is_default")]
    pub write_lead_ms: f64,
    /// And so much later for each sector of the write.
    #[serde(skip_serializing_if = "is_default")]
    pub write_lead_sector_ms: f64,
    /// At the end of a read.
    #[serde(skip_serializing_if = "is_default")]
    pub read_completion_ms: f64,
    /// At the end of a write.
    #[serde(skip_serializing_if = "is_default")]
    pub write_completion_ms: f64,
    /// The head is over the first sector of a write no earlier than this after the command was
    /// taken up, however short the way.
    #[serde(skip_serializing_if = "is_default")]
    pub minimum_seek_delay_ms: f64,
    /// Before data moves.
    #[serde(skip_serializing_if = "is_default")]
    pub data_preparation_ms: f64,
    /// To reconnect to the bus.
    #[serde(skip_serializing_if = "is_default")]
    pub reselect_ms: f64,
    /// The same for the second time within a write, see [`ExtraDisconnect`].
    #[serde(skip_serializing_if = "is_default")]
    pub later_reselect_ms: f64,
    /// Disconnection of a read that goes to the platter, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub read_disconnect_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub read_disconnect_after_write_ms: f64,
    /// Disconnection of a write when its data has come.
    #[serde(skip_serializing_if = "is_default")]
    pub write_disconnect_ms: f64,
    /// Some disks disconnect once more within a write.
    #[serde(skip_serializing_if = "is_default")]
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// A write that follows a write and does not continue it disconnects before its data has come.
/// These times then take the place of the overhead of a write and of its disconnect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraDisconnect {
    /// The command in the controller.
    pub command_ms: f64,
    /// To disconnect after that.
    pub disconnect_ms: f64,
    /// From there until the disk wants the bus again.
    pub gap_ms: f64,
    /// To disconnect again when the data has come.
    pub second_disconnect_ms: f64,
    /// The arm starts so long after the command was decoded.
    pub seek_delta_ms: f64,
}

/// Extent of read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefetch {
    /// Not at all.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track; where the read came in sequence, to the end of the next track.
    SequentialTrack,
}

/// When a write is reported complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FastWrite {
    /// When its last sector is on the platter.
    #[default]
    None,
    /// Every write is reported when the cache has it, one write going to the platter at a time.
    Any,
}

/// Segmented cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Segments.
    pub segments: u32,
    /// Sectors in each.
    pub segment_sectors: u32,
    /// Segments that may hold written data.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub write_segments: u32,
    /// Written data has a segment of its own, that reads never use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub separate_write_segment: bool,
    /// A read that finds nothing empties all segments: only a read that continues the one before
    /// hits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forgets: bool,
    /// Read-ahead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead: Prefetch,
    /// The disk reads ahead from the n-th read of a sequence on: 1 is always, 2 leaves out a read
    /// that continues no other.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub read_ahead_from: u32,
    /// Sectors read ahead in any case: a command that needs the arm waits for them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_read_ahead: u32,
    /// Sectors read ahead at most; 0 is without limit but that of the segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_read_ahead: u32,
    /// Sectors read ahead may replace sectors that the host has received.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_over_requested: bool,
    /// A hit on a segment whose read-ahead has ended starts it again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_ahead_on_idle_hit: bool,
    /// A command that comes stops the read-ahead at the next sector rather than at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stops_at_sector: bool,
    /// Reads may be served from written data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_hits_on_writes: bool,
    /// While the head waits for the first sector of a read it takes those before it into the
    /// segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reads_free_sectors: bool,
    /// Zero-latency reads: begins with any sector of the request that passes first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_latency_reads: bool,
    /// Zero-latency writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_latency_writes: bool,
    /// When writes are reported.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fast_write: FastWrite,
    /// Writes that continue what the cache holds join it and reach the platter in one go; else each
    /// goes there separately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub combine_writes: bool,
    /// A write-back cache, which FLUSH empties and a power cut loses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_back: Option<WriteBack>,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            segments: 1,
            segment_sectors: 64,
            write_segments: 1,
            separate_write_segment: false,
            forgets: false,
            read_ahead: Prefetch::None,
            read_ahead_from: 1,
            min_read_ahead: 0,
            max_read_ahead: 0,
            read_ahead_over_requested: false,
            read_ahead_on_idle_hit: false,
            stops_at_sector: false,
            read_hits_on_writes: false,
            reads_free_sectors: false,
            zero_latency_reads: false,
            zero_latency_writes: false,
            fast_write: FastWrite::None,
            combine_writes: false,
            write_back: None,
        }
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(value: &u32) -> bool {
    *value == 1
}

/// A volatile write-back cache: writes are reported when it has them. They go to the platter while
/// the disk is idle, in sweeps over the disk. Once more than half of the cache is taken, the disk
/// does not wait for idleness. FLUSH empties it, a write with FUA bypasses it, and a power cut
/// loses its content.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBack {
    /// Sectors of 512 bytes that may wait.
    pub sectors: u32,
    /// Pieces of consecutive sectors that may wait; beyond that the next write waits until one
    /// has reached the platter.
    pub writes: u32,
    /// After this long without a command the disk starts to write out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_ms: f64,
}
