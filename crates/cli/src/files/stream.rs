//! Content of files as streams.

use super::{Files, Outcome, ToolError};
use seekless_fs::call::{Answer, Attr, Errno, Handle, Ino, Request, SetAttr};
use seekless_fs::system::Runs;
use std::io::{self, Read, Write};

/// Bytes of a read or write.
const PIECE: usize = 256 << 10;
/// Zeros of this length, aligned to it, become a hole.
const HOLE: usize = 4096;

/// A file as a stream.
pub struct Reader<'f, R> {
    files: &'f mut Files<R>,
    path: &'f [u8],
    handle: Handle,
    at: u64,
    /// Why the file system failed: an error of I/O has no place for it.
    pub error: Option<ToolError>,
}

impl<R: Runs> Read for Reader<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = to.len().min(PIECE) as u32;
        let (handle, at) = (self.handle, self.at);
        match self.files.ask(Request::Read { handle, at, length }) {
            Ok(Answer::Bytes(bytes)) if bytes.len() <= to.len() => {
                to[..bytes.len()].copy_from_slice(&bytes);
                self.at += bytes.len() as u64;
                Ok(bytes.len())
            }
            other => {
                let error = ToolError::unexpected(self.path, other);
                let failed = io::Error::other(error.to_string());
                self.error = Some(error);
                Err(failed)
            }
        }
    }
}

impl<R: Runs> Files<R> {
    /// Hands the content of a file to `take` as a stream.
    ///
    /// # Errors
    /// Those of the file system; else those of `take`, which `blame` names.
    pub fn stream<T>(
        &mut self,
        path: &[u8],
        ino: Ino,
        take: impl FnOnce(&mut Reader<'_, R>) -> io::Result<T>,
        blame: impl FnOnce(io::Error) -> ToolError,
    ) -> Outcome<T> {
        let handle = self.open(path, ino, false)?;
        let mut reader = Reader { files: self, path, handle, at: 0, error: None };
        let taken = take(&mut reader);
        let error = reader.error.take();
        self.release(path, handle)?;
        match error {
            Some(error) => Err(error),
            None => taken.map_err(blame),
        }
    }

    /// Copies a file to an output.
    ///
    /// # Errors
    /// If it is no file, or one of the sides fails.
    pub fn cat(&mut self, path: &[u8], out: &mut dyn Write) -> Outcome<()> {
        let mark = self.mark();
        let attr = self.resolve(path, true)?;
        let copy = |reader: &mut Reader<'_, R>| {
            let mut piece = vec![0; PIECE];
            loop {
                match reader.read(&mut piece)? {
                    0 => return Ok(()),
                    length => out.write_all(&piece[..length])?,
                }
            }
        };
        let outcome = self.stream(path, attr.ino, copy, ToolError::Output);
        self.forget_to(mark);
        outcome
    }

    /// Replaces the content of a file by a stream. Aligned zeros become holes.
    ///
    /// # Errors
    /// Those of the file system; those of the stream, which `blame` names.
    pub fn fill(
        &mut self,
        path: &[u8],
        file: &Attr,
        from: &mut dyn Read,
        blame: impl FnOnce(io::Error) -> ToolError,
    ) -> Outcome<()> {
        let handle = self.open(path, file.ino, file.size > 0)?;
        let filled = self.fill_handle(path, handle, from, blame);
        self.release(path, handle)?;
        let size = Some(filled?);
        self.set(path, file.ino, SetAttr { size, ..SetAttr::default() })
    }

    fn fill_handle(
        &mut self,
        path: &[u8],
        handle: Handle,
        from: &mut dyn Read,
        blame: impl FnOnce(io::Error) -> ToolError,
    ) -> Outcome<u64> {
        let mut at = 0;
        let mut piece = Vec::with_capacity(PIECE);
        loop {
            piece.clear();
            // Whole pieces, so that holes stay aligned.
            match from.take(PIECE as u64).read_to_end(&mut piece) {
                Ok(0) => return Ok(at),
                Ok(_) => {}
                Err(error) => return Err(blame(error)),
            }
            for (from, to) in data_ranges(&piece) {
                self.write_all(path, handle, at + from as u64, &piece[from..to])?;
            }
            at += piece.len() as u64;
        }
    }

    /// Writes all of it: a file system that is nearly full may take less at once.
    fn write_all(&mut self, path: &[u8], handle: Handle, at: u64, data: &[u8]) -> Outcome<()> {
        let mut data = bytes::Bytes::copy_from_slice(data);
        let mut at = at;
        while !data.is_empty() {
            match self.ask(Request::Write { handle, at, data: data.clone(), append: false }) {
                Ok(Answer::Written(length)) if length > 0 && length as usize <= data.len() => {
                    data = data.slice(length as usize..);
                    at += u64::from(length);
                }
                Ok(_) => return Err(ToolError::of(path, Errno::Io)),
                Err(errno) => return Err(ToolError::of(path, errno)),
            }
        }
        Ok(())
    }
}

/// Ranges of a piece without its aligned zeros, joined where they touch.
fn data_ranges(piece: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (index, chunk) in piece.chunks(HOLE).enumerate() {
        let (from, to) = (index * HOLE, index * HOLE + chunk.len());
        match ranges.last_mut() {
            _ if chunk.iter().all(|byte| *byte == 0) => {}
            Some(last) if last.1 == from => last.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    ranges
}
