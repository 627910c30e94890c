//! The live oracle: runs scripts on a file system and on the model, and compares every reply.
//!
//! Inode numbers, generations, handles and cookies are the system's own; the oracle maps them and
//! checks that each keeps its meaning. It does not compare what POSIX leaves open: the order of
//! entries, space in use, sizes of directories, and where holes begin. At the end of a script it
//! walks the tree. On a difference it leaves out calls for as long as the difference stays.

mod judge;
mod lists;
mod matches;
mod replies;
mod shrink;
#[cfg(test)]
mod tests;
mod walk;

pub use judge::{Judge, Passed};
pub use replies::Show;
pub use seekless_fs::system::Runs;

use crate::model::Limits;
use crate::script::{Kind, Script};
use seekless_fs::call::Call;
use std::fmt;

/// A script on which a system and the model differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What the script is about.
    pub kind: Kind,
    /// Its seed.
    pub seed: u64,
    /// The calls that are left; the last one shows the difference, unless the final walk does.
    pub calls: Vec<Call>,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { kind, seed, calls, what } = self;
        writeln!(f, "script {kind:?}, seed {seed}: {what}")?;
        writeln!(f, "{} calls show it; numbers are the ids of calls, 2 is the root:", calls.len())?;
        calls.iter().try_for_each(|call| writeln!(f, "  {}", Show(call)))
    }
}

impl std::error::Error for Difference {}

/// Runs a script on a fresh system and on the model, then compares the trees.
///
/// # Errors
/// The first difference, with as few calls as a few hundred further runs find.
pub fn check<R: Runs>(
    make: &mut dyn FnMut() -> R,
    script: &Script,
    limits: Limits,
) -> Result<Passed, Box<Difference>> {
    let mut run = |calls: &[Call]| {
        let mut judge = Judge::new(make(), limits, script.kind.may_fill());
        judge.run(calls)
    };
    match run(&script.calls) {
        Ok(passed) => Ok(passed),
        Err(wrong) => {
            let until = wrong.call.map_or(script.calls.len(), |call| call + 1);
            let shows = &mut |calls: &[Call]| run(calls).err().map(|wrong| wrong.what);
            let first = (script.calls[..until].to_vec(), wrong.what);
            let (calls, what) = shrink::shrink(first, shows);
            let (kind, seed) = (script.kind, script.seed);
            Err(Box::new(Difference { kind, seed, calls, what }))
        }
    }
}
