//! `ssh`: ssh 1.2.26 is unpacked, configured and built (paper 001, section 7.3.1).
//!
//! Synthetic: a model of the operations stands for the archive. Its tree has 400 files in 20
//! directories with log-normal sizes; the configuration makes, runs and removes 150 test programs;
//! the build makes 100 objects and 6 executables. Archive and compiler lie on another disk. The CPU
//! times are fitted to the times of FFS-async (claim J22), and to nothing else.

use super::{Amount, Phase, steps};
use crate::files::sizes;
use crate::files::steps::{Nr, Step, Work, compute, make_whole, read_whole};
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, Time};

const FILES: u32 = 400;
const DIRS: u32 = 20;
const BYTES: u64 = 4_500_000;
/// The median is about 4 KB, and some files are larger than 64 KB.
const SIGMA: f64 = 1.44;
const TESTS: u32 = 150;
/// Files of a test program at least, how many more it may have, and their largest size.
const TEST_FILES: u64 = 3;
const MORE_TEST_FILES: u64 = 2;
const TEST_BYTES: u64 = 10_000;
const OBJECTS: u32 = 100;
const OBJECT_BYTES: u64 = 1_500_000;
const EXECUTABLES: u32 = 6;
/// Bytes of an executable at least, and how many more it may have.
const EXECUTABLE_BYTES: u64 = 300_000;
const MORE_EXECUTABLE_BYTES: u64 = 300_000;
/// Bytes of a read or write.
const UNIT: u32 = 8 << 10;

/// CPU time of each phase, shared by its files, tests, or objects and executables: what FFS-async
/// needs beside its calls to take 1.02, 10.38 and 42.60 s (claim J22).
const UNPACK: Time = 950 * MILLIS;
const CONFIGURE: Time = 10_283 * MILLIS;
const BUILD: Time = 42_548 * MILLIS;

/// Files of each kind have numbers from here on.
const FIRST_TEST: Nr = 1_000;
const FIRST_OBJECT: Nr = 10_000;
const FIRST_EXECUTABLE: Nr = 20_000;

/// The steps of a phase from a seed.
type Of = fn(u64) -> Vec<Step>;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let (users, seed) = (amount.users, amount.seed);
    let all: [(&str, Of); 3] = [("unpack", unpack), ("config", configure), ("build", build)];
    let phase = |(name, of): (&str, Of)| Phase::warm(name, users, |_| steps(of(seed).into_iter()));
    all.into_iter().map(phase).collect()
}

/// Size and directory of each file of the tree, in the order of the archive.
fn tree(seed: u64) -> Vec<(u64, Nr)> {
    let mut rng = Rng::stream(seed, "ssh: tree");
    let sizes = sizes::log_normal(&mut rng, FILES as usize, BYTES, SIGMA);
    let dir = |at: usize| 1 + at as u32 * DIRS / FILES;
    sizes.into_iter().enumerate().map(|(at, size)| (size, dir(at))).collect()
}

/// The steps that compute a share of the work of a phase.
fn share(of: Time, parts: u32) -> impl Iterator<Item = Step> {
    compute(Work { ns: of / Time::from(parts), is_free: false })
}

fn make(file: Nr, dir: Nr, size: u64) -> impl Iterator<Item = Step> {
    make_whole(file, dir, size, UNIT)
}

fn read(file: Nr, size: u64) -> impl Iterator<Item = Step> {
    read_whole(file, size, UNIT)
}

fn unpack(seed: u64) -> Vec<Step> {
    // The first directory has the others.
    let dirs = (1..=DIRS).map(|dir| Step::MakeDir { dir, parent: u32::from(dir > 1) });
    let files = tree(seed)
        .into_iter()
        .zip(1..)
        .flat_map(|((size, dir), file)| share(UNPACK, FILES).chain(make(file, dir, size)));
    dirs.chain(files).collect()
}

/// Makes the files of each test, runs it, and removes them.
fn configure(seed: u64) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "ssh: tests");
    let (mut steps, mut next) = (Vec::new(), FIRST_TEST);
    for _ in 0..TESTS {
        let first = next;
        let mut last = 0;
        for _ in 0..TEST_FILES + rng.below(MORE_TEST_FILES + 1) {
            last = 1 + rng.below(TEST_BYTES);
            steps.extend(make(next, 1, last));
            next += 1;
        }
        steps.extend(share(CONFIGURE, TESTS));
        // The last one is the program.
        steps.extend(read(next - 1, last));
        steps.extend((first..next).map(|file| Step::Unlink { file }));
    }
    steps
}

/// Compiles the first files of the tree, then links the objects.
fn build(seed: u64) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "ssh: objects");
    let sources = tree(seed);
    let objects = sizes::log_normal(&mut rng, OBJECTS as usize, OBJECT_BYTES, SIGMA / 2.0);
    let work = || share(BUILD, OBJECTS + EXECUTABLES);
    let mut steps = Vec::new();
    for (n, &size) in (0..).zip(&objects) {
        let (source, dir) = sources[n as usize];
        steps.extend(read(1 + n, source).chain(work()));
        steps.extend(make(FIRST_OBJECT + n, dir, size));
    }
    for n in 0..EXECUTABLES {
        // Executables share the objects.
        let linked = (0..).zip(&objects).filter(|(object, _)| object % EXECUTABLES == n);
        steps.extend(linked.flat_map(|(object, &size)| read(FIRST_OBJECT + object, size)));
        steps.extend(work());
        let size = EXECUTABLE_BYTES + rng.below(MORE_EXECUTABLE_BYTES);
        steps.extend(make(FIRST_EXECUTABLE + n, 1, size));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(steps: &[Step]) -> usize {
        steps.iter().filter(|step| matches!(step, Step::Create { .. })).count()
    }

    #[test]
    fn the_tree_is_as_large_as_that_of_ssh() {
        let mut sizes: Vec<u64> = tree(1).into_iter().map(|file| file.0).collect();
        sizes.sort_unstable();
        assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (400, BYTES));
        assert!((3_000..5_500).contains(&sizes[200]), "the median is {}", sizes[200]);
        let large = sizes.iter().filter(|&&size| size > 64 << 10).count();
        assert!((3..30).contains(&large), "{large} files are larger than 64 KB");
        assert_eq!(made(&unpack(1)), 400);
        let dirs = unpack(1).into_iter().filter(|step| matches!(step, Step::MakeDir { .. }));
        assert_eq!(dirs.count(), 20);
    }

    #[test]
    fn tests_leave_nothing_and_the_build_leaves_its_objects() {
        let config = configure(1);
        let removed = config.iter().filter(|step| matches!(step, Step::Unlink { .. })).count();
        assert_eq!(made(&config), removed);
        assert!((450..=750).contains(&removed), "{removed} files of 150 tests");
        assert_eq!(made(&build(1)), 106);
    }

    #[test]
    fn phases_compute_for_as_long_as_was_fitted() {
        for (steps, fitted) in [(unpack(1), UNPACK), (configure(1), CONFIGURE), (build(1), BUILD)] {
            let each = steps.iter().map(|step| match step {
                Step::Compute(work) => work.ns,
                _ => 0,
            });
            let sum: Time = each.sum();
            assert!(fitted - sum < MILLIS, "{sum} of {fitted}");
        }
    }
}
