//! The value of a mark: which bytes a program may acknowledge.
//!
//! A value is one line of text, so that a shell can write it. A check gets it in a variable of its
//! environment, which cannot hold a zero byte.

/// Longest value of a mark in bytes.
pub const MOST_MARK_BYTES: usize = 4096;

/// Why bytes are no value of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMark {
    /// There are none.
    #[error("an acknowledged value is empty; write at least one character")]
    Empty,
    /// There are too many.
    #[error("an acknowledged value has {0} bytes; write at most {most}", most = MOST_MARK_BYTES)]
    Long(usize),
    /// They are no text.
    #[error("an acknowledged value is not UTF-8; write text, such as a row number")]
    NotText,
    /// They hold a zero byte or a newline.
    #[error("an acknowledged value holds a zero byte or a newline; write text of one line")]
    Forbidden,
}

/// The bytes as the value of a mark.
///
/// # Errors
/// See [`BadMark`].
pub fn check_mark(bytes: &[u8]) -> Result<&str, BadMark> {
    if bytes.is_empty() {
        return Err(BadMark::Empty);
    }
    if bytes.len() > MOST_MARK_BYTES {
        return Err(BadMark::Long(bytes.len()));
    }
    if bytes.iter().any(|byte| matches!(byte, 0 | b'\n')) {
        return Err(BadMark::Forbidden);
    }
    str::from_utf8(bytes).map_err(|_| BadMark::NotText)
}
