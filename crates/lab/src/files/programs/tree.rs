//! `tree`: each user unpacks, copies and removes a source tree, first with a cold cache in each
//! phase, then with a warm one (paper 002). It has 508 files in 31 directories with 5.03 MB. The
//! sizes are log-normal, made up to the published sum.

use super::{Amount, Phase, steps};
use crate::files::sizes;
use crate::files::steps::{Nr, Step, make_whole, read_whole};
use seekless_engine::rng::Rng;

const FILES: u32 = 508;
const DIRS: u32 = 31;
const BYTES: u64 = 5_030_000;
const SIGMA: f64 = 1.3;
/// Bytes of a read or write.
const UNIT: u32 = 8 << 10;
/// Directories that a directory may have, for a depth of at most 4.
const FAN_OUT: u32 = 4;

/// The tree that all users unpack: the size and directory of each file.
fn tree(seed: u64) -> Vec<(u64, Nr)> {
    let mut rng = Rng::stream(seed, "tree");
    let sizes = sizes::log_normal(&mut rng, FILES as usize, BYTES, SIGMA);
    let mut files: Vec<(u64, Nr)> =
        sizes.into_iter().map(|size| (size, rng.below(u64::from(DIRS)) as Nr)).collect();
    // An archive has the files of a directory together.
    files.sort_by_key(|&(_, dir)| dir);
    files
}

/// The parent of a directory of the tree; the first is its root.
fn parent(dir: Nr) -> Option<Nr> {
    (dir > 0).then(|| (dir - 1) / FAN_OUT)
}

/// One unpacked or copied tree: the numbers of its first directory and file.
#[derive(Clone, Copy)]
struct Copied {
    dir: Nr,
    file: Nr,
}

impl Copied {
    fn number(n: u32) -> Copied {
        Copied { dir: 1 + n * DIRS, file: 1 + n * FILES }
    }

    fn make_dirs(self) -> impl Iterator<Item = Step> {
        (0..DIRS).map(move |n| {
            let parent = parent(n).map_or(0, |parent| self.dir + parent);
            Step::MakeDir { dir: self.dir + n, parent }
        })
    }

    fn make_file(self, n: u32, (size, dir): (u64, Nr)) -> Vec<Step> {
        make_whole(self.file + n, self.dir + dir, size, UNIT).collect()
    }

    fn read_file(self, n: u32, size: u64) -> Vec<Step> {
        read_whole(self.file + n, size, UNIT).collect()
    }
}

/// The steps of a phase for two copies of the tree.
type Of = fn(Copied, Copied, Vec<(u64, Nr)>) -> Vec<Step>;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let mut phases = Vec::new();
    for (round, cold) in [(0, true), (1, false)] {
        let how = if cold { "cold" } else { "warm" };
        let (one, two) = (Copied::number(2 * round), Copied::number(2 * round + 1));
        let phase = |name: &str, all: Of| {
            let seed = amount.seed;
            let of = |_| steps(all(one, two, tree(seed)).into_iter());
            Phase { cold, ..Phase::cold(format!("{name}, {how}"), amount.users, of) }
        };
        let all: [(&str, Of); 3] = [
            ("untar", |one, _, tree| untar(one, &tree)),
            ("copy", |one, two, tree| copy(one, two, &tree)),
            ("remove", |one, two, tree| remove(one, &tree).chain(remove(two, &tree)).collect()),
        ];
        for (name, of) in all {
            phases.push(phase(name, of));
            let rest = amount.rest();
            let name = format!("after {name}, {how}");
            phases.extend(rest.map(|pause| Phase::rests(name, amount.users, pause)));
        }
    }
    phases
}

fn untar(to: Copied, tree: &[(u64, Nr)]) -> Vec<Step> {
    let files = tree.iter().zip(0..).flat_map(|(&file, n)| to.make_file(n, file));
    to.make_dirs().chain(files).collect()
}

/// Lists each directory and copies its files.
fn copy(from: Copied, to: Copied, tree: &[(u64, Nr)]) -> Vec<Step> {
    let mut steps: Vec<Step> = to.make_dirs().collect();
    for dir in 0..DIRS {
        steps.push(Step::List { dir: from.dir + dir });
        for (&(size, _), n) in tree.iter().zip(0..).filter(|((_, at), _)| *at == dir) {
            steps.extend(from.read_file(n, size));
            steps.extend(to.make_file(n, (size, dir)));
        }
    }
    steps
}

/// Lists each directory, deepest first, removes its files, then itself.
fn remove(what: Copied, tree: &[(u64, Nr)]) -> impl Iterator<Item = Step> {
    let mut steps = Vec::new();
    for dir in (0..DIRS).rev() {
        steps.push(Step::List { dir: what.dir + dir });
        for (_, n) in tree.iter().zip(0..).filter(|((_, at), _)| *at == dir) {
            steps.push(Step::Unlink { file: what.file + n });
        }
        steps.push(Step::RemoveDir { dir: what.dir + dir });
    }
    steps.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_what_was_published() {
        let tree = tree(1);
        assert_eq!(tree.len(), 508);
        assert_eq!(tree.iter().map(|file| file.0).sum::<u64>(), 5_030_000);
        let depth = |mut dir| {
            let mut depth = 0;
            while let Some(up) = parent(dir) {
                (dir, depth) = (up, depth + 1);
            }
            depth
        };
        assert_eq!((0..DIRS).map(depth).max(), Some(3), "four levels with its root");
    }
}
