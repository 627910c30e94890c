//! A disk that plays an image and records what is read of it and written.

use super::contents::{Content, Contents};
use super::transcripts::{End, Event, Step, Transcripts};
use seekless_engine::data::Data;
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;

/// Parts of a function that are played one after the other at most. A function that takes more may
/// count them.
const MOST_PARTS: usize = 64;

/// What lies between two beginnings of a function.
#[derive(Debug, Default)]
struct Part {
    steps: Vec<Step>,
    events: Vec<Event>,
    blocks_read: u64,
}

/// The image of a run, and the transcript so far.
struct Recorder<'r> {
    contents: &'r mut Contents,
    image: &'r mut [Content],
    /// Tells whether the end of an image is known.
    is_known: &'r dyn Fn(&[Content]) -> bool,
    /// Blocks that were read or written in this part: what comes of another read is known.
    seen: Vec<u64>,
    part: Part,
    parts: Vec<Part>,
    /// The first read of the run.
    first: Option<(BlockNr, u32)>,
    /// Nothing came after the last flush.
    flushed: bool,
    /// The run was stopped where the rest of it is known.
    stopped: bool,
    /// The run depends on something that no step says.
    is_open: bool,
}

impl<'r> Recorder<'r> {
    fn new(
        contents: &'r mut Contents,
        image: &'r mut [Content],
        is_known: &'r dyn Fn(&[Content]) -> bool,
    ) -> Recorder<'r> {
        Recorder {
            seen: vec![0; image.len().div_ceil(64)],
            contents,
            image,
            is_known,
            part: Part::default(),
            parts: Vec::new(),
            first: None,
            flushed: false,
            stopped: false,
            is_open: false,
        }
    }

    fn see(&mut self, at: BlockNr) -> bool {
        let (word, bit) = (&mut self.seen[at as usize / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn end_part(&mut self) {
        self.seen.fill(0);
        self.parts.push(std::mem::take(&mut self.part));
    }
}

/// What a run that is stopped is told; nothing comes of it.
const STOPPED: IoError = IoError::ReadOnly;

impl Disk for Recorder<'_> {
    fn blocks(&self) -> u64 {
        self.image.len() as u64
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        if self.stopped {
            return Err(STOPPED);
        }
        check_range(self.blocks(), at, count)?;
        let first = *self.first.get_or_insert((at, count));
        if std::mem::take(&mut self.flushed) && first == (at, count) {
            self.end_part();
            if (self.is_known)(self.image) {
                self.stopped = true;
                return Err(STOPPED);
            }
        }
        for block in at..at + u64::from(count) {
            if self.see(block) {
                self.part.steps.push((block, self.image[block as usize]));
            }
        }
        self.part.blocks_read += u64::from(count);
        let (from, to) = (at as usize, at as usize + count as usize);
        Ok(self.contents.data(&self.image[from..to]))
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        if self.stopped {
            return Err(STOPPED);
        }
        check_range(self.blocks(), at, data.blocks())?;
        self.flushed = false;
        let mut written = Vec::with_capacity(data.blocks() as usize);
        for (block, piece) in (at..).zip(data.each()) {
            let content = self.contents.number_of(&piece.body);
            self.image[block as usize] = content;
            self.see(block);
            written.push(content);
        }
        self.part.events.push(Event::Write(at, written));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        if self.stopped {
            return Err(STOPPED);
        }
        self.flushed = true;
        self.part.events.push(Event::Flush);
        Ok(())
    }

    /// Where there may be data is no content: a run that asks is not recorded.
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.is_open = true;
        (at < self.blocks()).then_some(at)
    }
}

/// Is told of each part that a run went through.
type Note<'n, T> = &'n mut dyn FnMut(&End<Option<T>>);

/// What a function did with an image.
#[derive(Debug)]
pub struct Done<T> {
    /// What it said.
    pub said: T,
    /// What it wrote, if that was asked for.
    pub events: Vec<Event>,
    /// Blocks that it read.
    pub blocks_read: u64,
}

impl<T: Clone> Transcripts<Option<T>> {
    /// What a function says of an image, which it may change.
    ///
    /// A function that flushes and then reads what it read first begins anew: what it says then
    /// depends only on what the image holds. Each such part is a transcript of its own, so that
    /// runs that come to the same image go the rest of the way together.
    pub fn play(
        &mut self,
        contents: &mut Contents,
        image: &mut [Content],
        run: impl Fn(&mut dyn Disk) -> T,
    ) -> T {
        self.follow(contents, image, run, None)
    }

    /// The same, with all that the function did.
    pub fn play_all(
        &mut self,
        contents: &mut Contents,
        image: &mut [Content],
        run: impl Fn(&mut dyn Disk) -> T,
    ) -> Done<T> {
        let (mut events, mut blocks_read) = (Vec::new(), 0);
        let mut note = |end: &End<Option<T>>| {
            events.extend(end.events.iter().cloned());
            blocks_read += end.blocks_read;
        };
        let said = self.follow(contents, image, run, Some(&mut note));
        Done { said, events, blocks_read }
    }

    fn follow(
        &mut self,
        contents: &mut Contents,
        image: &mut [Content],
        run: impl Fn(&mut dyn Disk) -> T,
        mut note: Option<Note<'_, T>>,
    ) -> T {
        let mut parts = 0;
        loop {
            while parts < MOST_PARTS
                && let Some(end) = self.find(image)
            {
                parts += 1;
                end.events.iter().for_each(|event| event.apply(image));
                if let Some(note) = &mut note {
                    note(end);
                }
                if let Some(said) = &end.said {
                    return said.clone();
                }
            }
            let is_known = |image: &[Content]| parts < MOST_PARTS && self.find(image).is_some();
            let mut recorder = Recorder::new(contents, image, &is_known);
            let said = run(&mut recorder);
            if !recorder.stopped {
                recorder.end_part();
            }
            let Recorder { parts: recorded, stopped, is_open, .. } = recorder;
            parts += recorded.len();
            let last = recorded.len() - 1;
            for (number, Part { steps, events, blocks_read }) in recorded.into_iter().enumerate() {
                let said = (number == last && !stopped).then(|| said.clone());
                let end = End { events, blocks_read, said };
                if let Some(note) = &mut note {
                    note(&end);
                }
                if !is_open {
                    self.add(&steps, end);
                }
            }
            if !stopped {
                return said;
            }
        }
    }
}
