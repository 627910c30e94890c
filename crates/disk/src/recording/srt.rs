//! HP Labs' SRT format: binary records, most significant byte first.
//!
//! A file may begin with a text header: lines, one of which is `tracedate = "…";`, up to a form
//! feed. Each record has 32-bit words:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | size of the record in bytes |
//! | 1 | version (1 to 4) in the upper, type in the lower half: 1 a request, 4 a suspect one |
//! | 2, 3 | when the request was queued: seconds and microseconds |
//! | 4, 5 | when the drive got it and when it was done, in microseconds after that |
//! | 6 | length in bytes |
//! | 7 | first sector of 512 bytes |
//! | 8 | device; bits 8 to 15 number the drive |
//! | 9, 10 | type of the driver, cylinder |
//! | 11 | flags; bit 0 is set for a read |
//! | 12 | where the request came from |
//! | 13 | version 4 only: length of the queue |
//! | last | suspect requests only: what was wrong |
//!
//! The response of the drive is the time from word 4 to word 5. Suspect records are device errors
//! during the recording. They are no measurement: they are skipped and counted.

use super::{Op, Pace, Place, Recorded, RecordingError, lines};
use std::io::BufRead;

const FORM_FEED: u8 = 0x0C;
const REQUEST: u32 = 1;
const SUSPECT: u32 = 4;
/// Words of a record of version 1 to 3.
const WORDS: u32 = 13;
/// Longest header, in bytes.
const LONGEST_HEADER: u64 = 1 << 20;

/// True if a recording begins like an SRT file.
pub(super) fn looks_like(begin: &[u8]) -> bool {
    let header = begin.iter().position(|&byte| byte == FORM_FEED);
    let text = &begin[..header.unwrap_or(begin.len().min(8192))];
    if header.is_some() || text.windows(9).any(|word| word == b"tracedate") {
        return true;
    }
    // A record begins with its size, whose upper bytes are zero; text has no such byte.
    begin.first() == Some(&0)
}

fn be(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

#[derive(Debug)]
pub(super) struct Srt<R> {
    bytes: R,
    offset: u64,
    /// Suspect records passed over.
    pub(super) suspect: u64,
}

impl<R: BufRead> Srt<R> {
    pub(super) fn new(bytes: R) -> Result<Srt<R>, RecordingError> {
        let mut srt = Srt { bytes, offset: 0, suspect: 0 };
        // Records begin with a zero, a header is text.
        if srt.bytes.fill_buf()?.first().is_some_and(|&byte| byte != 0) {
            srt.skip_header()?;
        }
        Ok(srt)
    }

    fn skip_header(&mut self) -> Result<(), RecordingError> {
        loop {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() || self.offset > LONGEST_HEADER {
                return Err(RecordingError::new(
                    Place::Byte(self.offset),
                    "the file was taken for an SRT recording, and its header has no end",
                    "such a header ends with a form feed (byte 0x0c); is it a recording?",
                ));
            }
            let end = buffer.iter().position(|&byte| byte == FORM_FEED);
            let length = end.map_or(buffer.len(), |end| end + 1);
            self.bytes.consume(length);
            self.offset += length as u64;
            if end.is_some() {
                return Ok(());
            }
        }
    }

    /// The next word, or nothing at the end of the file.
    fn word(&mut self) -> Result<Option<u32>, RecordingError> {
        let mut word = [0; 4];
        let mut have = 0;
        while have < word.len() {
            let buffer = self.bytes.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let take = buffer.len().min(word.len() - have);
            word[have..have + take].copy_from_slice(&buffer[..take]);
            self.bytes.consume(take);
            have += take;
        }
        self.offset += have as u64;
        match have {
            0 => Ok(None),
            4 => Ok(Some(be(word))),
            _ => Err(self.cut_off()),
        }
    }

    fn must(&mut self) -> Result<u32, RecordingError> {
        match self.word()? {
            Some(word) => Ok(word),
            None => Err(self.cut_off()),
        }
    }

    fn cut_off(&self) -> RecordingError {
        RecordingError::new(
            Place::Byte(self.offset),
            "the file was taken for an SRT recording, and it ends within a record",
            "if it is one, it is cut off: get the whole file",
        )
    }

    pub(super) fn read(&mut self) -> Result<Option<Recorded>, RecordingError> {
        loop {
            let place = Place::Byte(self.offset);
            let Some(size) = self.word()? else { return Ok(None) };
            let id = self.must()?;
            let (version, kind) = (id >> 16, id & 0xFFFF);
            if !(1..=4).contains(&version) || !matches!(kind, REQUEST | SUSPECT) {
                return Err(RecordingError::new(
                    place,
                    format!(
                        "the file was taken for an SRT recording, and this is a record of version \
                         {version} and type {kind}"
                    ),
                    "versions 1 to 4 and types 1 and 4 are known; is it a recording?",
                ));
            }
            let words = WORDS + u32::from(version == 4) + u32::from(kind == SUSPECT);
            if size != words * 4 {
                return Err(RecordingError::new(
                    place,
                    format!(
                        "the file was taken for an SRT recording, and a record has {size} bytes"
                    ),
                    format!("one of this kind has {}; is it a recording?", words * 4),
                ));
            }
            let mut record = [0; 15];
            for word in &mut record[2..words as usize] {
                *word = self.must()?;
            }
            if kind == REQUEST {
                return request(place, &record).map(Some);
            }
            self.suspect += 1;
        }
    }
}

fn request(place: Place, words: &[u32; 15]) -> Result<Recorded, RecordingError> {
    let [_, _, seconds, micros, start, stop, bytes, lbn, device, _, _, flags, ..] = *words;
    if bytes == 0 || bytes % 512 != 0 {
        return Err(RecordingError::new(
            place,
            format!("a request of {bytes} bytes"),
            "requests are whole sectors of 512 bytes",
        ));
    }
    if stop < start {
        return Err(RecordingError::new(
            place,
            format!("a request that is done after {stop} and begun after {start} microseconds"),
            "the file is damaged here",
        ));
    }
    let queued_us = u64::from(seconds) * 1_000_000 + u64::from(micros);
    lines::bounded(Recorded {
        place,
        op: if flags & 1 == 1 { Op::Read } else { Op::Write },
        lbn: u64::from(lbn),
        sectors: bytes / 512,
        response_ns: u64::from(stop - start) * 1000,
        pace: Pace::At((queued_us + u64::from(start)) * 1000),
        device: device >> 8 & 0xFF,
    })
}
