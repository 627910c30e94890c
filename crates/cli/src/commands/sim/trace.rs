//! What `seekless sim` replays in place of a described workload: trace files, a generated
//! database, and described workloads behind a buffer pool.

use crate::failure::Failure;
use clap::ValueEnum;
use ruzstd::decoding::StreamingDecoder;
use seekless_engine::size::Size;
use seekless_engine::span::Span;
use seekless_lab::driver::{MAX_USERS, Pacing, PoolOptions, ReplayOptions};
use seekless_lab::news::{self, News};
use seekless_lab::sim::Load;
use seekless_lab::system::{self, System};
use seekless_lab::tpcc::{self, Tpcc};
use seekless_lab::trace::{Action, Lines, Mapping, Record, Records, TraceError};
use seekless_lab::workload::{Generator, Request, Workload};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Largest factor for --speed.
const MOST_SPEED: f64 = 1e6;

/// Flags of `seekless sim` about traces and users.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Replay a trace: lines of time in seconds, flags (R, WS, FWFS, D…), first sector of 512 bytes
    /// and number of sectors, as the kernel's `block_bio_queue` has them, plain or compressed with
    /// zstd.
    #[arg(long, value_name = "FILE", help_heading = "Traces and users")]
    #[arg(conflicts_with_all = ["generate", "pattern", "read_share", "size", "depth", "idle",
                                "no_fua", "flush_every", "range"])]
    trace: Option<PathBuf>,
    /// Replay generated records, scaled to the volume: `tpcc` as a database under TPC-C, `news` as
    /// a file system with news, `system` as a root file system with swap space.
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Traces and users")]
    #[arg(conflicts_with_all = ["pattern", "read_share", "size", "depth", "idle", "no_fua",
                                "flush_every", "range"])]
    generate: Option<Generate>,
    /// Whether records begin at their times (open), or when a user is idle (closed). [default: open
    /// for traces with times, closed otherwise]
    #[arg(long = "loop", value_enum, value_name = "KIND", help_heading = "Traces and users")]
    pacing: Option<Loop>,
    /// In an open loop, how much faster than recorded.
    #[arg(long, value_name = "X", default_value_t = 1.0, help_heading = "Traces and users")]
    speed: f64,
    /// In a closed loop, users without think time; each takes the next record when its last one
    /// completes. Described workloads: the same as --depth.
    #[arg(long, value_name = "N", conflicts_with = "depth", help_heading = "Traces and users")]
    users: Option<u32>,
    /// How addresses of the trace map to the volume: in chunks of 256 KiB in the order of first
    /// use, or block by block, folded onto a smaller volume.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Map::Touch)]
    #[arg(help_heading = "Traces and users")]
    map: Map,
    /// A buffer pool of this size between users and volume: least recently used, write-back.
    /// Described writes are then not forced to the medium.
    #[arg(long, value_name = "SIZE", conflicts_with = "idle", help_heading = "Traces and users")]
    pool: Option<Size>,
    /// Write the 64 least recently used changed blocks of the pool this often, in the background.
    #[arg(long, value_name = "SPAN", requires = "pool", help_heading = "Traces and users")]
    pool_clean: Option<Span>,
}

/// Generated workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Generate {
    /// Page references of a database under TPC-C.
    Tpcc,
    /// Requests of a file system with news.
    News,
    /// Requests to a system disk with the root file system and swap space.
    System,
}

impl Generate {
    fn title(self) -> &'static str {
        match self {
            Generate::Tpcc => "synthetic TPC-C",
            Generate::News => "synthetic news",
            Generate::System => "synthetic system disk",
        }
    }

    /// The generator for a volume of so many blocks. A volume that is too small is an error.
    fn records(self, volume: u64, seed: u64) -> Result<Records<'static>, TraceError> {
        let fewest = match self {
            Generate::Tpcc => tpcc::FEWEST_BLOCKS,
            Generate::News => news::FEWEST_BLOCKS,
            Generate::System => system::FEWEST_BLOCKS,
        };
        if volume < fewest {
            let problem =
                format!("it needs a volume of {fewest} blocks of 4 KiB, this one has {volume}");
            return Err(TraceError::Read { name: self.title().to_owned(), problem });
        }
        Ok(match self {
            Generate::Tpcc => Box::new(Tpcc::new(volume, seed).map(Ok)),
            Generate::News => Box::new(News::new(volume, seed).map(Ok)),
            Generate::System => Box::new(System::new(volume, seed).map(Ok)),
        })
    }
}

/// When records begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// At their times.
    Open,
    /// When a user is idle.
    Closed,
}

/// How addresses of a trace map to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Map {
    /// In the order of first use.
    Touch,
    /// Block by block.
    Fold,
}

impl TraceArgs {
    /// The number of users, if given.
    pub(super) fn users(&self) -> Option<u32> {
        self.users
    }

    /// The source of the replay, if there is one. `described` is used only behind a pool.
    pub(super) fn load(
        &self,
        described: &Workload,
        requests: Option<u64>,
        warm_up: u64,
        seed: u64,
    ) -> Result<Option<Load<'static>>, Failure> {
        let replayed = self.trace.is_some() || self.generate.is_some();
        if !replayed && self.pool.is_none() {
            self.refuse_what_needs_a_trace()?;
            return Ok(None);
        }
        let replay = self.replay(described)?;
        let mut load = Load {
            name: String::new(),
            open: Box::new(|_| Ok(Box::new(std::iter::empty()))),
            replay,
            requests,
            warm_up,
        };
        if let Some(path) = &self.trace {
            let path = path.clone();
            let timed = matches!(load.replay.pacing, Pacing::Open { .. });
            load.name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into());
            // Report defects of the file before the volume is filled, which takes long.
            if let Some(first) = open(&path, timed)?.next() {
                first?;
            }
            load.open = Box::new(move |_| open(&path, timed));
        } else if let Some(generate) = self.generate {
            load.name = generate.title().to_owned();
            load.requests = Some(requests.unwrap_or(super::REQUESTS));
            load.open = Box::new(move |volume| generate.records(volume, seed));
        } else {
            load.name = "described workload".to_owned();
            load.requests = Some(described.requests);
            load.warm_up = described.warm_up;
            let workload = Workload { fua: false, ..described.clone() };
            load.open = Box::new(move |volume| Ok(spelled_out(&workload, volume, seed)));
        }
        Ok(Some(load))
    }

    fn refuse_what_needs_a_trace(&self) -> Result<(), Failure> {
        let flag = match (self.pacing, self.map) {
            (Some(_), _) => "--loop",
            (_, Map::Fold) => "--map",
            _ if self.speed != 1.0 => "--speed",
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("{flag}: there is no trace")).hint("name one: --trace FILE"))
    }

    fn replay(&self, described: &Workload) -> Result<ReplayOptions, Failure> {
        if self.users.is_some_and(|users| users == 0 || users > MAX_USERS) {
            return Err(Failure::usage(format!("--users: must be 1 to {MAX_USERS}")));
        }
        if !(self.speed > 0.0 && self.speed <= MOST_SPEED) {
            let problem =
                format!("--speed {}: must lie above 0 and be at most {MOST_SPEED}", self.speed);
            return Err(Failure::usage(problem));
        }
        if self.pool_clean.is_some_and(|span| span.ns == 0) {
            return Err(Failure::usage("--pool-clean 0s: the background writes after some time")
                .hint("leave it out, and blocks are written when others take their place"));
        }
        let timed = self.trace.is_some();
        let by_default = if timed && self.users.is_none() { Loop::Open } else { Loop::Closed };
        let pacing = match self.pacing.unwrap_or(by_default) {
            Loop::Open if !timed => {
                return Err(Failure::usage("--loop open: only traces have times")
                    .hint("say how many users there are: --users"));
            }
            Loop::Open if self.users.is_some() => {
                return Err(Failure::usage("--users: an open loop has no users")
                    .hint("choose --loop closed"));
            }
            Loop::Closed if self.speed != 1.0 => {
                return Err(Failure::usage("--speed: a closed loop keeps no times"));
            }
            Loop::Open => Pacing::Open { speed: self.speed },
            Loop::Closed => {
                let depth = if self.generate.is_none() && !timed { described.depth } else { 1 };
                Pacing::Closed { users: self.users.unwrap_or(depth) }
            }
        };
        let mapping =
            if timed && self.map == Map::Touch { Mapping::FirstTouch } else { Mapping::Fold };
        let pool = self.pool.map(|size| PoolOptions {
            blocks: size.blocks().min(u64::from(u32::MAX - 1)),
            clean_every: self.pool_clean.map(|span| span.ns),
        });
        Ok(ReplayOptions { pacing, mapping, pool })
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        Failure::from_message(crate::failure::Exit::Usage, &error.to_string())
    }
}

/// A described workload as a stream of records.
fn spelled_out(workload: &Workload, volume: u64, seed: u64) -> Records<'static> {
    let count = u64::from(workload.request_blocks);
    let mut generator = Generator::new(workload, workload.range_blocks(volume), seed, "workload");
    let next = move || {
        let record = match generator.next_request() {
            Request::Flush => Record::of_blocks(Action::Flush, 0, 0),
            Request::Read { at } => Record::of_blocks(Action::Read, at, count),
            Request::Write { at } => Record::of_blocks(Action::Write, at, count),
        };
        Some(Ok(record))
    };
    Box::new(std::iter::from_fn(next))
}

/// The first bytes of what zstd compressed.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Opens a trace and decompresses it as it is read; where records are `timed`, times must not run
/// backwards.
fn open(path: &Path, timed: bool) -> Result<Records<'static>, TraceError> {
    let name = path.display().to_string();
    let failed =
        |error: io::Error| TraceError::Read { name: name.clone(), problem: error.to_string() };
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    if file.fill_buf().map_err(failed)?.starts_with(&ZSTD_MAGIC) {
        let text = BufReader::with_capacity(1 << 16, Frames::new(file));
        return Ok(lines(&name, text, timed));
    }
    Ok(lines(&name, file, timed))
}

fn lines(name: &str, reader: impl BufRead + 'static, timed: bool) -> Records<'static> {
    let lines = Lines::new(name, reader);
    Box::new(if timed { lines.in_order() } else { lines })
}

/// Decompresses frames of zstd, one after the other, and compares their checksums.
struct Frames<R: BufRead> {
    /// The source between frames.
    between: Option<R>,
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Frames<R> {
        Frames { between: Some(source), frame: None }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut source) = self.between.take() {
                if source.fill_buf()?.is_empty() {
                    self.between = Some(source);
                    return Ok(0);
                }
                self.frame = Some(StreamingDecoder::new(source).map_err(io::Error::other)?);
            }
            // After an error neither is left: the stream ends.
            let Some(mut frame) = self.frame.take() else { return Ok(0) };
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                self.frame = Some(frame);
                return Ok(read);
            }
            let stored = frame.decoder.get_checksum_from_data();
            if stored.is_some() && stored != frame.decoder.get_calculated_checksum() {
                return Err(io::Error::other("the compressed data are damaged: wrong checksum"));
            }
            self.between = Some(frame.into_inner());
        }
    }
}
