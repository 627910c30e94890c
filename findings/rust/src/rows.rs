//! Rows with content that follows from their number.
//!
//! A workload commits the rows 1, 2, 3, … and acknowledges each when its commit has returned. A
//! check reads all rows of a state and judges them. The scheme is the one of `lib/rows.py`.

use anyhow::{Context as _, Result, anyhow};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// A row and its content.
pub type Row = (u64, String);

/// What a check says of a state.
#[derive(Debug)]
pub enum Verdict {
    /// As many whole rows, all acknowledged ones among them.
    Good(u64),
    /// The last acknowledged row, and the last one there.
    Lost(u64, u64),
    /// The database does not open, or holds what was never committed.
    Damaged(String),
}

/// How many rows a workload commits: ROWS of the environment, else the usual number.
pub fn count(usual: u64) -> u64 {
    std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(usual)
}

/// The 512 characters of row `number`.
pub fn content(number: u64) -> String {
    let mut text = String::new();
    for part in 0..8 {
        for byte in Sha256::digest(format!("row {number} part {part}")) {
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// Records that row `number` is committed.
///
/// # Errors
/// If `SEEKLESS_ACKS` does not name a file that takes a line.
pub fn acknowledge(number: u64) -> Result<()> {
    let path = std::env::var("SEEKLESS_ACKS").context("SEEKLESS_ACKS is not set")?;
    let mut marks = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    Ok(marks.write_all(format!("{number}\n").as_bytes())?)
}

/// The last row that the state must hold, 0 if none.
fn acknowledged() -> Result<u64> {
    match std::env::var("SEEKLESS_ACKED") {
        Ok(value) if !value.is_empty() => {
            value.parse().map_err(|_| anyhow!("SEEKLESS_ACKED is {value}, not a number"))
        }
        _ => Ok(0),
    }
}

/// The verdict about the rows of a state.
///
/// # Errors
/// If `SEEKLESS_ACKED` is not a number.
pub fn judge(rows: Vec<Row>) -> Result<Verdict> {
    let found: BTreeMap<u64, String> = rows.into_iter().collect();
    let count = found.len() as u64;
    for number in 1..=count {
        match found.get(&number) {
            None => {
                let missing = format!("row {number} is missing, but a later row is there");
                return Ok(Verdict::Damaged(missing));
            }
            Some(there) if *there != content(number) => {
                return Ok(Verdict::Damaged(format!("row {number} has other content")));
            }
            Some(_) => {}
        }
    }
    let acknowledged = acknowledged()?;
    if count < acknowledged {
        return Ok(Verdict::Lost(acknowledged, count));
    }
    Ok(Verdict::Good(count))
}
