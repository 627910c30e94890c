//! Bugs that can be planted in the policies, to show that the prover finds them.
//!
//! In a build without debug assertions every check here is `false` at compile time: the product
//! contains none of the bugs.

use super::PolicyKind;

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bug {
    /// A call for durability is answered before its changes are durable.
    AckBeforeDurable,
    /// A failed write counts as done.
    ErrorSwallowed,
    /// A new inode has the generation of the old one.
    GenerationKept,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 3] = [Bug::AckBeforeDurable, Bug::ErrorSwallowed, Bug::GenerationKept];

    /// The policies in which it can show.
    pub fn policies(self) -> &'static [PolicyKind] {
        match self {
            Bug::AckBeforeDurable | Bug::ErrorSwallowed | Bug::GenerationKept => &PolicyKind::ALL,
        }
    }
}

#[cfg(debug_assertions)]
std::thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// True if a bug is planted.
#[cfg(debug_assertions)]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// True if a bug is planted.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}

/// Calls `run` with a bug planted, on this thread.
#[cfg(debug_assertions)]
pub fn with<R>(bug: Option<Bug>, run: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(bug);
    let result = run();
    PLANTED.set(before);
    result
}
