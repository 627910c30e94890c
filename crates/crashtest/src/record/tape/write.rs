//! Writing a recording.

use super::{
    ANSWER, BEGIN, EMPTY, END, FLUSH, FUA, Fields, HEADER_BYTES, Header, MARK, NO_HOLE,
    RECORD_BYTES, TRIM, WRITE, ZEROS, check_mark,
};
use seekless_engine::checksum::{are_zeros, crc32c};
use std::io::{self, Write};

/// A request in the form of the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'d> {
    /// Write bytes.
    Write {
        /// First byte.
        offset: u64,
        /// Content to write, below 2³² bytes long.
        data: &'d [u8],
        /// Acknowledge only when durable.
        fua: bool,
    },
    /// Make bytes read as zeros.
    Zeros {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Acknowledge only when durable.
        fua: bool,
        /// Keep the space.
        no_hole: bool,
    },
    /// Trim bytes.
    Trim {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
        /// Acknowledge only when durable.
        fua: bool,
    },
    /// Make acknowledged writes durable.
    Flush,
}

/// Appends records. Each is written to the file before the call returns. So the tape has the order
/// of the calls, and a killed recorder loses at most the record it was writing.
#[derive(Debug)]
pub struct Writer<W> {
    file: W,
    requests: u64,
    marks: u64,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(mut file: W, header: Header) -> io::Result<Writer<W>> {
        file.write_all(&header.to_bytes())?;
        Ok(Writer { file, requests: 0, marks: 0, bytes: HEADER_BYTES as u64 })
    }

    /// Records a request of a connection and returns its number, for the answer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn request(&mut self, connection: u32, request: Request<'_>) -> io::Result<u64> {
        let number = self.requests + 1;
        let mut fields = Fields { connection, number, ..Fields::default() };
        let fua_bit = |fua: bool| if fua { FUA } else { 0 };
        let mut payload: &[u8] = &[];
        match request {
            Request::Write { offset, data, fua } => {
                fields.kind = WRITE;
                fields.offset = offset;
                fields.length =
                    u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
                fields.flags = fua_bit(fua);
                if are_zeros(data) {
                    fields.flags |= EMPTY;
                } else {
                    payload = data;
                    fields.payload_crc = crc32c(data);
                }
            }
            Request::Zeros { offset, length, fua, no_hole } => {
                let keep = if no_hole { NO_HOLE } else { 0 };
                fields =
                    Fields { kind: ZEROS, flags: fua_bit(fua) | keep, offset, length, ..fields };
            }
            Request::Trim { offset, length, fua } => {
                fields = Fields { kind: TRIM, flags: fua_bit(fua), offset, length, ..fields };
            }
            Request::Flush => fields.kind = FLUSH,
        }
        self.put(fields, payload)?;
        self.requests = number;
        Ok(number)
    }

    /// Records the answer to a request; `errno` is 0 for success.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn answer(&mut self, connection: u32, number: u64, errno: u32) -> io::Result<()> {
        self.put(Fields { kind: ANSWER, connection, number, errno, ..Fields::default() }, &[])
    }

    /// Records that a program has acknowledged `value` by now.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the value is none of a mark (see [`check_mark`]), else if
    /// the file cannot be written.
    pub fn mark(&mut self, value: &str) -> io::Result<()> {
        let bytes = value.as_bytes();
        check_mark(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let number = self.marks + 1;
        let (length, payload_crc) = (bytes.len() as u32, crc32c(bytes));
        self.put(Fields { kind: MARK, number, length, payload_crc, ..Fields::default() }, bytes)?;
        self.marks = number;
        Ok(())
    }

    /// Records that the workload begins: what came before made the disk ready for it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(&mut self) -> io::Result<()> {
        self.put(Fields { kind: BEGIN, ..Fields::default() }, &[])
    }

    /// Writes the end record, the sign of a clean shutdown, and returns the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        let number = self.requests;
        self.put(Fields { kind: END, number, ..Fields::default() }, &[])?;
        self.file.flush()?;
        Ok(self.file)
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Marks so far.
    pub fn marks(&self) -> u64 {
        self.marks
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn put(&mut self, fields: Fields, payload: &[u8]) -> io::Result<()> {
        self.file.write_all(&fields.to_bytes())?;
        self.file.write_all(payload)?;
        self.bytes += (RECORD_BYTES + payload.len()) as u64;
        Ok(())
    }
}
