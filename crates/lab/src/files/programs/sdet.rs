//! `sdet`: users run scripts of commands at the same time (SPEC 057.sdet; paper 001, section
//! 7.3.2).
//!
//! Each user has a home of its own, all alike, and one script. All scripts have the same commands,
//! each as often; only their order differs. Synthetic: the kit states how often each command runs,
//! and is not here. So a command is one of a few acts on files, and computes for a time that no
//! paper states.

use super::{Amount, Phase, steps};
use crate::distribution::Permutation;
use crate::files::steps::{Nr, Step, Work, compute, make_whole, read_whole};
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, Time};

/// What a command does with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Nothing.
    Computes,
    /// Reads a file of the home.
    Reads,
    /// Lists a directory.
    Lists,
    /// Makes a small file, reads it and removes it.
    Scratches,
    /// Reads a file of the home and makes another one with its content.
    Copies,
    /// Removes a file.
    Removes,
    /// Makes a directory.
    MakesDir,
    /// Removes a directory.
    RemovesDir,
}

use Act::{Computes, Copies, Lists, MakesDir, Reads, Removes, RemovesDir, Scratches};

/// The commands that SPEC lists, but for `mv`; what each does; and how often it runs.
const COMMANDS: [(&str, Act, u32); 28] = [
    ("cat", Reads, 3),
    ("cc", Scratches, 10),
    ("cd", Computes, 1),
    ("col", Reads, 1),
    ("cp", Copies, 8),
    ("cpio", Copies, 2),
    ("date", Computes, 1),
    ("diff", Reads, 2),
    ("echo", Computes, 2),
    ("ed", Scratches, 6),
    ("expr", Computes, 2),
    ("find", Lists, 2),
    ("grep", Reads, 4),
    ("ls", Lists, 4),
    ("make", Scratches, 4),
    ("mkdir", MakesDir, 5),
    ("nroff", Scratches, 6),
    ("pr", Reads, 2),
    ("ps", Computes, 1),
    ("rm", Removes, 10),
    ("rmdir", RemovesDir, 5),
    ("sh", Scratches, 6),
    ("spell", Scratches, 4),
    ("test", Computes, 1),
    ("time", Computes, 1),
    ("touch", Scratches, 4),
    ("wc", Reads, 2),
    ("who", Computes, 1),
];

/// CPU time to start and run a command: free.
const COMMAND: Time = 2 * MILLIS;
/// Files in directories of the home, and their sizes in bytes: at least, and how much more.
const SOURCES: u32 = 20;
const SOURCE_DIRS: u32 = 4;
const SOURCE_BYTES: u64 = 5_000;
const MORE_SOURCE_BYTES: u64 = 95_000;
/// Small files have at most so many bytes.
const SMALL_BYTES: u64 = 8_000;
/// Bytes of a read or write.
const UNIT: u32 = 8 << 10;

/// The home, and where new files go.
const HOME: Nr = 1;
/// Numbers of directories and files: those to be removed, and new ones.
const FIRST_OLD_DIR: Nr = 100;
const FIRST_NEW_DIR: Nr = 200;
const FIRST_OLD: Nr = 100;
const FIRST_NEW: Nr = 200;

/// How often a script has an act.
fn times(act: Act) -> u32 {
    COMMANDS.iter().filter(|command| command.1 == act).map(|command| command.2).sum()
}

/// Sizes of the files of a home.
fn sources(seed: u64) -> Vec<u64> {
    let mut rng = Rng::stream(seed, "sdet: home");
    (0..SOURCES).map(|_| SOURCE_BYTES + rng.below(MORE_SOURCE_BYTES)).collect()
}

fn source_dir(n: u32) -> Nr {
    HOME + 1 + n % SOURCE_DIRS
}

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let (users, seed) = (amount.users, amount.seed);
    vec![
        Phase::prepares(users, |_| steps(home(seed).into_iter())),
        Phase::warm("scripts", users, |user| steps(Script::new(seed, user).run().into_iter())),
    ]
}

fn make(file: Nr, dir: Nr, size: u64) -> impl Iterator<Item = Step> {
    make_whole(file, dir, size, UNIT)
}

fn read(file: Nr, size: u64) -> impl Iterator<Item = Step> {
    read_whole(file, size, UNIT)
}

/// Makes a home: the files that are read, and what is to be removed.
fn home(seed: u64) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "sdet: old files");
    let mut steps = vec![Step::MakeDir { dir: HOME, parent: 0 }];
    let dir = |dir| Step::MakeDir { dir, parent: HOME };
    steps.extend((0..SOURCE_DIRS).map(source_dir).map(dir));
    steps.extend((0..times(RemovesDir)).map(|n| dir(FIRST_OLD_DIR + n)));
    for (n, size) in (0..).zip(sources(seed)) {
        steps.extend(make(1 + n, source_dir(n), size));
    }
    for n in 0..times(Removes) {
        steps.extend(make(FIRST_OLD + n, HOME, 1 + rng.below(SMALL_BYTES)));
    }
    steps
}

/// A script while it is written down.
struct Script {
    /// The commands, in their order.
    acts: Vec<Act>,
    sources: Vec<u64>,
    rng: Rng,
    /// Acts of removing and making directories and of removing files so far.
    removed_dirs: u32,
    made_dirs: u32,
    removed: u32,
    /// The next new file.
    next: Nr,
}

impl Script {
    fn new(seed: u64, user: usize) -> Script {
        let mut rng = Rng::stream(seed.wrapping_add(user as u64), "sdet: script");
        let all = COMMANDS.iter().flat_map(|&(_, act, times)| (0..times).map(move |_| act));
        let all: Vec<Act> = all.collect();
        let order = Permutation::new(all.len() as u64, rng.next());
        let acts = (0..all.len() as u64).map(|at| all[order.at(at) as usize]).collect();
        let sources = sources(seed);
        Script { acts, sources, rng, removed_dirs: 0, made_dirs: 0, removed: 0, next: FIRST_NEW }
    }

    fn run(mut self) -> Vec<Step> {
        let acts = std::mem::take(&mut self.acts);
        acts.into_iter().flat_map(|act| self.command(act)).collect()
    }

    fn command(&mut self, act: Act) -> Vec<Step> {
        let mut steps: Vec<Step> = compute(Work { ns: COMMAND, is_free: true }).collect();
        match act {
            Computes => {}
            Reads => {
                let (source, size) = self.source();
                steps.extend(read(source, size));
            }
            Lists => {
                let n = self.rng.below(u64::from(SOURCE_DIRS)) as u32;
                steps.push(Step::List { dir: source_dir(n) });
            }
            Scratches => {
                let (file, size) = (self.new_file(), 1 + self.rng.below(SMALL_BYTES));
                steps.extend(make(file, HOME, size).chain(read(file, size)));
                steps.push(Step::Unlink { file });
            }
            Copies => {
                let (source, size) = self.source();
                steps.extend(read(source, size).chain(make(self.new_file(), HOME, size)));
            }
            Removes => {
                self.removed += 1;
                steps.push(Step::Unlink { file: FIRST_OLD + self.removed - 1 });
            }
            MakesDir => {
                self.made_dirs += 1;
                steps.push(Step::MakeDir { dir: FIRST_NEW_DIR + self.made_dirs, parent: HOME });
            }
            RemovesDir => {
                self.removed_dirs += 1;
                steps.push(Step::RemoveDir { dir: FIRST_OLD_DIR + self.removed_dirs - 1 });
            }
        }
        steps
    }

    /// A file of the home with its size.
    fn source(&mut self) -> (Nr, u64) {
        let n = self.rng.below(self.sources.len() as u64) as usize;
        (1 + n as Nr, self.sources[n])
    }

    fn new_file(&mut self) -> Nr {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(acts: &[Act]) -> [usize; 8] {
        let all = [Computes, Reads, Lists, Scratches, Copies, Removes, MakesDir, RemovesDir];
        all.map(|act| acts.iter().filter(|one| **one == act).count())
    }

    #[test]
    fn scripts_have_the_same_commands_in_another_order() {
        let scripts: Vec<Vec<Act>> = (0..20).map(|user| Script::new(1, user).acts).collect();
        for (user, script) in scripts.iter().enumerate() {
            assert_eq!(counts(script), counts(&scripts[0]), "user {user}");
            assert!(!scripts[..user].contains(script), "user {user} has an order of its own");
        }
        let script = &scripts[0];
        assert_eq!(script.len(), 100);
        assert_eq!(counts(script), [10, 14, 6, 40, 10, 10, 5, 5]);
    }

    #[test]
    fn a_script_does_what_its_commands_say() {
        let steps = Script::new(1, 3).run();
        let count = |is: fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
        assert_eq!(count(|step| matches!(step, Step::Create { .. })), 50, "scratches and copies");
        assert_eq!(count(|step| matches!(step, Step::Unlink { .. })), 50, "scratches and old ones");
        assert_eq!(count(|step| matches!(step, Step::MakeDir { .. })), 5);
        assert_eq!(count(|step| matches!(step, Step::RemoveDir { .. })), 5);
        assert_eq!(count(|step| matches!(step, Step::Compute(_))), 100);
    }
}
