//! An image as a device: answers from memory, and records what it is asked if it has a recorder.
//!
//! As with [`crate::record::disk`], a request is on the recording before it is carried out, and its
//! answer before the file system gets it. Requests are carried out one at a time, in the order of
//! the recording. A request that cannot be recorded fails and is not carried out.

use crate::record::recorder::Recorder;
use crate::record::tape::{DISKS, Request};
use crate::replay::image::Image;
use seekless_engine::data::Data;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::io::{Done, Io, IoError, Op};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES, Time};
use std::io;
use std::sync::Arc;

/// Longest trim of one record, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Error number of the recording for every failure.
const FAILED: u32 = 5;

/// An image that answers at once. What it has answered may be lost until a flush.
#[derive(Debug)]
pub struct ImageDevice {
    image: Arc<Image>,
    recorder: Option<Arc<Recorder>>,
    /// Which connection of the recording it is.
    connection: u32,
    /// Where it begins on the recorded export.
    begin: u64,
    ready: Vec<Done>,
    ready_at: Time,
}

impl ImageDevice {
    /// A device that records nothing.
    pub fn new(image: Arc<Image>) -> ImageDevice {
        let (connection, ready) = (DISKS[0], Vec::new());
        ImageDevice { image, recorder: None, connection, begin: 0, ready, ready_at: 0 }
    }

    /// A device that records what changes the image. The recording must be of its size.
    pub fn recorded(image: Arc<Image>, recorder: Arc<Recorder>) -> ImageDevice {
        ImageDevice { recorder: Some(recorder), ..ImageDevice::new(image) }
    }

    /// The second disk of a recording of two, which begins at this byte of the export.
    pub fn second(image: Arc<Image>, recorder: Arc<Recorder>, begin: u64) -> ImageDevice {
        ImageDevice { connection: DISKS[1], begin, ..ImageDevice::recorded(image, recorder) }
    }

    /// Records a request, carries it out, and records the answer.
    fn ask(
        &self,
        request: Request<'_>,
        carry_out: impl FnOnce(&Image) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(recorder) = &self.recorder else { return carry_out(&self.image) };
        let number = recorder.request(self.connection, request)?;
        let done = carry_out(&self.image);
        recorder.answer(self.connection, number, if done.is_ok() { 0 } else { FAILED })?;
        done
    }

    fn carry_out(&self, io: &Io) -> io::Result<Data> {
        let offset = io.at * BLOCK_BYTES as u64;
        match io.op {
            Op::Read => {
                let mut out = vec![0; io.count as usize * BLOCK_BYTES];
                self.image.read(offset, &mut out)?;
                return Ok(Data::bytes(out.into()));
            }
            Op::Write => self.write(offset, io)?,
            Op::Flush => self.ask(Request::Flush, |_| Ok(()))?,
            Op::Trim => self.trim(offset, u64::from(io.count) * BLOCK_BYTES as u64, io.fua)?,
        }
        Ok(Data::none())
    }

    fn write(&self, offset: u64, io: &Io) -> io::Result<()> {
        let bytes = io.data.to_bytes();
        let (offset, data) = match io.part {
            None => (offset, &bytes[..]),
            Some(part) => {
                let from = part.first as usize * SECTOR_BYTES;
                let to = part.end() as usize * SECTOR_BYTES;
                (offset + from as u64, &bytes[from..to])
            }
        };
        let request = Request::Write { offset: self.begin + offset, data, fua: io.fua };
        self.ask(request, |image| image.write(offset, data))
    }

    fn trim(&self, offset: u64, length: u64, fua: bool) -> io::Result<()> {
        let (mut offset, end) = (offset, offset + length);
        while offset < end {
            let count = (end - offset).min(MOST_BYTES);
            // It fits: it is at most 2³⁰.
            let at = self.begin + offset;
            let request = Request::Trim { offset: at, length: count as u32, fua };
            let zeros = [0; BLOCK_BYTES];
            self.ask(request, |image| {
                let mut blocks = (offset..offset + count).step_by(BLOCK_BYTES);
                blocks.try_for_each(|at| image.write(at, &zeros))
            })?;
            offset += count;
        }
        Ok(())
    }
}

impl Device for ImageDevice {
    fn blocks(&self) -> u64 {
        self.image.size() / BLOCK_BYTES as u64
    }

    fn submit(&mut self, now: Time, io: Io) {
        let outcome = if io.at + u64::from(io.count) > self.blocks() {
            Err(IoError::OutOfRange { at: io.at, count: io.count })
        } else {
            self.carry_out(&io).map_err(|error| match error.raw_os_error() {
                Some(errno) => IoError::Os { errno },
                None => IoError::Media { block: io.at },
            })
        };
        self.ready.push(Done::new(io.tag, outcome));
        self.ready_at = now;
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        (!self.ready.is_empty()).then_some(self.ready_at)
    }

    fn volatile(&self) -> bool {
        true
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for ImageDevice {
    fn takes_parts(&self) -> bool {
        true
    }
}
