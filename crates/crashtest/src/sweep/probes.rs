//! Questions that come before a sweep: can the check be trusted?
//!
//! A check that fails on an undamaged disk makes every state bad; one that passes on a disk without
//! the data that was acknowledged makes every state good. Neither says anything about a crash.

use super::{Sweep, SweepError};
use crate::replay::check::{Checked, Verdict};
use crate::session::CrashImage;
use crate::states::history::Epoch;
use crate::states::state::{Fate, State};

/// What is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The check passes on the disk at the end, from which nothing is lost.
    EndState,
    /// It passes on the disk before the workload, if nothing was acknowledged.
    StartState,
    /// It fails on the disk before the workload, if all that is acknowledged at the end was.
    MissingData,
}

impl Question {
    /// The state that is probed, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Question::EndState => "end state",
            Question::StartState => "start state",
            Question::MissingData => "missing data",
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was probed.
    pub question: Question,
    /// What the check says.
    pub checked: Checked,
}

impl Answer {
    /// True if the check can be trusted as far as this goes.
    pub fn is_right(&self) -> bool {
        match self.question {
            Question::EndState | Question::StartState => self.checked.verdict == Verdict::Good,
            Question::MissingData => matches!(self.checked.verdict, Verdict::Bad(_)),
        }
    }

    /// True if the work was ended before there was an answer.
    pub fn is_stopped(&self) -> bool {
        self.checked.verdict == Verdict::Stopped
    }

    /// What a wrong answer means, as `cause; remedy`.
    pub fn complaint(&self) -> String {
        let state = self.question.name();
        let (cause, remedy) = match (self.question, &self.checked.verdict) {
            (_, Verdict::Hung) => (
                format!("the check takes longer than its time limit on the {state}"),
                "--timeout allows more",
            ),
            (_, Verdict::Failed(why)) => {
                (format!("the check cannot run on the {state}: {why}"), "try it by hand")
            }
            (Question::EndState, _) => (
                "your check fails on an undamaged disk: the state at the end of the recording, \
                 with nothing lost"
                    .to_owned(),
                "correct the check first: no crash state was tried",
            ),
            (Question::StartState, _) => (
                "your check fails on the disk as it was before the workload began, when nothing \
                 was acknowledged"
                    .to_owned(),
                "let it pass there, or begin behind a later mark with --from",
            ),
            (Question::MissingData, _) => (
                "your check cannot fail: it passes on the disk as it was before the workload \
                 began, although it is told that everything was acknowledged"
                    .to_owned(),
                "compare what is there with $SEEKLESS_ACKED, or give --consistency-only",
            ),
        };
        format!("{cause}; {remedy}")
    }
}

impl Sweep<'_> {
    /// Asks all questions that this sweep has, up to the first wrong answer.
    ///
    /// # Errors
    /// If a state cannot be presented as a file, or the check cannot be started.
    pub fn probe(&self) -> Result<Vec<Answer>, SweepError> {
        let end = self.session.history().events();
        let all = self.acked(end);
        let mut answers = Vec::new();
        let mut questions = vec![
            (Question::EndState, self.end_state(), all.clone()),
            (Question::StartState, self.start_state(), self.acked(self.options.begin)),
        ];
        if all.count > self.acked(self.options.begin).count {
            questions.push((Question::MissingData, self.start_state(), all));
        }
        for (question, image, acked) in questions {
            let checked = self.bench.check(image, question.name(), &acked)?;
            answers.push(Answer { question, checked });
            if answers.last().is_some_and(|answer| !answer.is_right()) {
                break;
            }
        }
        Ok(answers)
    }

    /// The disk at the end of the recording.
    pub fn end_state(&self) -> CrashImage {
        self.last_before(u64::MAX, self.session.history().events())
    }

    /// The disk at the event where the sweep begins.
    fn start_state(&self) -> CrashImage {
        self.last_before(self.options.begin, self.options.begin + 1)
    }

    /// The state that keeps what was asked before event `asked`, in the first epoch whose cut is
    /// not before `cut`.
    fn last_before(&self, asked: u64, cut: u64) -> CrashImage {
        let mut ground = self.session.ground();
        let mut last: Option<Epoch> = None;
        for epoch in self.session.history().epochs() {
            ground.settle(self.session, &epoch);
            let is_found = epoch.cut >= cut;
            last = Some(epoch);
            if is_found {
                break;
            }
        }
        let epoch = last.expect("every history has an epoch");
        let writes = self.session.history().writes();
        let fate = |index: usize| match writes[index].asked < asked {
            true => Fate::Kept,
            false => Fate::Lost,
        };
        let fates = epoch.unsettled.iter().map(|one| fate(one.write)).collect();
        ground.state(self.session, &epoch, &State { cut: epoch.cut, fates })
    }
}
