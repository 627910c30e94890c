//! Whether this machine lets a process trace its children.

use crate::error::Error;
use crate::session::probe;

/// Traces a probe child, which runs nothing and changes nothing.
///
/// # Errors
/// What is missing, with the way to add it.
pub fn preflight() -> Result<(), Error> {
    if crate::arch::IS_OFFERED { probe() } else { Err(Error::Unsupported) }
}
