//! Short sequences of operations, all of them: bounded exhaustive workloads.
//!
//! Fourteen operations with all arguments over a few names, each followed by fsync, fdatasync, sync
//! or nothing. What an operation needs and does not find is made before it; what is made before the
//! first one is durable in some variants and not in others, and was there at the mount in the
//! rest. In a few more cases a name comes into a full directory, which must grow. The bounds are
//! those of Mohan et al., "Finding crash-consistency bugs with bounded black-box crash testing",
//! OSDI 2018; here the power is cut at every event, not at the end only.

use super::contract::operation::Operations;
use super::names::{Name, Path};
use super::request::FileRequest as R;
use super::tree::Attrs;
use super::world::World;
use crate::script::Operation;
use seekless_engine::checksum::mix;
use seekless_fs::call::FileKind;
use std::fmt;
use std::sync::OnceLock;

/// How long sequences are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ace {
    /// One operation.
    One,
    /// Two.
    Two,
    /// Three: too many to run all of them. Any cases in a row are a sample of all sequences.
    Three,
}

/// The stride from one sequence of a sample to the next, as a part of their number: that of the
/// golden ratio, which spreads any number of them evenly.
const STRIDE: f64 = 0.618_033_988_749_894_9;

impl Ace {
    /// Sequences of so many operations.
    pub fn of_length(length: u8) -> Option<Ace> {
        match length {
            1 => Some(Ace::One),
            2 => Some(Ace::Two),
            3 => Some(Ace::Three),
            _ => None,
        }
    }

    /// Operations in a sequence.
    pub fn length(self) -> u32 {
        match self {
            Ace::One => 1,
            Ace::Two => 2,
            Ace::Three => 3,
        }
    }

    /// Number of sequences.
    pub fn cases(self) -> u64 {
        let each = operations().len() as u64 * Persist::ALL.len() as u64;
        let full = if self == Ace::One { INTO_FULL.len() * Persist::ALL.len() } else { 0 };
        each.pow(self.length()) * self.setups() + full as u64
    }

    /// The request of a case that adds a name to a full directory, and what makes it durable. Those
    /// are the last cases.
    fn into_full(self, case: u64) -> Option<(R, Persist)> {
        let back = self.cases().checked_sub(1 + case)? as usize;
        let persist = Persist::ALL.get(back / INTO_FULL.len());
        persist.filter(|_| self == Ace::One).map(|&one| (INTO_FULL[back % INTO_FULL.len()], one))
    }

    /// The operations of a case since its last mount.
    pub fn operations(self, case: u64) -> Operations {
        let mut world = World::new(Attrs { mode: 0o755, uid: 0 });
        for operation in script(self, case) {
            match operation {
                Operation::Request(request) => {
                    let effects = world.plan(request).unwrap_or_default();
                    world.send(effects);
                    world.confirm();
                }
                Operation::End(_) => world.done = Operations::NONE,
                _ => {}
            }
        }
        world.done
    }

    /// True if the operation of a case is the first one since a mount.
    pub fn is_mounted(self, case: u64) -> bool {
        self == Ace::One && (case % 3 == 2 || self.into_full(case).is_some())
    }

    /// Variants of a sequence. Of more operations than one each has one, by its number.
    fn setups(self) -> u64 {
        match self {
            Ace::One => 3,
            Ace::Two | Ace::Three => 1,
        }
    }

    /// The number of the sequence of a case: each belongs to one case.
    fn sequence(self, case: u64) -> u64 {
        let all = self.cases();
        match self {
            Ace::One | Ace::Two => case,
            Ace::Three => {
                let near = (all as f64 * STRIDE) as u64;
                let stride = (near..).find(|&stride| gcd(stride, all) == 1).unwrap_or(1);
                case % all * stride % all
            }
        }
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

impl fmt::Display for Ace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ace::One => f.write_str("sequences of one operation"),
            Ace::Two => f.write_str("sequences of two operations"),
            Ace::Three => f.write_str("sequences of three operations"),
        }
    }
}

/// What makes an operation durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persist {
    Nothing,
    Fsync,
    Fdatasync,
    Sync,
}

impl Persist {
    const ALL: [Persist; 4] = [Persist::Nothing, Persist::Fsync, Persist::Fdatasync, Persist::Sync];
}

const FOO: Path = path(&[Name::FOO]);
const BAR: Path = path(&[Name::BAR]);
const A: Path = path(&[Name::A]);
const B: Path = path(&[Name::B]);
const A_FOO: Path = path(&[Name::A, Name::FOO]);
const A_BAR: Path = path(&[Name::A, Name::BAR]);
const B_FOO: Path = path(&[Name::B, Name::FOO]);
const A_C: Path = path(&[Name::A, Name::C]);
const FILES: [Path; 5] = [FOO, BAR, A_FOO, A_BAR, B_FOO];
const DIRECTORIES: [Path; 3] = [A, B, A_C];
/// Renames of directories that are possible.
const MOVES: [(Path, Path); 4] = [(A, B), (B, A), (B, A_C), (A_C, B)];

const fn path(names: &[Name]) -> Path {
    let mut all = [Name::FOO; super::names::MOST_DEPTH];
    let mut at = 0;
    while at < names.len() {
        all[at] = names[at];
        at += 1;
    }
    Path::Names(all, names.len() as u8)
}

/// What adds a name to the root directory, when that is full.
const INTO_FULL: [R; 5] =
    [R::Link(FOO, BAR), R::Rename(FOO, BAR), R::Create(BAR), R::Symlink(BAR, 3), R::Mkdir(B)];
/// Bytes of a short name at most: with its entry it takes 12.
const SHORT: usize = 4;
/// Short names that fill a root directory of 1 KiB: two chunks of 42 entries, without `.` and `..`.
const FULL: usize = 82;

/// All operations with their arguments.
fn operations() -> &'static [R] {
    static ALL: OnceLock<Vec<R>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = Vec::new();
        let pairs = || {
            let of = |from: Path| FILES.into_iter().map(move |to| (from, to));
            FILES.into_iter().flat_map(of).filter(|(from, to)| from != to)
        };
        all.extend(DIRECTORIES.map(R::Mkdir));
        all.extend(DIRECTORIES.map(R::Rmdir));
        for file in FILES {
            all.extend([
                R::Create(file),
                R::Symlink(file, 3),
                R::Unlink(file),
                R::Append(file, 9),
                R::Write(file, 1, 2),
                R::Truncate(file, 700),
                R::Truncate(file, 20_000),
                R::Allocate(file, 8, 12),
                R::Punch(file, 0, 6),
                R::Chmod(file, 0o600),
            ]);
        }
        all.extend(pairs().map(|(from, to)| R::Link(from, to)));
        all.extend(pairs().chain(MOVES).map(|(from, to)| R::Rename(from, to)));
        let once = |(from, to): &(Path, Path)| from.names() < to.names();
        let exchanges = pairs().filter(once).chain([(A, B), (A_C, B)]);
        all.extend(exchanges.map(|(one, other)| R::Exchange(one, other)));
        all
    })
}

/// The script of a case.
pub fn script(ace: Ace, case: u64) -> Vec<Operation<R>> {
    if let Some((request, persist)) = ace.into_full(case) {
        return full_script(request, persist);
    }
    let sequence = ace.sequence(case);
    let mut rest = sequence / ace.setups();
    let durable = match ace {
        Ace::One => sequence.is_multiple_of(3),
        Ace::Two | Ace::Three => mix(sequence).is_multiple_of(2),
    };
    // It finds what it needs when it mounts: nothing else has been done since.
    let mounted = ace.is_mounted(case);
    let world = World::new(Attrs { mode: 0o755, uid: 0 });
    let mut writer = Writer { world, script: Vec::new(), mounted };
    let mut persist = Persist::Nothing;
    for place in 0..ace.length() {
        let (count, kinds) = (operations().len() as u64, Persist::ALL.len() as u64);
        let request = operations()[(rest % count) as usize];
        rest /= count;
        persist = Persist::ALL[(rest % kinds) as usize];
        rest /= kinds;
        if !writer.prepare(request) {
            continue;
        }
        if mounted {
            if let R::Rename(_, to) = request
                && matches!(persist, Persist::Nothing | Persist::Fdatasync)
            {
                writer.target(&to);
            }
            writer.script.push(Operation::End(true));
        }
        if place == 0 && durable && !writer.script.is_empty() {
            writer.push(R::Sync);
        }
        writer.push(request);
        writer.persist(request, persist);
    }
    writer.end(persist)
}

/// The script of a request that adds a name to a full root directory, first after a mount.
fn full_script(request: R, persist: Persist) -> Vec<Operation<R>> {
    let world = World::new(Attrs { mode: 0o755, uid: 0 });
    let mut writer = Writer { world, script: Vec::new(), mounted: true };
    writer.prepare(request);
    writer.fill_root();
    writer.script.push(Operation::End(true));
    writer.push(request);
    writer.persist(request, persist);
    writer.end(persist)
}

/// Device events of the background after a sequence: more than it has.
const MOST_EVENTS: u32 = 200;

struct Writer {
    world: World,
    script: Vec<Operation<R>>,
    /// The first operation follows a mount.
    mounted: bool,
}

impl Writer {
    /// Adds a request; false if it must be refused.
    fn push(&mut self, request: R) -> bool {
        self.script.push(Operation::Request(request));
        let planned = self.world.plan(request);
        let is_possible = planned.is_ok();
        self.world.send(planned.unwrap_or_default());
        self.world.confirm();
        is_possible
    }

    /// Adds short names to the root directory until the next one needs another chunk.
    fn fill_root(&mut self) {
        let root = self.world.resolve(&Path::ROOT).expect("there is a root");
        let had = self.world.names(root).count();
        let short = (1..).filter(|&number| Name::numbered(number).text().len() <= SHORT);
        for number in short.take(FULL.saturating_sub(had)) {
            self.push(R::Create(Path::ROOT.join(Name::numbered(number))));
        }
    }

    /// The script, at the end of which everything is written.
    fn end(mut self, persist: Persist) -> Vec<Operation<R>> {
        self.script.push(Operation::Pass(u32::MAX));
        if persist == Persist::Nothing {
            // The writes of the background are cut off, too.
            self.script.push(Operation::Rest(MOST_EVENTS));
        }
        self.script
    }

    fn kind(&self, path: &Path) -> Option<FileKind> {
        self.world.resolve(path).map(|object| self.world.record(object).kind)
    }

    /// Makes what a request needs; false if that cannot be.
    fn prepare(&mut self, request: R) -> bool {
        match request {
            R::Create(path) | R::Mkdir(path) | R::Symlink(path, _) => self.absent(&path),
            R::Unlink(path) => self.present(&path, FileKind::File),
            R::Rmdir(path) => self.present(&path, FileKind::Directory) && self.empty(&path),
            R::Link(from, to) => self.present(&from, FileKind::File) && self.absent(&to),
            R::Rename(from, to) if DIRECTORIES.contains(&from) => {
                self.present(&from, FileKind::Directory)
                    && self.above(&to)
                    && (self.kind(&to).is_none() || self.empty(&to))
            }
            R::Rename(from, to) => self.present(&from, FileKind::File) && self.above(&to),
            R::Exchange(one, other) => {
                let is_directory = DIRECTORIES.contains(&one);
                let kind = if is_directory { FileKind::Directory } else { FileKind::File };
                self.present(&one, kind) && self.present(&other, kind)
            }
            R::Append(path, _) | R::Write(path, ..) | R::Truncate(path, _) => {
                self.present(&path, FileKind::File)
            }
            R::Allocate(path, ..) | R::Punch(path, ..) | R::Chmod(path, _) => {
                self.present(&path, FileKind::File)
            }
            _ => true,
        }
    }

    /// The directory of a path is there.
    fn above(&mut self, path: &Path) -> bool {
        let Some((names, _)) = path.split() else { return false };
        let dir = Path::of(names);
        names.is_empty() || self.present(&dir, FileKind::Directory)
    }

    fn present(&mut self, path: &Path, kind: FileKind) -> bool {
        if !self.above(path) {
            return false;
        }
        match self.kind(path) {
            Some(found) if found == kind => true,
            Some(_) => self.remove(path) && self.make(path, kind),
            None => self.make(path, kind),
        }
    }

    fn make(&mut self, path: &Path, kind: FileKind) -> bool {
        // One file has several blocks, the others a part of one.
        let sectors = if self.mounted && *path == FOO { 40 } else { 5 };
        match kind {
            FileKind::Directory => self.push(R::Mkdir(*path)),
            _ => self.push(R::Create(*path)) && self.push(R::Append(*path, sectors)),
        }
    }

    /// Makes what a rename replaces.
    fn target(&mut self, path: &Path) {
        let is_directory = DIRECTORIES.contains(path);
        self.present(path, if is_directory { FileKind::Directory } else { FileKind::File });
    }

    fn absent(&mut self, path: &Path) -> bool {
        self.above(path) && (self.kind(path).is_none() || self.remove(path))
    }

    fn remove(&mut self, path: &Path) -> bool {
        match self.kind(path) {
            Some(FileKind::Directory) => self.empty(path) && self.push(R::Rmdir(*path)),
            _ => self.push(R::Unlink(*path)),
        }
    }

    fn empty(&mut self, path: &Path) -> bool {
        let Some(dir) = self.world.resolve(path) else { return false };
        let names: Vec<Name> = self.world.names(dir).map(|(name, _)| name).collect();
        names.into_iter().all(|name| self.remove(&path.join(name)))
    }

    /// Makes an operation durable by what it has changed: the object, or the directory from which
    /// a name has gone.
    fn persist(&mut self, request: R, persist: Persist) {
        let above = |path: &Path| Path::of(path.split().map_or(&[][..], |(names, _)| names));
        let target = match request {
            R::Unlink(path) | R::Rmdir(path) => above(&path),
            R::Symlink(path, _) => above(&path),
            R::Link(_, path) | R::Rename(_, path) | R::Exchange(_, path) => path,
            R::Create(path) | R::Mkdir(path) | R::Append(path, _) | R::Write(path, ..) => path,
            R::Truncate(path, _) | R::Allocate(path, ..) | R::Punch(path, ..) => path,
            R::Chmod(path, _) => path,
            _ => Path::ROOT,
        };
        match persist {
            Persist::Nothing => true,
            Persist::Fsync => self.push(R::Fsync(target)),
            Persist::Fdatasync => self.push(R::Fdatasync(target)),
            Persist::Sync => self.push(R::Sync),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_bounds_are_those_that_the_module_names() {
        let count = operations().len();
        assert!((100..130).contains(&count), "{count} operations");
        assert_eq!(Ace::One.cases(), count as u64 * 4 * 3 + INTO_FULL.len() as u64 * 4);
        assert!(Ace::Two.cases() > 200_000, "{}", Ace::Two.cases());
    }

    /// The last cases, and no other, add a name to a full directory after a mount.
    #[test]
    fn each_name_comes_into_a_full_directory() {
        let full = (0..Ace::One.cases()).filter_map(|case| Some((case, Ace::One.into_full(case)?)));
        let mut seen = BTreeSet::new();
        for (case, (request, persist)) in full {
            assert!(case >= operations().len() as u64 * 4 * 3, "{case}");
            assert!(Ace::One.is_mounted(case));
            let script = script(Ace::One, case);
            let mount = script.iter().position(|one| matches!(one, Operation::End(_)));
            let mount = mount.expect("there is a mount");
            assert!(mount >= FULL, "{mount} requests");
            assert!(matches!(script[mount + 1], Operation::Request(one) if one == request));
            seen.insert(format!("{request:?} {persist:?}"));
        }
        assert_eq!(seen.len(), INTO_FULL.len() * 4);
        assert_eq!(Ace::Two.into_full(Ace::Two.cases() - 1), None);
    }

    /// A sample of the sequences of three has no sequence twice, and each operation in each place.
    #[test]
    fn a_sample_is_spread_over_all_sequences() {
        let (count, kinds) = (operations().len() as u64, Persist::ALL.len() as u64);
        let sample: Vec<u64> = (0..2000).map(|case| Ace::Three.sequence(case)).collect();
        let distinct: BTreeSet<u64> = sample.iter().copied().collect();
        assert_eq!(distinct.len(), sample.len());
        for place in 0..Ace::Three.length() {
            let below = (count * kinds).pow(place);
            let all: BTreeSet<u64> = sample.iter().map(|one| one / below % count).collect();
            assert_eq!(all.len() as u64, count, "operation {place}");
        }
    }

    /// Each operation finds what it needs: none is refused.
    #[test]
    fn sequences_are_possible() {
        let mut lengths = 0;
        let two = (0..Ace::Two.cases()).step_by(97).map(|case| (Ace::Two, case));
        let three = (0..2000).map(|case| (Ace::Three, case));
        let one = (0..Ace::One.cases()).map(|case| (Ace::One, case));
        for (ace, case) in one.chain(two).chain(three) {
            let mut world = World::new(Attrs { mode: 0o755, uid: 0 });
            let mut refused = 0;
            for operation in script(ace, case) {
                let Operation::Request(request) = operation else { continue };
                lengths += 1;
                match world.plan(request) {
                    Ok(effects) => {
                        world.send(effects);
                        world.confirm();
                    }
                    Err(_) => refused += 1,
                }
            }
            assert_eq!(refused, 0, "{ace}, case {case}: {:?}", script(ace, case));
        }
        assert!(lengths > 10_000, "{lengths}");
    }
}
