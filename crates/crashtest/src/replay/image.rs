//! A crash state as an image: a base that is only read, what was durable, what else had reached the
//! medium, and what the check itself has written. All but the last are shared or tiny.

use super::extents::Extents;
use super::stop::Stop;
use crate::record::tape::Payload;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

const PAGE: usize = BLOCK_BYTES;

/// What all states of a recording share.
#[derive(Debug)]
pub struct Source {
    base: Option<File>,
    tape: File,
    size: u64,
    /// Where the second of two disks begins.
    second: Option<u64>,
}

impl Source {
    /// States of an export of `size` bytes that began with what `base` holds, or with zeros, and
    /// was written from `tape`.
    pub fn new(base: Option<File>, tape: File, size: u64) -> Source {
        Source { base, tape, size, second: None }
    }

    /// The same of two disks that lie one behind the other: the second begins at this byte.
    pub fn with_second(self, second: Option<u64>) -> Source {
        Source { second, ..self }
    }

    /// The recording.
    pub(crate) fn tape(&self) -> &File {
        &self.tape
    }

    /// Bytes of the base; what lies behind its end is zeros.
    fn base(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Some(file) = &self.base else {
            out.fill(0);
            return Ok(());
        };
        let mut filled = 0;
        while filled < out.len() {
            match file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => {
                    out[filled..].fill(0);
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn payload(&self, source: Payload, out: &mut [u8]) -> io::Result<()> {
        match source {
            Payload::Zeros => {
                out.fill(0);
                Ok(())
            }
            Payload::At(at) => self.tape.read_exact_at(out, at),
        }
    }

    /// The first byte at or after `at` where the base may hold anything but zeros.
    fn next_data(&self, at: u64) -> Option<u64> {
        let file = self.base.as_ref()?;
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(found) => Some(found),
            Err(rustix::io::Errno::NXIO) => None,
            // A block device, or a file system that keeps no such record.
            Err(_) => (at < self.size).then_some(at),
        }
    }
}

/// One state.
#[derive(Debug)]
pub struct Image {
    source: Arc<Source>,
    durable: Arc<Extents>,
    survived: Extents,
    /// The bytes of the export that this shows: all of it, or one of two disks.
    shown: Range<u64>,
    /// What the check has written.
    changed: RwLock<BTreeMap<u64, Box<[u8; PAGE]>>>,
}

impl Image {
    /// The state with `survived` on top of what is durable.
    pub fn new(source: Arc<Source>, durable: Arc<Extents>, survived: Extents) -> Image {
        let shown = 0..source.size;
        Image { source, durable, survived, shown, changed: RwLock::default() }
    }

    /// Each disk of the state as an image of its own, as it was before a check wrote to it.
    pub fn disks(&self) -> Vec<Image> {
        let Some(second) = self.source.second else { return vec![self.unchanged()] };
        let show = |shown| Image { shown, ..self.unchanged() };
        vec![show(0..second), show(second..self.source.size)]
    }

    /// The same state as it was before a check wrote to it.
    pub fn unchanged(&self) -> Image {
        let (source, durable) = (Arc::clone(&self.source), Arc::clone(&self.durable));
        let shown = self.shown.clone();
        Image { shown, ..Image::new(source, durable, self.survived.clone()) }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.shown.end - self.shown.start
    }

    /// True if something was written to it.
    pub fn is_changed(&self) -> bool {
        !self.changed.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The state as it was before a check wrote to it.
    fn original(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = self.shown.start + offset;
        let end = offset + out.len() as u64;
        // A range is often covered by one extent; then nothing below it need be read.
        let whole = |layer: &Extents| {
            let first = layer.pieces(offset, end).next();
            first.filter(|&(from, to, _)| (from, to) == (offset, end)).map(|piece| piece.2)
        };
        if let Some(source) = whole(&self.survived) {
            return self.source.payload(source, out);
        }
        self.source.base(offset, out)?;
        for layer in [&*self.durable, &self.survived] {
            for (from, to, source) in layer.pieces(offset, end) {
                let part = (from - offset) as usize..(to - offset) as usize;
                self.source.payload(source, &mut out[part])?;
            }
        }
        Ok(())
    }

    /// Fills `out` from `offset` on; bytes behind the end are zeros.
    ///
    /// # Errors
    /// What the base or the recording reports.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = self.size().saturating_sub(offset).min(out.len() as u64) as usize;
        out[inside..].fill(0);
        let out = &mut out[..inside];
        if out.is_empty() {
            return Ok(());
        }
        self.original(offset, out)?;
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner);
        let first = offset / PAGE as u64;
        let last = (offset + out.len() as u64 - 1) / PAGE as u64;
        for (page, bytes) in changed.range(first..=last) {
            let start = page * PAGE as u64;
            let (from, to) = (start.max(offset), (start + PAGE as u64).min(offset + inside as u64));
            let part = (from - offset) as usize..(to - offset) as usize;
            out[part].copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    /// Changes bytes, in memory only. The range lies inside.
    ///
    /// # Errors
    /// What the base or the recording reports, where only part of a page is new.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut offset, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let page = offset / PAGE as u64;
            let skip = (offset % PAGE as u64) as usize;
            let count = bytes.len().min(PAGE - skip);
            let mut fresh = Box::new([0; PAGE]);
            if count < PAGE {
                self.read(page * PAGE as u64, &mut fresh[..])?;
            }
            let mut changed = self.changed.write().unwrap_or_else(PoisonError::into_inner);
            let held = changed.entry(page).or_insert(fresh);
            held[skip..skip + count].copy_from_slice(&bytes[..count]);
            offset += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Writes the state to a new file, sparse where it is zero. If that fails, or everything is to
    /// end before it is done, there is no file.
    ///
    /// # Errors
    /// What the base, the recording or the file reports; [`io::ErrorKind::Interrupted`] at an end.
    pub fn save(&self, path: &Path, stop: &Stop) -> io::Result<()> {
        let file = File::options().write(true).create_new(true).open(path)?;
        self.copy_to(&file, stop).inspect_err(|_| {
            // Half a state would only be taken for a whole one.
            let _ = std::fs::remove_file(path);
        })
    }

    /// Gives all that may be anything but zeros, in order, with where it begins.
    ///
    /// # Errors
    /// What the base or the recording reports.
    pub fn each_chunk(&self, tell: &mut dyn FnMut(u64, &[u8])) -> io::Result<()> {
        let mut chunk = vec![0; 1 << 20];
        let mut at = 0;
        while let Some(next) = self.next_data(at) {
            let length = (self.size() - next).min(chunk.len() as u64);
            let part = &mut chunk[..length as usize];
            self.read(next, part)?;
            if part.iter().any(|&byte| byte != 0) {
                tell(next, part);
            }
            at = next + length;
        }
        Ok(())
    }

    fn copy_to(&self, file: &File, stop: &Stop) -> io::Result<()> {
        const CHUNK: u64 = 1 << 20;
        file.set_len(self.size())?;
        let mut chunk = vec![0; CHUNK as usize];
        let mut at = 0;
        while let Some(next) = self.next_data(at) {
            if stop.asked().is_some() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let start = next / PAGE as u64 * PAGE as u64;
            let length = CHUNK.min(self.size() - start) as usize;
            self.read(start, &mut chunk[..length])?;
            for (index, page) in chunk[..length].chunks(PAGE).enumerate() {
                if page.iter().any(|&byte| byte != 0) {
                    file.write_all_at(page, start + (index * PAGE) as u64)?;
                }
            }
            at = start + length as u64;
        }
        Ok(())
    }

    /// The first byte at or after `at` that may be anything but zero.
    fn next_data(&self, at: u64) -> Option<u64> {
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner);
        let pages = changed.range(at / PAGE as u64..).next();
        let Range { start, end } = self.shown;
        let of_export = [
            self.source.next_data(start + at),
            self.survived.pieces(start + at, end).next().map(|piece| piece.0),
            self.durable.pieces(start + at, end).next().map(|piece| piece.0),
        ];
        let of_export = of_export.into_iter().flatten().min().map(|found| found - start);
        [of_export, pages.map(|(page, _)| (page * PAGE as u64).max(at))]
            .into_iter()
            .flatten()
            .min()
            .filter(|&next| next < self.size())
    }
}

/// The image as blocks, so that a state can be served.
impl Medium for Image {
    fn blocks(&self) -> u64 {
        self.size().div_ceil(PAGE as u64)
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let mut out = vec![0; count as usize * PAGE];
        Image::read(self, at * PAGE as u64, &mut out).map_err(|error| failed(&error, at))?;
        Ok(Data::bytes(out.into()))
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let bytes = data.to_bytes();
        Image::write(self, at * PAGE as u64, &bytes).map_err(|error| failed(&error, at))
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        for block in at..at + u64::from(count) {
            Image::write(self, block * PAGE as u64, &[0; PAGE])
                .map_err(|error| failed(&error, block))?;
        }
        Ok(())
    }
}

fn failed(error: &io::Error, block: BlockNr) -> IoError {
    match error.raw_os_error() {
        Some(errno) => IoError::Os { errno },
        None => IoError::Media { block },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        file
    }

    fn image(base: Option<&[u8]>) -> Image {
        let mut durable = Extents::default();
        durable.insert(4000, 5000, Payload::At(0));
        let mut survived = Extents::default();
        survived.insert(4500, 4600, Payload::At(1000));
        survived.insert(9000, 9100, Payload::Zeros);
        let tape: Vec<u8> = [vec![7; 1000], vec![9; 100]].concat();
        let source = Source::new(base.map(file), file(&tape), 10_000);
        Image::new(Arc::new(source), Arc::new(durable), survived)
    }

    fn expected(base: u8) -> Vec<u8> {
        let mut bytes = vec![base; 10_000];
        bytes[4000..5000].fill(7);
        bytes[4500..4600].fill(9);
        bytes[9000..9100].fill(0);
        bytes
    }

    #[test]
    fn layers_lie_on_each_other_and_the_base_stays() {
        for base in [0_u8, 3] {
            let held = [base; 10_000];
            let image = image((base != 0).then_some(&held));
            let mut model = expected(base);
            let mut out = vec![1; 10_000];
            image.read(0, &mut out).expect("it works");
            assert!(out == model);
            assert!(!image.is_changed());
            for (offset, length) in [(100, 5), (4090, 20), (8000, 2000), (0, 4096)] {
                image.write(offset as u64, &vec![0x55; length]).expect("it works");
                model[offset..offset + length].fill(0x55);
            }
            for (from, to) in [(0, 10_000), (4000, 4600), (4500, 4600), (4100, 4200), (99, 106)] {
                let mut part = vec![1; to - from];
                image.read(from as u64, &mut part).expect("it works");
                assert!(part == model[from..to], "{from}..{to}");
            }
            assert!(image.is_changed());
            let mut behind = [1; 10];
            image.read(9_995, &mut behind).expect("it works");
            assert_eq!(behind, [0x55, 0x55, 0x55, 0x55, 0x55, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn each_disk_of_a_state_is_an_image() {
        let two = |base: Option<&[u8]>| {
            let Image { source, durable, survived, .. } = image(base);
            let source = Arc::try_unwrap(source).expect("one owner").with_second(Some(4096));
            Image::new(Arc::new(source), durable, survived)
        };
        let dir = tempfile::tempdir().expect("a directory");
        let stop = Stop::new().expect("a descriptor");
        for base in [0_u8, 3] {
            let held = [base; 10_000];
            let state = two((base != 0).then_some(&held));
            state.write(0, &[1; 10_000]).expect("it works");
            let disks = state.disks();
            let whole = expected(base);
            for (index, range) in [0..4096, 4096..10_000].into_iter().enumerate() {
                let path = dir.path().join(format!("{base}.{index}"));
                disks[index].save(&path, &stop).expect("it works");
                let found = std::fs::read(&path).expect("it works");
                assert!(found == whole[range.clone()], "disk {index}");
                disks[index].write(100, &[0x55; 9]).expect("it works");
                let mut out = vec![0; range.len()];
                disks[index].read(0, &mut out).expect("it works");
                assert!(out[100..109] == [0x55; 9] && out[109..] == whole[range][109..]);
            }
            assert_eq!(image(None).disks().len(), 1);
        }
    }

    #[test]
    fn a_state_can_be_kept_as_a_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for base in [0_u8, 3] {
            let held = [base; 10_000];
            let image = image((base != 0).then_some(&held));
            let path = dir.path().join(base.to_string());
            let stop = Stop::new().expect("a descriptor");
            image.save(&path, &stop).expect("it works");
            assert!(std::fs::read(&path).expect("it works") == expected(base));
            assert!(image.save(&path, &stop).is_err(), "nothing is overwritten");
            assert!(path.exists(), "nor taken away");
            stop.ask(15);
            let half = dir.path().join("half");
            let ended = image.save(&half, &stop).expect_err("it is not whole");
            assert_eq!((ended.kind(), half.exists()), (io::ErrorKind::Interrupted, false));
        }
    }
}
