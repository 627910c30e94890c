//! A recording in memory: its history, and its states as images.
//!
//! A recording of a disk has images of disks, one of calls has trees of a directory.

mod crash_image;

pub use crash_image::{CrashImage, Ground};

use crate::record::tape::{self, Payload, Recording, TapeEnd, TapeError, What};
use crate::replay::extents::Extents;
use crate::replay::image::{Image, Source};
use crate::states::history::{Epoch, Event, History, Kind};
use crate::states::state::{Fate, State, ranges};
use seekless_calls::model::Modelled;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to load.
#[derive(Clone, Copy, Debug)]
pub struct Load<'p> {
    /// The recording.
    pub recording: &'p Path,
    /// Content of the export before the recording.
    pub base: Option<&'p Path>,
}

/// A defect of the end of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The defect, and how much of the recording is used.
    pub said: String,
    /// Why "no state is bad" does not suffice.
    pub doubt: String,
    /// The remedy.
    pub remedy: String,
}

/// A recording ready to be replayed.
#[derive(Debug)]
pub struct Session {
    history: History,
    /// The recording of a disk; `None` for one of calls.
    disk: Option<DiskRecording>,
}

#[derive(Debug)]
struct DiskRecording {
    /// The content of each write of the history.
    payloads: Vec<Payload>,
    source: Arc<Source>,
    end: TapeEnd,
}

/// Why a recording or its base cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The recording.
    #[error("{}: {source}", .path.display())]
    Tape {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: TapeError,
    },
    /// The base cannot be read.
    #[error("--base {}: {source}", .path.display())]
    Base {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The base is a directory, a pipe or the like.
    #[error(
        "--base {} is neither a file nor a block device; the base is what the export held when \
         the recording began",
        .0.display()
    )]
    NoImage(PathBuf),
    /// The base has another size than the export.
    #[error(
        "--base {} has {found} bytes, the recorded export {size}; the base is what the export \
         itself held (as nbdcopy reads it), not what lies below",
        .path.display()
    )]
    Size {
        /// Its path.
        path: PathBuf,
        /// Its size in bytes.
        found: u64,
        /// That of the export.
        size: u64,
    },
}

impl Load<'_> {
    /// Reads the whole recording.
    ///
    /// # Errors
    /// If the file is not a recording, or the base does not fit.
    pub fn session(&self) -> Result<Session, LoadError> {
        let unusable =
            |source: TapeError| LoadError::Tape { path: self.recording.to_owned(), source };
        let os = |error| unusable(TapeError::Os(error));
        let file = File::open(self.recording).map_err(os)?;
        let reader = BufReader::with_capacity(1 << 20, file.try_clone().map_err(os)?);
        let mut recording = Recording::open(reader).map_err(unusable)?;
        let tape::Header { size_bytes, multi_conn, second } = recording.header();
        let mut history = History::new(size_bytes, multi_conn).with_second(second);
        let mut payloads = Vec::new();
        while let Some(event) = recording.next_event().map_err(os)? {
            let (event, payload) = as_history(&event, recording.mark());
            history.push(event);
            payloads.extend(payload);
        }
        // The loop sets it when it reaches the end.
        let end = recording.end().unwrap_or(TapeEnd::Clean);
        let base = self.base.map(|path| base(path, size_bytes)).transpose()?;
        let source = Arc::new(Source::new(base, file, size_bytes).with_second(second));
        Ok(Session { history, disk: Some(DiskRecording { payloads, source, end }) })
    }
}

/// Opens the base and compares its size.
fn base(path: &Path, size: u64) -> Result<File, LoadError> {
    let bad = |source| LoadError::Base { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(bad)?;
    let kind = file.metadata().map_err(bad)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(LoadError::NoImage(path.to_owned()));
    }
    let found = file.seek(SeekFrom::End(0)).map_err(bad)?;
    match found == size {
        true => Ok(file),
        false => Err(LoadError::Size { path: path.to_owned(), found, size }),
    }
}

/// Converts an event of the recording to one of the history, and the content it wrote. `mark` is
/// the value if the event is a mark.
fn as_history(event: &tape::Event, mark: &str) -> (Event, Option<Payload>) {
    let tape::Event { connection, number, what } = *event;
    let write = |offset, length: u32, fua, kind| Event::Write {
        number,
        connection,
        offset,
        length: u64::from(length),
        kind,
        fua,
    };
    match what {
        What::Write { offset, length, fua, payload } => {
            (write(offset, length, fua, Kind::Data), Some(payload))
        }
        What::Zeros { offset, length, fua, .. } => {
            (write(offset, length, fua, Kind::Zeros), Some(Payload::Zeros))
        }
        What::Trim { offset, length, fua } => {
            (write(offset, length, fua, Kind::Trim), Some(Payload::Zeros))
        }
        What::Flush => (Event::Flush { number, connection }, None),
        What::Answer { errno } => (Event::Answer { number, failed: errno != 0 }, None),
        What::Begin => (Event::Begin, None),
        What::Mark { .. } => (Event::Mark { value: mark.into() }, None),
    }
}

impl Session {
    /// A recording of calls under a model.
    pub fn of_calls(calls: Arc<Modelled>) -> Session {
        Session { history: History::of_calls(calls), disk: None }
    }

    fn disk(&self) -> &DiskRecording {
        self.disk.as_ref().expect("a recording of calls has trees, not images of disks")
    }

    /// The requests and answers of a recording.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The event with which the workload begins.
    pub fn begin(&self) -> u64 {
        self.history.begin()
    }

    /// The bytes of a write of the history, as far as they are on the recording of a disk.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn payload(&self, write: usize, most: usize) -> io::Result<Vec<u8>> {
        let length = self.history.writes()[write].length.min(most as u64) as usize;
        let mut bytes = vec![0; length];
        let disk = self.disk();
        if let Payload::At(at) = disk.payloads[write] {
            disk.source.tape().read_exact_at(&mut bytes, at)?;
        }
        Ok(bytes)
    }

    /// Tells recordings of disks apart: their size and a hash of all their bytes, with those of the
    /// base.
    ///
    /// # Errors
    /// If the recording or the base cannot be read.
    pub fn fingerprint(&self) -> io::Result<String> {
        let tape = self.disk().source.tape();
        let mut hash = twox_hash::XxHash3_64::new();
        let (mut at, mut chunk) = (0, vec![0; 1 << 20]);
        loop {
            match tape.read_at(&mut chunk, at)? {
                0 => break,
                count => {
                    hash.write(&chunk[..count]);
                    at += count as u64;
                }
            }
        }
        self.base_image().each_chunk(&mut |offset, bytes| {
            hash.write_u64(offset);
            hash.write(bytes);
        })?;
        Ok(format!("{at}:{:016x}", hash.finish()))
    }

    /// Describes the defect of a recording that does not end cleanly.
    pub fn flaw(&self) -> Option<Flaw> {
        let events = self.history.events();
        let content = "or give --cut-short to accept that";
        match self.disk.as_ref()?.end {
            TapeEnd::Clean => None,
            TapeEnd::Cut { at } => Some(Flaw {
                said: format!(
                    "the recording was cut short: {events} events, {at} bytes of it are whole and \
                     used"
                ),
                doubt: "the recording was cut short: what came later is not known".to_owned(),
                remedy: "record again, or give --cut-short to accept that".to_owned(),
            }),
            TapeEnd::Damaged { at } => Some(Flaw {
                said: format!(
                    "the recording is damaged at byte {at}: the {events} events before are used"
                ),
                doubt: format!(
                    "the recording is damaged at byte {at}: what came later is not known"
                ),
                remedy: format!("use an undamaged copy or record again, {content}"),
            }),
            TapeEnd::Followed { at } => Some(Flaw {
                said: format!(
                    "the recording ends cleanly at byte {at}; the bytes behind that are not used"
                ),
                doubt: format!(
                    "the bytes behind the end of the recording at byte {at} were not tried"
                ),
                remedy: format!(
                    "`truncate -s {at}` removes them; replay them separately, {content}"
                ),
            }),
        }
    }

    /// The content that is durable when an epoch begins.
    pub fn durable(&self, cut: u64) -> Extents {
        let mut durable = Extents::default();
        for epoch in self.history.epochs() {
            self.settle(&mut durable, &epoch);
            if epoch.cut == cut {
                break;
            }
        }
        durable
    }

    /// Adds the writes that become durable at the beginning of an epoch.
    pub fn settle(&self, durable: &mut Extents, epoch: &Epoch) {
        for one in &epoch.settled {
            self.put(durable, one.write, &Fate::Kept);
            one.under.iter().for_each(|&newer| self.put(durable, newer, &Fate::Kept));
        }
    }

    /// The unsettled writes that survive in a state.
    pub fn survived(&self, epoch: &Epoch, state: &State) -> Extents {
        let mut survived = Extents::default();
        for (one, fate) in epoch.unsettled.iter().zip(&state.fates) {
            if *fate != Fate::Lost {
                self.put(&mut survived, one.write, fate);
                one.under.iter().for_each(|&newer| self.put(&mut survived, newer, &Fate::Kept));
            }
        }
        survived
    }

    fn put(&self, extents: &mut Extents, write: usize, fate: &Fate) {
        let (payload, write) = (self.disk().payloads[write], &self.history.writes()[write]);
        for (from, to) in ranges(write, fate) {
            extents.insert(from, to, payload.skip(from - write.offset));
        }
    }

    /// The export before the recording.
    pub fn base_image(&self) -> Image {
        self.durable_image(Arc::default())
    }

    /// What is durable, with everything else lost.
    pub fn durable_image(&self, durable: Arc<Extents>) -> Image {
        Image::new(Arc::clone(&self.disk().source), durable, Extents::default())
    }

    /// A state as an image, given what is durable.
    pub fn image_over(&self, durable: Arc<Extents>, epoch: &Epoch, state: &State) -> Image {
        Image::new(Arc::clone(&self.disk().source), durable, self.survived(epoch, state))
    }

    /// A state as an image.
    pub fn image(&self, epoch: &Epoch, state: &State) -> Image {
        self.image_over(Arc::new(self.durable(epoch.cut)), epoch, state)
    }
}
