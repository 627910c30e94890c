//! A recording in memory: its history, and its states as images.

use crate::failure::{Exit, Failure};
use seekless_crashtest::record::tape::{self, Payload, Recording, TapeEnd, TapeError, What};
use seekless_crashtest::replay::extents::Extents;
use seekless_crashtest::replay::image::{Image, Source};
use seekless_crashtest::states::history::{Epoch, Event, History, Kind};
use seekless_crashtest::states::state::{BadState, Fate, Name, State, ranges};
use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
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
    /// The content of each write of the history.
    payloads: Vec<Payload>,
    source: Arc<Source>,
    end: TapeEnd,
}

impl Load<'_> {
    /// Reads the whole recording.
    ///
    /// # Errors
    /// If the file is not a recording, or the base does not fit.
    pub fn session(&self) -> Result<Session, Failure> {
        let unusable = |error: &TapeError| {
            let message = format!("{}: {error}", self.recording.display());
            Failure::from_message(Exit::Image, &message)
        };
        let os = |error| unusable(&TapeError::Os(error));
        let file = File::open(self.recording).map_err(os)?;
        let reader = BufReader::with_capacity(1 << 20, file.try_clone().map_err(os)?);
        let mut recording = Recording::open(reader).map_err(|error| unusable(&error))?;
        let tape::Header { size_bytes, multi_conn } = recording.header();
        let mut history = History::new(size_bytes, multi_conn);
        let mut payloads = Vec::new();
        while let Some(event) = recording.next_event().map_err(os)? {
            let (event, payload) = as_history(&event);
            history.push(event);
            payloads.extend(payload);
        }
        // The loop sets it when it reaches the end.
        let end = recording.end().unwrap_or(TapeEnd::Clean);
        let base = self.base.map(|path| base(path, size_bytes)).transpose()?;
        let source = Arc::new(Source::new(base, file, size_bytes));
        Ok(Session { history, payloads, source, end })
    }
}

/// Opens the base and compares its size.
fn base(path: &Path, size: u64) -> Result<File, Failure> {
    let bad = |error| Failure::new(Exit::Image, format!("--base {}: {error}", path.display()));
    let mut file = File::open(path).map_err(bad)?;
    let kind = file.metadata().map_err(bad)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let cause = format!("--base {} is neither a file nor a block device", path.display());
        return Err(Failure::new(Exit::Image, cause)
            .hint("the base is what the export held when the recording began"));
    }
    let found = file.seek(SeekFrom::End(0)).map_err(bad)?;
    if found == size {
        return Ok(file);
    }
    let cause = format!("--base {} has {found} bytes, the recorded export {size}", path.display());
    Err(Failure::new(Exit::Image, cause)
        .hint("the base is what the export itself held (as nbdcopy reads it), not what lies below"))
}

/// Converts an event of the recording to one of the history, and the content it wrote.
fn as_history(event: &tape::Event) -> (Event, Option<Payload>) {
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
    }
}

impl Session {
    /// The requests and answers of a recording.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Describes the defect of a recording that does not end cleanly.
    pub fn flaw(&self) -> Option<Flaw> {
        let events = self.history.events();
        let content = "or give --cut-short to accept that";
        match self.end {
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

    /// The state of that name.
    ///
    /// # Errors
    /// If the recording has none.
    pub fn resolve(&self, name: &Name) -> Result<(Epoch, State), Failure> {
        name.resolve(&self.history).map_err(Failure::from)
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
        let (payload, write) = (self.payloads[write], &self.history.writes()[write]);
        for (from, to) in ranges(write, fate) {
            extents.insert(from, to, payload.skip(from - write.offset));
        }
    }

    /// A state as an image, given what is durable.
    pub fn image_over(&self, durable: Arc<Extents>, epoch: &Epoch, state: &State) -> Image {
        Image::new(Arc::clone(&self.source), durable, self.survived(epoch, state))
    }

    /// A state as an image.
    pub fn image(&self, epoch: &Epoch, state: &State) -> Image {
        self.image_over(Arc::new(self.durable(epoch.cut)), epoch, state)
    }
}

impl From<BadState> for Failure {
    fn from(error: BadState) -> Failure {
        Failure::from_message(Exit::Usage, &error.to_string())
    }
}
