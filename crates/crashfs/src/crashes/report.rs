//! What came of a check.

use seekless_calls::model::{Model, Unmodelled};
use std::fmt;

/// What came of all models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order in which the models were given.
    pub models: Vec<ModelReport>,
}

/// What came of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReport {
    /// The model.
    pub model: Model,
    /// States that were tried. The sweep of a model ends at its first bad state.
    pub states: usize,
    /// Power cuts that they belong to.
    pub cuts: usize,
    /// The story of the first bad state, made small.
    pub bad: Option<String>,
}

impl Report {
    /// The model that informs does not decide, unless it is the only one.
    fn decides(&self, one: &ModelReport) -> bool {
        let informs = |one: &ModelReport| one.model == Model::POSIX;
        !informs(one) || self.models.iter().all(informs)
    }

    /// True if a model that decides has a bad state.
    pub fn is_red(&self) -> bool {
        self.models.iter().any(|one| one.bad.is_some() && self.decides(one))
    }

    fn names(&self, is_bad: bool) -> String {
        let those = self.models.iter().filter(|one| one.bad.is_some() == is_bad);
        those.map(|one| one.model.name).collect::<Vec<_>>().join(", ")
    }

    fn headline(&self) -> String {
        let (bad, good) = (self.names(true), self.names(false));
        match self.is_red() {
            true if good.is_empty() => format!("RED: bad states on {bad}"),
            true => format!("RED: bad states on {bad}; none found on {good}"),
            false if bad.is_empty() => format!("GREEN: no bad state on {good}"),
            false => format!(
                "GREEN: no bad state on {good}; the program relies on more than POSIX promises"
            ),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.headline())?;
        writeln!(f, "{:<8}{:>8}{:>8}  first bad state", "model", "cuts", "states")?;
        for one in &self.models {
            let bad = match (&one.bad, self.decides(one)) {
                (None, _) => "none",
                (Some(_), true) => "found",
                (Some(_), false) => "found (informs, does not decide)",
            };
            writeln!(f, "{:<8}{:>8}{:>8}  {bad}", one.model.name, one.cuts, one.states)?;
        }
        // What informs is told only where no other model has a story.
        let is_told = |one: &&ModelReport| self.decides(one) || !self.is_red();
        for one in self.models.iter().filter(is_told) {
            if let Some(story) = &one.bad {
                write!(f, "\n{}: {story}", one.model.name)?;
            }
        }
        Ok(())
    }
}

/// A state on which the answer of a check is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The disk at the end, from which nothing is lost: the check must pass.
    EndState,
    /// The disk before the first run, with nothing acknowledged: the check must pass.
    StartState,
    /// The disk before the first run, with everything acknowledged: the check must fail.
    MissingData,
}

/// Why a check did not pass. `Debug` prints the text of `Display`: tests that return an error show
/// that.
#[derive(Clone, PartialEq, Eq)]
pub enum CheckError {
    /// A model that decides has a bad state.
    Red(Report),
    /// The check cannot be trusted: its answer on this state is wrong.
    Untrusted {
        /// Which one.
        probe: Probe,
        /// What the check says there; nothing if it passes.
        said: String,
    },
    /// No run changed anything on the disk.
    NoChange,
    /// There is no model.
    NoModel,
    /// The models do not describe the record.
    Unmodelled(Unmodelled),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Red(report) => write!(f, "{report}"),
            CheckError::Untrusted { probe: Probe::EndState, said } => write!(
                f,
                "the check fails on the undamaged disk at the end of the run ({said}); correct \
                 the check first: no crash state was tried"
            ),
            CheckError::Untrusted { probe: Probe::StartState, said } => write!(
                f,
                "the check fails on the disk before the run, when nothing was acknowledged \
                 ({said}); let it pass there, or prepare the disk under `Disk::enter` before the \
                 run"
            ),
            CheckError::Untrusted { probe: Probe::MissingData, .. } => f.write_str(
                "the check cannot fail: it passes on the disk before the run although everything \
                 was acknowledged; compare what is on the disk with the acknowledged values",
            ),
            CheckError::NoChange => f.write_str(
                "the run changed nothing on the disk; let the product use seekless_crashfs::fs in \
                 place of std::fs, and call it inside of `Disk::run`",
            ),
            CheckError::NoModel => {
                f.write_str("there is no model to check; give `Model::USUAL` or some of them")
            }
            CheckError::Unmodelled(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CheckError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CheckError::Unmodelled(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Unmodelled> for CheckError {
    fn from(error: Unmodelled) -> CheckError {
        CheckError::Unmodelled(error)
    }
}
