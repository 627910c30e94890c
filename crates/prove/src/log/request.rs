//! What a client of a log asks for.

use crate::script::Request;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A request to a log. A share is in hundredths of the records that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRequest {
    /// Appends a record of so many bytes, which the number of the operation tells from others.
    Append(u32),
    /// Makes all records durable.
    Sync,
    /// Gives up the oldest records; all of them with 100.
    Trim(u8),
    /// Reads a record.
    Read(u8),
}

impl Request for LogRequest {
    fn length(&self) -> Option<u32> {
        match self {
            LogRequest::Append(length) => Some(*length).filter(|&length| length > 0),
            _ => None,
        }
    }

    fn limited(self, most: u32) -> LogRequest {
        match self {
            LogRequest::Append(length) => LogRequest::Append(length.min(most)),
            other => other,
        }
    }
}

impl fmt::Display for LogRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogRequest::Append(length) => write!(f, "append {length} bytes"),
            LogRequest::Sync => f.write_str("sync"),
            LogRequest::Trim(100) => f.write_str("trim all records"),
            LogRequest::Trim(share) => write!(f, "trim {share} of 100 records"),
            LogRequest::Read(share) => write!(f, "read the record behind {share} of 100"),
        }
    }
}
