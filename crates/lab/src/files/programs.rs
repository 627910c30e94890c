//! Programs: what users do, in phases, as functions of a seed.

pub(super) mod burst;
mod large;
mod micro;
mod news;
mod pairs;
mod postmark;
mod sdet;
mod small;
mod ssh;
mod tree;
mod update;

use super::steps::{Step, Steps};
use seekless_engine::units::SECONDS;
use std::fmt;

/// A program by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Bursts of durable updates with pauses between them (paper 000, figures 11 and 12).
    Burst,
    /// Files of each size are made, read, written and removed (paper 001, figures 1 and 2).
    Micro,
    /// 1,500 files of 1 KB in one directory (paper 000, figure 6).
    Small,
    /// One file of 10 MB, sequentially and at random (paper 000, figure 7).
    Large,
    /// A server of netnews stores and expires articles (paper 001, table 5).
    News,
    /// Empty files are made and removed (paper 001, figure 3).
    Pairs,
    /// PostMark 1.5 (paper 001, figure 5).
    PostMark,
    /// Users run scripts of commands at the same time (paper 001, figure 4).
    Sdet,
    /// ssh is unpacked, configured and built (paper 001, table 4).
    Ssh,
    /// A source tree is unpacked, copied and removed (paper 002, figures 7 to 9).
    Tree,
    /// Blocks of one file are overwritten at random, each durably (paper 000, figure 8).
    Update,
}

impl ProgramKind {
    /// All of them with their names.
    pub const ALL: [(ProgramKind, &str); 11] = [
        (ProgramKind::Burst, "burst"),
        (ProgramKind::Micro, "micro"),
        (ProgramKind::Small, "small"),
        (ProgramKind::Large, "large"),
        (ProgramKind::News, "news"),
        (ProgramKind::Pairs, "pairs"),
        (ProgramKind::PostMark, "postmark"),
        (ProgramKind::Sdet, "sdet"),
        (ProgramKind::Ssh, "ssh"),
        (ProgramKind::Tree, "tree"),
        (ProgramKind::Update, "update"),
    ];

    /// What it does, in a line.
    pub fn summary(self) -> &'static str {
        match self {
            ProgramKind::Burst => "overwrite random blocks of one file durably, in bursts",
            ProgramKind::Micro => "make, read, write and remove files of each size",
            ProgramKind::Small => "1,500 files of 1 KB in one directory",
            ProgramKind::Large => "one file of 10 MB, sequentially and at random",
            ProgramKind::News => "store a batch of netnews and expire old articles (a model)",
            ProgramKind::Pairs => "make and remove empty files",
            ProgramKind::PostMark => "PostMark 1.5: many short-lived small files",
            ProgramKind::Sdet => "run a script of commands for each user (a model)",
            ProgramKind::Ssh => "unpack, configure and build ssh (a model)",
            ProgramKind::Tree => "unpack, copy and remove a source tree",
            ProgramKind::Update => "overwrite random blocks of one file durably",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ProgramKind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much a program does, where it leaves that open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amount {
    /// Users.
    pub users: usize,
    /// Files: of `small` (1,500), `pairs` (50,000) and `postmark` (500); of `micro` in place of
    /// 128 MB for each size; of `news` (520,000) at the start, with a like share of all else.
    pub files: Option<u32>,
    /// Transactions of `postmark` (500).
    pub transactions: Option<u32>,
    /// Sizes of `micro` in bytes; the thirteen of the paper if there are none.
    pub sizes: Vec<u64>,
    /// Directories over which `pairs` is spread (1). The time of a synchronous call is a whole
    /// number of revolutions, which depends on where directory and inode lie.
    pub placements: Option<u32>,
    /// Bytes of the file of `update` and `burst` (8 MiB).
    pub file_bytes: Option<u64>,
    /// Bytes of a burst of `burst` (512 KiB).
    pub burst_bytes: Option<u64>,
    /// Milliseconds between bursts (0).
    pub idle_ms: Option<u32>,
    /// Measured updates of `update` (1,000) and `burst` (4,000).
    pub updates: Option<u32>,
    /// Updates of both before the measured ones: twice the file if not given.
    pub warm_up: Option<u32>,
    /// Seconds of idleness: of `tree` after each phase, as a phase of its own; of `micro` after the
    /// files were made; of `update` before it is measured.
    pub rest_seconds: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Amount {
    /// What one user does by default.
    pub fn one_user() -> Amount {
        Amount { users: 1, seed: 1, ..Amount::default() }
    }

    /// The idleness, as steps of the first user.
    fn rest(&self) -> Option<Step> {
        self.rest_seconds.map(|seconds| Step::Pause(u64::from(seconds) * SECONDS))
    }
}

/// A phase of a program.
pub struct Phase {
    /// Its name.
    pub name: String,
    /// The file system is unmounted and mounted first, so that the cache is empty.
    pub cold: bool,
    /// It counts; otherwise it prepares.
    pub measured: bool,
    /// The steps of each user.
    pub users: Vec<Steps>,
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phase {} of {} users", self.name, self.users.len())
    }
}

impl Phase {
    /// A measured phase with a cold cache; `steps` gives those of each user.
    fn cold(name: impl Into<String>, users: usize, steps: impl Fn(usize) -> Steps) -> Phase {
        let users = (0..users).map(steps).collect();
        Phase { name: name.into(), cold: true, measured: true, users }
    }

    /// The same with what the cache holds.
    fn warm(name: impl Into<String>, users: usize, steps: impl Fn(usize) -> Steps) -> Phase {
        Phase { cold: false, ..Phase::cold(name, users, steps) }
    }

    /// A measured phase in which only time passes.
    fn rests(name: impl Into<String>, users: usize, pause: Step) -> Phase {
        Phase::warm(name, users, move |user| steps((user == 0).then_some(pause).into_iter()))
    }

    /// A phase that only prepares.
    fn prepares(users: usize, steps: impl Fn(usize) -> Steps) -> Phase {
        Phase { measured: false, ..Phase::warm("preparation", users, steps) }
    }
}

/// The phases of a program.
pub fn phases(kind: ProgramKind, amount: &Amount) -> Vec<Phase> {
    match kind {
        ProgramKind::Burst => burst::phases(amount),
        ProgramKind::Micro => micro::phases(amount),
        ProgramKind::Small => small::phases(amount),
        ProgramKind::Large => large::phases(amount),
        ProgramKind::News => news::phases(amount),
        ProgramKind::Pairs => pairs::phases(amount),
        ProgramKind::PostMark => postmark::phases(amount),
        ProgramKind::Sdet => sdet::phases(amount),
        ProgramKind::Ssh => ssh::phases(amount),
        ProgramKind::Tree => tree::phases(amount),
        ProgramKind::Update => update::phases(amount),
    }
}

/// Steps in a box.
fn steps(steps: impl Iterator<Item = Step> + 'static) -> Steps {
    Box::new(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_function_of_its_seed() {
        let all = |kind, seed| -> Vec<Step> {
            let (sizes, files) = (vec![2048], Some(20));
            let amount = Amount { users: 2, seed, files, sizes, ..Amount::one_user() };
            phases(kind, &amount).into_iter().flat_map(|p| p.users).flatten().collect()
        };
        for (kind, name) in ProgramKind::ALL {
            assert_eq!(all(kind, 1), all(kind, 1), "{name}");
            assert!(all(kind, 1).len() > 20, "{name} does something");
        }
        assert_ne!(all(ProgramKind::PostMark, 1), all(ProgramKind::PostMark, 2));
    }
}
