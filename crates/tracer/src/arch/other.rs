//! A processor whose calls are not known: nothing is recorded on it.

use super::Row;

/// No architecture has this number, but no filter is made with it either.
pub(crate) const AUDIT_ARCH: u32 = 0;
pub(crate) const FOREIGN_BIT: Option<u32> = None;
pub(crate) const IS_OFFERED: bool = false;

/// No calls.
pub(crate) static CALLS: [Row; 0] = [];

/// Never called.
pub(crate) fn skip(_tid: i32, _result: i64) -> bool {
    false
}
