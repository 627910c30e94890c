//! A recording that several threads write: connections of the proxy, a recorded disk, and programs
//! that acknowledge.
//!
//! One lock gives the records their order, which is the order of the calls. After the first failure
//! to write nothing is recorded. An event that is not on the recording must not happen: the caller
//! fails the request in place of passing it on.

use super::tape::{self, Header, Request, Writer};
use super::{RecordError, Recorded};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A recording that is being written.
#[derive(Debug)]
pub struct Recorder {
    tape: Mutex<Tape>,
    /// Readable once the recording cannot be written.
    broken: OwnedFd,
}

#[derive(Debug)]
struct Tape {
    /// `None` once it is finished.
    writer: Option<Writer<File>>,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins the recording of a disk of this size, a flush of which covers all connections. With
    /// `force` it replaces an existing file.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path, size_bytes: u64, force: bool) -> Result<Arc<Recorder>, RecordError> {
        Recorder::with_header(path, Header::one_disk(size_bytes), force)
    }

    /// Begins the recording of two disks of these sizes. The requests of the second one lie behind
    /// the end of the first.
    ///
    /// # Errors
    /// As for [`Recorder::create`].
    pub fn of_two(path: &Path, first: u64, second: u64) -> Result<Arc<Recorder>, RecordError> {
        Recorder::with_header(path, Header::two_disks(first, second), false)
    }

    pub(super) fn with_header(
        path: &Path,
        header: Header,
        force: bool,
    ) -> Result<Arc<Recorder>, RecordError> {
        let output = |source| RecordError::Output { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(force).create_new(!force);
        let file = options.open(path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
            _ => output(source),
        })?;
        Ok(Arc::new(Recorder::over(file, header).map_err(output)?))
    }

    fn over(file: File, header: Header) -> io::Result<Recorder> {
        let broken = eventfd(0, EventfdFlags::CLOEXEC)?;
        let writer = Some(Writer::new(file, header)?);
        Ok(Recorder { tape: Mutex::new(Tape { writer, failed: None }), broken })
    }

    /// Readable once the recording cannot be written.
    pub fn broken(&self) -> BorrowedFd<'_> {
        self.broken.as_fd()
    }

    /// Records that a program has acknowledged a value by now.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is none ([`tape::check_mark`]); the recording goes on.
    /// Else if the recording cannot be written or has ended.
    pub fn mark(&self, value: &str) -> io::Result<()> {
        tape::check_mark(value.as_bytes())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.put(|writer| writer.mark(value))
    }

    /// Records that the workload begins.
    ///
    /// # Errors
    /// If the recording cannot be written or has ended.
    pub fn begin(&self) -> io::Result<()> {
        self.put(Writer::begin)
    }

    /// Records a request of a connection and gives its number, for the answer.
    ///
    /// # Errors
    /// If the recording cannot be written or has ended.
    pub fn request(&self, connection: u32, request: Request<'_>) -> io::Result<u64> {
        self.put(|writer| writer.request(connection, request))
    }

    /// Records the answer to a request; `errno` is 0 for success.
    ///
    /// # Errors
    /// If the recording cannot be written or has ended.
    pub fn answer(&self, connection: u32, number: u64, errno: u32) -> io::Result<()> {
        self.put(|writer| writer.answer(connection, number, errno))
    }

    /// Ends the recording. All counts are 0 if it has ended before.
    ///
    /// # Errors
    /// Why it cannot be written, or could not before.
    pub fn finish(&self) -> io::Result<Recorded> {
        let mut tape = self.tape();
        if let Some(error) = tape.failed.take() {
            return Err(error);
        }
        let Some(writer) = tape.writer.take() else { return Ok(Recorded::default()) };
        let (requests, marks) = (writer.requests(), writer.marks());
        let bytes = writer.bytes() + tape::RECORD_BYTES as u64;
        writer.finish()?.sync_data()?;
        Ok(Recorded { connections: 0, lost: 0, requests, marks, bytes })
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        // A thread that panics leaves whole records behind.
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put<T>(&self, write: impl FnOnce(&mut Writer<File>) -> io::Result<T>) -> io::Result<T> {
        let mut tape = self.tape();
        let over = || io::Error::other("the recording has ended");
        write(tape.writer.as_mut().ok_or_else(over)?).map_err(|error| {
            let kind = error.kind();
            tape.writer = None;
            tape.failed = Some(error);
            // The counter of the event cannot be full.
            let _ = rustix::io::write(&self.broken, &1_u64.to_le_bytes());
            kind.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tape::{Recording, TapeEnd, What};
    use super::*;

    #[test]
    fn threads_share_a_recording() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run.tape");
        let recorder = Recorder::create(&path, 1 << 20, false).expect("it begins");
        std::thread::scope(|scope| {
            for connection in 1..=4_u64 {
                let recorder = &recorder;
                scope.spawn(move || {
                    for n in 0..50 {
                        let data = &[connection as u8; 512];
                        let request = Request::Write { offset: n * 512, data, fua: false };
                        let number = recorder.request(connection as u32, request).expect("written");
                        recorder.answer(connection as u32, number, 0).expect("written");
                        recorder.mark(&format!("{connection} {n}")).expect("written");
                    }
                });
            }
        });
        assert!(recorder.mark("two\nlines").is_err(), "it is no value");
        let recorded = recorder.finish().expect("it ends");
        assert_eq!((recorded.requests, recorded.marks), (200, 200));
        assert_eq!(recorded.bytes, std::fs::metadata(&path).expect("a file").len());
        assert!(recorder.mark("late").is_err(), "it has ended");
        let file = File::open(&path).expect("a file");
        let mut recording = Recording::open(std::io::BufReader::new(file)).expect("a recording");
        let (mut marks, mut last) = (0, [None; 5]);
        while let Some(event) = recording.next_event().expect("it reads") {
            if let What::Mark { .. } = event.what {
                let (connection, n) = recording.mark().split_once(' ').expect("two numbers");
                let last = &mut last[connection.parse::<usize>().expect("a number")];
                let n: u64 = n.parse().expect("a number");
                assert!(last.is_none_or(|last| last < n), "the marks of a thread are in order");
                (*last, marks) = (Some(n), marks + 1);
            }
        }
        assert_eq!((marks, recording.end()), (200, Some(TapeEnd::Clean)));
    }

    #[test]
    fn a_recording_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run.tape");
        std::fs::write(&path, "precious").expect("written");
        let refused = Recorder::create(&path, 4096, false);
        assert!(matches!(refused, Err(RecordError::Exists(_))), "{refused:?}");
        assert_eq!(std::fs::read(&path).expect("a file"), b"precious");
        Recorder::create(&path, 4096, true).expect("it begins").finish().expect("it ends");
        assert!(Recording::open(File::open(&path).expect("a file")).is_ok());
    }

    #[test]
    fn a_recording_that_cannot_be_written_fails_what_follows() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return eprintln!("skipped: there is no /dev/full");
        }
        let begun = Recorder::create(full, 4096, true);
        assert!(matches!(begun, Err(RecordError::Output { .. })), "{begun:?}");
        // One that fails later: a pipe whose reader goes away.
        let (reader, pipe) = io::pipe().expect("a pipe");
        let header = Header::one_disk(4096);
        let recorder = Recorder::over(File::from(OwnedFd::from(pipe)), header).expect("it begins");
        drop(reader);
        let failed = recorder.request(1, Request::Flush).expect_err("it is broken");
        assert_eq!(failed.kind(), io::ErrorKind::BrokenPipe);
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            recorder.broken(),
            rustix::event::PollFlags::IN,
        )];
        assert_eq!(rustix::event::poll(&mut fds, None), Ok(1), "it tells");
        assert!(recorder.mark("1").is_err());
        let error = recorder.finish().expect_err("it could not be written");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
