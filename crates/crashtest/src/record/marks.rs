//! Acknowledgements as a log file: each line that a program writes becomes a mark of the recording.
//!
//! The mark is on the recording before the write is answered. So it stands behind every request
//! whose answer the program waited for, and before everything that it asks for later. A part of a
//! line waits for its end; closing the descriptor is an end, too.

use super::recorder::Recorder;
use super::tape::{BadMark, MOST_MARK_BYTES, check_mark};
use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A recording that takes marks.
pub trait Marks: Debug + Send + Sync {
    /// Records that a program has acknowledged a value by now.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is none ([`check_mark`]); else if the recording cannot
    /// be written or has ended.
    fn mark(&self, value: &str) -> io::Result<()>;
}

impl Marks for Recorder {
    fn mark(&self, value: &str) -> io::Result<()> {
        Recorder::mark(self, value)
    }
}

/// The log of acknowledgements.
#[derive(Debug)]
pub struct MarkFile {
    recorder: Arc<dyn Marks>,
    /// What each opening wrote behind its last newline.
    begun: Mutex<HashMap<u64, Vec<u8>>>,
}

impl MarkFile {
    /// A log that adds marks to this recording.
    pub fn new<M: Marks + 'static>(recorder: Arc<M>) -> MarkFile {
        MarkFile::over(recorder)
    }

    /// The same for any recording.
    pub fn over(recorder: Arc<dyn Marks>) -> MarkFile {
        MarkFile { recorder, begun: Mutex::default() }
    }

    /// Takes bytes that were written through one opening. If a line is no value, none of the bytes
    /// counts.
    ///
    /// # Errors
    /// `EINVAL` for what is no value ([`check_mark`]), else what the recording says.
    pub fn append(&self, opened: u64, bytes: &[u8]) -> io::Result<()> {
        // Held to the end: lines of one opening stay in order.
        let mut begun = self.begun();
        let mut text = begun.get(&opened).cloned().unwrap_or_default();
        text.extend_from_slice(bytes);
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let rest = text.split_off(whole);
        let values: Result<Vec<&str>, BadMark> = text
            .split_inclusive(|&byte| byte == b'\n')
            .map(|line| check_mark(&line[..line.len() - 1]))
            .collect();
        let values = values.map_err(|_| invalid())?;
        if rest.len() > MOST_MARK_BYTES {
            return Err(invalid());
        }
        match rest.is_empty() {
            true => begun.remove(&opened),
            false => begun.insert(opened, rest),
        };
        values.into_iter().try_for_each(|value| self.recorder.mark(value))
    }

    /// Ends the line that an opening has begun.
    ///
    /// # Errors
    /// As for [`MarkFile::append`].
    pub fn end_line(&self, opened: u64) -> io::Result<()> {
        match self.begun().remove(&opened) {
            Some(rest) => self.recorder.mark(check_mark(&rest).map_err(|_| invalid())?),
            None => Ok(()),
        }
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<u64, Vec<u8>>> {
        // A thread that panics leaves whole entries behind.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}
