//! What a tool over many files has done, and the errors of what it could not do.
//!
//! A tool goes on past an object that fails. It ends at an error that all other objects would meet,
//! too: a failed output, or a file system that takes no change.

use super::{Outcome, ToolError};
use seekless_fs::call::Errno;

/// The objects of a tool.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many it took on.
    pub tried: u64,
    /// Why some of them failed, in order.
    pub failed: Vec<ToolError>,
}

impl Tally {
    /// Counts an object.
    ///
    /// # Errors
    /// If the tool has to end.
    pub fn count(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        self.tried += 1;
        self.keep(outcome)
    }

    /// Keeps the error of a further step for an object that is counted already.
    ///
    /// # Errors
    /// If the tool has to end.
    pub fn keep(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        match outcome {
            Err(error) if is_final(&error) => Err(error),
            Err(error) => {
                self.failed.push(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// True for an error that all other objects would meet.
fn is_final(error: &ToolError) -> bool {
    matches!(error, ToolError::Output(_) | ToolError::Refused { errno: Errno::RoFs, .. })
}
