//! Whether a program relies on more than POSIX promises, as far as crash states can tell.
//!
//! Under `async` a file system of Seekless keeps what `fsync` has made durable, and nothing else:
//! that is what POSIX promises. The other policies promise more. So a program that is good under
//! `async` relies on `fsync` alone, and one that is bad there and good under a stricter policy
//! relies on what that policy adds. The answer holds for the states that were tried.

use super::policies::PolicyReport;
use super::{Report, Verdict};
use serde::Serialize;

/// What the names of Seekless' file systems begin with.
const OWN: &str = "seekless:ffs:";
/// The policy that promises no more than POSIX does.
const POSIX: &str = "async";

/// Policies that promise more, from the least, and what they add.
const STRICTER: [(&str, &str); 2] = [
    ("soft", "the order in which names, inodes and content reach the disk"),
    ("sync", "that names are durable, in order, when a call returns"),
];

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliance {
    /// It is good where no more is promised.
    No,
    /// It is good only where more is promised.
    Yes,
    /// It is bad under every policy: it relies on what none of them promises.
    OnMoreThanAny,
    /// What was tried does not tell.
    Unknown,
}

/// The answer, for people and for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// In one word.
    pub answer: Reliance,
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
    let verdict =
        |policy: &str| verdicts.iter().find(|(one, _)| *one == policy).map(|(_, what)| *what);
    let with = |wanted| STRICTER.into_iter().filter(move |(one, _)| verdict(one) == Some(wanted));
    let (answer, sentence) = match verdict(POSIX) {
        Some(Verdict::Green) => (
            Reliance::No,
            "no: it is good under async, which keeps what fsync has made durable and nothing else"
                .to_owned(),
        ),
        Some(Verdict::Red) => match (with(Verdict::Green).next(), with(Verdict::Red).next()) {
            (Some((policy, adds)), _) => (
                Reliance::Yes,
                format!("yes: it is bad under async and good under {policy}, which adds {adds}"),
            ),
            (None, Some(_)) => (
                Reliance::OnMoreThanAny,
                "yes, and on more than any policy promises: it is bad under each that was tried; \
                 look for an fsync that is missing"
                    .to_owned(),
            ),
            (None, None) => (
                Reliance::Unknown,
                "perhaps: it is bad under async, and no stricter policy tells whether an fsync is \
                 missing or an order is relied on"
                    .to_owned(),
            ),
        },
        Some(Verdict::NoVerdict) => {
            (Reliance::Unknown, "unknown: there is no verdict under async".to_owned())
        }
        None => (
            Reliance::Unknown,
            "unknown: only async promises no more than POSIX; try --fs seekless:ffs:async or all"
                .to_owned(),
        ),
    };
    Answer { answer, sentence }
}

impl Answer {
    /// The line that closes a report.
    pub fn line(&self) -> String {
        format!("Does it rely on more than POSIX promises? {}.", capital(&self.sentence))
    }
}

/// With a capital at the beginning.
fn capital(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Verdict = Verdict::Red;
    const GREEN: Verdict = Verdict::Green;

    fn answer(verdicts: &[(&str, Verdict)]) -> Reliance {
        of(verdicts).answer
    }

    #[test]
    fn what_fails_under_async_alone_relies_on_more() {
        let all = |one, two, three| [("async", one), ("sync", two), ("soft", three)];
        assert_eq!(answer(&all(GREEN, GREEN, GREEN)), Reliance::No);
        assert_eq!(answer(&all(RED, GREEN, RED)), Reliance::Yes);
        assert_eq!(answer(&all(RED, RED, RED)), Reliance::OnMoreThanAny);
        assert_eq!(answer(&all(RED, Verdict::NoVerdict, RED)), Reliance::OnMoreThanAny);
        assert_eq!(answer(&all(Verdict::NoVerdict, GREEN, GREEN)), Reliance::Unknown);
        assert_eq!(answer(&[("async", RED)]), Reliance::Unknown);
        assert_eq!(answer(&[("async", GREEN)]), Reliance::No);
        assert_eq!(answer(&[("sync", GREEN)]), Reliance::Unknown);
        assert_eq!(answer(&[]), Reliance::Unknown);
    }

    /// The least policy that is enough is named.
    #[test]
    fn the_sentence_names_the_policy_and_what_it_adds() {
        let soft = of(&[("async", RED), ("sync", GREEN), ("soft", GREEN)]);
        assert!(soft.sentence.contains("good under soft, which adds the order"), "{soft:?}");
        let sync = of(&[("async", RED), ("sync", GREEN), ("soft", RED)]);
        assert!(sync.sentence.contains("good under sync, which adds that names"), "{sync:?}");
        let line = of(&[("async", GREEN)]).line();
        assert!(line.starts_with("Does it rely on more than POSIX promises? No: "), "{line}");
    }
}
