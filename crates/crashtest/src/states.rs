//! The crashes that a recorded device could have had: which states of its medium are legal, which
//! of them are tried, and how a bad one is made small and told.
//!
//! A recording is what was asked when and answered when: of a device, or of calls under a model of
//! a file system. Only [`mod@tree`] knows bytes, those of calls. Start with [`history`] (what a
//! power cut may take), then [`state`] (one outcome), [`choose`] (which are tried), [`names`],
//! [`minimise`] and [`story`].

pub mod choose;
pub mod history;
pub mod minimise;
pub mod names;
pub mod state;
pub mod story;
pub mod tree;

#[cfg(test)]
mod tests;
