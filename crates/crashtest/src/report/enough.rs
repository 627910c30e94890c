//! Which policy of Seekless' file systems is enough for a program, as far as crash states can tell.
//!
//! Under `async` nothing is durable but what `fsync` has made so, and only the ends of files that
//! move are ordered. The other policies promise more. A program that is bad under `async` and good
//! under a stricter policy relies on what that policy adds. None of them is a model of POSIX, which
//! promises less than `async` does; the answer says nothing about other file systems.
//! [The manual](../../../../docs/manual/crash-test-stand-ins.md) compares verdicts with theirs.

use super::policies::{PAUSED, PolicyReport};
use super::{Report, Verdict};
use serde::Serialize;

/// What the names of Seekless' file systems begin with.
const OWN: &str = "seekless:ffs:";
/// The policies, from the one that promises least of names, and what each adds. Under `soft`
/// content comes before names, and with a log only if its mode of data says so.
const POLICIES: [(&str, &str); 9] = [
    ("async", "nothing but what fsync makes durable"),
    ("soft", "the order in which names, inodes and content reach the disk"),
    ("lffs-file-writeback", "names, attributes and sizes of one point in time"),
    ("wafs-1async-writeback", "the same, up to the last group of the log"),
    ("lffs-file", "names and sizes of one point in time, and content before them"),
    ("wafs-1async", "the same, up to the last group of the log"),
    ("sync", "that names are durable, in order, when a call returns"),
    ("wafs-1sync-writeback", "names of one point in time, durable when a call returns"),
    ("wafs-1sync", "names of one point in time, durable when a call returns, content before them"),
];

/// The answer, for people and for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The least policy that was tried under which the program is good.
    pub policy: Option<&'static str>,
    /// In one sentence.
    pub sentence: String,
}

/// The answer that one report gives; none for file systems that are not those of Seekless.
pub fn of_report(report: &Report) -> Option<Answer> {
    let policy = report.file_system.as_deref()?.strip_prefix(OWN)?;
    Some(of(&[(policy, report.verdict())]))
}

/// The answer that the reports of several policies give.
pub fn of_policies(reports: &[PolicyReport]) -> Answer {
    let verdicts: Vec<(&str, Verdict)> =
        reports.iter().map(|one| (one.policy.as_str(), one.report.verdict())).collect();
    of(&verdicts)
}

fn of(verdicts: &[(&str, Verdict)]) -> Answer {
    let verdict = |policy: &str| {
        // With pauses and without.
        let of_policy = |one: &str| one.strip_suffix(PAUSED).unwrap_or(one) == policy;
        let all = verdicts.iter().filter(|(one, _)| of_policy(one)).map(|(_, what)| *what);
        all.max_by_key(|verdict| match verdict {
            Verdict::Green => 0,
            Verdict::GreenSoFar => 1,
            Verdict::NoVerdict => 2,
            Verdict::Red => 3,
        })
    };
    let with = |wanted| POLICIES.into_iter().filter(move |(one, _)| verdict(one) == Some(wanted));
    let bad: Vec<&str> = with(Verdict::Red).map(|(policy, _)| policy).collect();
    let least = with(Verdict::Green).next();
    let sentence = match (least, bad.is_empty()) {
        (Some((policy, adds)), true) => format!("good under {policy}, which promises {adds}"),
        (Some((policy, adds)), false) => {
            format!("bad under {}; good under {policy}, which promises {adds}", bad.join(" and "))
        }
        (None, false) => {
            format!("bad under {}: look for an fsync that is missing", bad.join(" and "))
        }
        (None, true) => match with(Verdict::GreenSoFar).next() {
            Some((policy, _)) => format!("good so far under {policy}; not all states were tried"),
            None => "no policy has a verdict".to_owned(),
        },
    };
    Answer { policy: least.map(|(policy, _)| policy), sentence }
}

impl Answer {
    /// The line that closes a report.
    pub fn line(&self) -> String {
        format!("Policies: {}.", self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Verdict = Verdict::Red;
    const GREEN: Verdict = Verdict::Green;
    const NONE: Verdict = Verdict::NoVerdict;

    fn policy(verdicts: &[(&str, Verdict)]) -> Option<&'static str> {
        of(verdicts).policy
    }

    #[test]
    fn the_least_policy_that_is_enough_is_named() {
        let all = |one, two, three| [("async", one), ("sync", two), ("soft", three)];
        assert_eq!(policy(&all(GREEN, GREEN, GREEN)), Some("async"));
        assert_eq!(policy(&all(RED, GREEN, GREEN)), Some("soft"));
        assert_eq!(policy(&all(RED, GREEN, RED)), Some("sync"));
        assert_eq!(policy(&all(RED, RED, RED)), None);
        assert_eq!(policy(&all(NONE, GREEN, GREEN)), Some("soft"));
        assert_eq!(policy(&[("async", RED)]), None);
        let paused = [("async", GREEN), ("async-paused", RED), ("soft", GREEN)];
        assert_eq!(policy(&paused), Some("soft"));
        assert_eq!(policy(&[("async", RED), ("async-paused", GREEN)]), None);
        assert_eq!(policy(&[("async", GREEN), ("async-paused", GREEN)]), Some("async"));
        assert_eq!(policy(&[]), None);
    }

    #[test]
    fn every_policy_of_one_disk_has_an_answer() {
        use crate::own::policy::OwnPolicy;
        for one in OwnPolicy::of(seekless_formats::Kind::default()) {
            let name = one.to_string();
            assert_eq!(policy(&[(&name, GREEN)]).map(str::to_owned), Some(name));
        }
        let all = [("async", RED), ("wafs-1async-writeback", RED), ("wafs-1async", GREEN)];
        assert_eq!(policy(&all), Some("wafs-1async"));
    }

    #[test]
    fn the_sentence_says_what_was_bad_and_what_is_promised() {
        let sync = of(&[("async", RED), ("sync", GREEN), ("soft", RED)]);
        assert_eq!(
            sync.line(),
            "Policies: bad under async and soft; good under sync, which promises that names are \
             durable, in order, when a call returns."
        );
        let bad = of(&[("async", RED), ("sync", NONE)]);
        assert!(bad.sentence.contains("look for an fsync"), "{bad:?}");
        assert_eq!(of(&[("sync", NONE)]).sentence, "no policy has a verdict");
    }
}
