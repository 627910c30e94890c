//! Promises, and how one was broken.

use crate::rules::{Complaint, Rule};
use serde::Serialize;
use std::fmt;

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sort {
    /// What is there after a crash is not what may be there.
    Content,
    /// After a crash the volume cannot be mounted, read or written.
    Dead,
    /// After a crash the image breaks an invariant, before any repair.
    Image,
    /// After a crash the members of an array do not agree.
    Parity,
    /// After a crash a read-only mount writes, or shows something else than one that recovers.
    Look,
    /// A read brought wrong data, or an error without cause.
    Read,
    /// A request failed without cause, or the volume did not stay failed after that.
    Refusal,
    /// Something was acknowledged after an error on the write path.
    Pretence,
    /// Damage was read as data.
    Damage,
    /// Requests are not answered, or a clean shutdown never comes.
    Hang,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sort::Content => "the content after a crash is wrong",
            Sort::Dead => "the volume is dead after a crash",
            Sort::Image => "the image after a crash is malformed",
            Sort::Parity => "the members of an array disagree after a crash",
            Sort::Look => "a read-only mount after a crash is wrong",
            Sort::Read => "a read is wrong",
            Sort::Refusal => "a request fails without cause",
            Sort::Pretence => "success is claimed after an error",
            Sort::Damage => "damage is taken for data",
            Sort::Hang => "the volume hangs",
        })
    }
}

/// What is wrong with a state or an answer.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The rule that found it.
    pub rule: Rule,
    /// Which promise it is about.
    pub sort: Sort,
    /// Sentences.
    pub story: Vec<String>,
}

impl Rule {
    /// A complaint about an answer or a state.
    pub fn wrong(self, sort: Sort, sentence: String) -> Wrong {
        Wrong { rule: self, sort, story: vec![sentence] }
    }
}

/// Complaints as one violation, which names the rule of the first; none if there are none.
pub(crate) fn verdict(sort: Sort, complaints: Vec<Complaint>) -> Option<Wrong> {
    let rule = complaints.first()?.rule;
    let story = complaints.into_iter().map(|one| one.sentence).collect();
    Some(Wrong { rule, sort, story })
}

/// A promise broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Case it happened in.
    pub case: u64,
    /// Device event after which the power was cut.
    pub event: u64,
    /// Which promise it was.
    pub sort: Sort,
    /// What happened, a sentence each.
    pub story: Vec<String>,
    /// The operations that are left, if it was made small.
    pub keep: Option<String>,
    /// A command that does it again.
    pub replay: String,
}
