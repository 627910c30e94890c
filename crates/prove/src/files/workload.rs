//! Workloads: what a client does in a case, drawn from a profile.
//!
//! The generator keeps a world of its own, in which all requests succeed, so that most requests
//! name what is there. A few do not, and must be refused.

mod profiles;

pub use profiles::{PROFILES, Profile};

use super::names::{Name, Path};
use super::request::FileRequest as R;
use super::tree::Attrs;
use super::world::{Object, ROOT, World};
use crate::script::{Fault, Operation};
use profiles::Act;
use seekless_engine::rng::Rng;
use seekless_formats::KindLimits;
use seekless_fs::call::FileKind;

/// Sectors of the largest block, and of the direct blocks of a file with such blocks.
const BLOCK: u64 = 16;
const DIRECT: u64 = 12 * BLOCK;
/// Sectors of Minix in front of the first two indirect blocks, with both sizes of blocks.
const MINIX_DIRECT: [u64; 4] = [7 * 2, (7 + 256) * 2, 7 * 8, (7 + 1024) * 8];
/// Sectors of a cluster.
const CLUSTER: u32 = 128;
/// Sectors from one block of a spread file to the next: below each indirect block there is one.
const SPREAD: u32 = 1 << 16;
/// Blocks of a spread file: a visit of its reclaim takes several steps.
const SPREAD_BLOCKS: u32 = 27;
/// Background events of a long pause.
const REST: u32 = 60;

/// The script of a case for a format with these limits.
pub fn script(profile: &Profile, limits: KindLimits, rng: &mut Rng) -> Vec<Operation<R>> {
    let world = World::new(Attrs { mode: 0o755, uid: 0 });
    let mut writer = Writer { profile, limits, world, script: Vec::new() };
    for number in 0..profile.directories {
        writer.directory(number, rng);
    }
    for _ in 0..profile.steps {
        writer.step(rng);
    }
    writer.script.push(Operation::Pass(u32::MAX));
    writer.script
}

struct Writer<'p> {
    profile: &'p Profile,
    limits: KindLimits,
    world: World,
    script: Vec<Operation<R>>,
}

/// An act of a profile by its weight.
fn draw(acts: &[(Act, u64)], rng: &mut Rng) -> Act {
    let total: u64 = acts.iter().map(|(_, weight)| weight).sum();
    let mut at = rng.below(total);
    for (act, weight) in acts {
        match at.checked_sub(*weight) {
            Some(left) => at = left,
            None => return *act,
        }
    }
    Act::Sync
}

impl Writer<'_> {
    fn push(&mut self, request: R) {
        self.script.push(Operation::Request(request));
        let planned = self.world.plan(request).ok();
        let planned = planned.filter(|_| !request.exceeds(&self.limits));
        self.world.send(planned.unwrap_or_default());
        self.world.confirm();
    }

    fn directory(&mut self, number: u16, rng: &mut Rng) {
        let name = Name::numbered(1000 + number);
        let path = self.any_directory(rng).join(name);
        self.push(R::Mkdir(path));
    }

    fn step(&mut self, rng: &mut Rng) {
        let profile = self.profile;
        if rng.below(1000) < profile.epochs {
            let clean = rng.chance(0.3);
            self.script.push(Operation::Pass(if clean { u32::MAX } else { rng.below(12) as u32 }));
            // Drawn apart: what follows does not depend on it.
            let fails = profile.faults > 0 && rng.clone().chance(0.3);
            self.script.push(Operation::End(clean));
            if fails {
                // The mark of the mount is the first write.
                self.script.push(Operation::Break(Fault::Write(0)));
            }
        }
        if rng.below(1000) < profile.faults {
            self.fault(rng);
        }
        if rng.below(100) < profile.rests {
            self.script.push(Operation::Rest(REST));
        }
        match draw(profile.acts, rng) {
            Act::Short => self.short_life(rng),
            Act::Vacate => self.vacate(rng),
            Act::Crowd => self.crowd(rng),
            Act::Slot => self.slot(rng),
            Act::Grow => self.grow(rng),
            Act::Spread => self.spread(rng),
            Act::Synced => self.synced(rng),
            act => {
                if let Some(request) = self.request(act, rng) {
                    self.push(request);
                }
            }
        }
        if rng.below(100) < profile.syncs {
            let request = match rng.below(4) {
                0 => R::Sync,
                1 => R::Fdatasync(self.file(rng).unwrap_or(Path::ROOT)),
                2 => R::Fsync(self.any_directory(rng)),
                _ => R::Fsync(self.file(rng).unwrap_or(Path::ROOT)),
            };
            self.push(request);
            if rng.chance(0.5) {
                self.script.push(Operation::Pass(rng.below(8) as u32));
            }
        }
    }

    fn fault(&mut self, rng: &mut Rng) {
        let after = rng.below(12);
        let fault = if rng.chance(0.6) { Fault::Write(after) } else { Fault::Flush(after / 6) };
        self.script.push(Operation::Break(fault));
    }

    /// A file that is made, written and removed at once.
    fn short_life(&mut self, rng: &mut Rng) {
        let path = self.new_path(rng);
        self.push(R::Create(path));
        self.push(R::Append(path, 1 + rng.below(20) as u32));
        if rng.chance(0.3) {
            self.push(R::Fsync(path));
        }
        self.push(R::Unlink(path));
    }

    /// All names leave a directory for another one, and it is removed.
    fn vacate(&mut self, rng: &mut Rng) {
        let Some(dir) = self.object(FileKind::Directory, rng) else { return };
        let to = self.any_directory(rng);
        let within = to.names().starts_with(dir.names());
        let to = if within { Path::ROOT } else { to };
        let all = self.paths();
        let Some(&(_, object)) = all.iter().find(|(path, _)| *path == dir) else { return };
        let names: Vec<Name> = self.world.names(object).map(|(name, _)| name).collect();
        for name in names {
            self.push(R::Rename(dir.join(name), to.join(name)));
        }
        self.push(R::Rmdir(dir));
    }

    /// Long names come into one directory: of new files, and of one from elsewhere.
    fn crowd(&mut self, rng: &mut Rng) {
        let dir = self.any_directory(rng);
        let most = self.limits.name_bytes;
        let long = |rng: &mut Rng| dir.join(Name::long(rng.below(24) as u16).within(most));
        for _ in 0..1 + rng.below(3) {
            self.push(R::Create(long(rng)));
        }
        if let Some(from) = self.file(rng) {
            self.push(R::Rename(from, long(rng)));
        }
    }

    /// A file grows a little, which is written late, and then by a whole cluster, which is written
    /// at once; another file is made durable, and with it the inodes beside its own.
    fn grow(&mut self, rng: &mut Rng) {
        let Some(path) = self.content(rng) else { return };
        self.push(R::Append(path, 1 + rng.below(3) as u32));
        let at = CLUSTER * (1 + rng.below(2) as u32);
        self.push(R::Write(path, at, CLUSTER));
        self.push(R::Fsync(self.file(rng).unwrap_or(Path::ROOT)));
    }

    /// A file with more indirect blocks than one step of a reclaim reads, and a change of it.
    fn spread(&mut self, rng: &mut Rng) {
        let path = self.new_path(rng);
        self.push(R::Create(path));
        for number in 1..=SPREAD_BLOCKS {
            self.push(R::Write(path, number * SPREAD, 1));
        }
        self.push(R::Fsync(path));
        if rng.chance(0.5) {
            self.script.push(Operation::End(false));
            self.script.push(Operation::Rest(REST));
        }
        let kept = rng.below(u64::from(SPREAD_BLOCKS)) as u32;
        self.push(R::Write(path, kept * SPREAD + 1, 2));
        self.push(R::Punch(path, (kept + 1) * SPREAD, 16));
        if rng.chance(0.5) {
            self.push(R::Unlink(path));
        }
    }

    /// A file that is durable, and then a change of any kind.
    fn synced(&mut self, rng: &mut Rng) {
        let Some(path) = self.file(rng) else { return };
        self.push(R::Append(path, 1 + rng.below(20) as u32));
        self.push(if rng.chance(0.5) { R::Fsync(path) } else { R::Fdatasync(path) });
        let (at, count) = self.extent(rng);
        let change = match rng.below(10) {
            0 => R::Write(path, at, count),
            1 => R::Append(path, count),
            2 => R::Truncate(path, self.size(rng)),
            3 => R::Allocate(path, at, count),
            4 => R::Punch(path, at, count),
            5 => R::Chmod(path, 0o600),
            6 => R::Link(path, self.new_path(rng)),
            7 => R::Rename(path, self.new_path(rng)),
            8 => R::Rename(self.file(rng).unwrap_or(path), path),
            _ => R::Unlink(path),
        };
        self.push(change);
    }

    /// A file leaves its directory, and a new one takes its place there.
    fn slot(&mut self, rng: &mut Rng) {
        let Some(from) = self.file(rng) else { return };
        let Some((above, _)) = from.split() else { return };
        self.push(R::Rename(from, self.new_path(rng)));
        let path = Path::of(above).join(self.name(rng));
        self.push(R::Create(path));
    }

    fn request(&mut self, act: Act, rng: &mut Rng) -> Option<R> {
        let (at, count) = self.extent(rng);
        Some(match act {
            Act::Create => R::Create(self.new_path(rng)),
            Act::Mkdir => R::Mkdir(self.new_path(rng)),
            Act::Symlink => R::Symlink(self.new_path(rng), rng.below(30) as u16),
            Act::Fifo => R::Fifo(self.new_path(rng)),
            Act::Link => R::Link(self.object(FileKind::File, rng)?, self.new_path(rng)),
            Act::Unlink => R::Unlink(self.file(rng)?),
            Act::Rmdir => R::Rmdir(self.object(FileKind::Directory, rng)?),
            Act::Move => R::Rename(self.any(rng)?, self.new_path(rng)),
            Act::Within => {
                let from = self.any(rng)?;
                let (above, _) = from.split()?;
                R::Rename(from, Path::of(above).join(self.name(rng)))
            }
            Act::Over => R::Rename(self.file(rng)?, self.file(rng)?),
            Act::MoveDirectory => {
                let from = self.object(FileKind::Directory, rng)?;
                R::Rename(from, self.new_path(rng))
            }
            Act::Exchange => R::Exchange(self.any(rng)?, self.any(rng)?),
            Act::Write => R::Write(self.content(rng)?, at, count),
            Act::Append => R::Append(self.content(rng)?, count),
            Act::Truncate => R::Truncate(self.content(rng)?, self.size(rng)),
            // A few stay, to be refused.
            Act::Allocate | Act::Punch if !self.limits.allocates && rng.chance(0.9) => match act {
                Act::Allocate => R::Write(self.content(rng)?, at, count),
                _ => R::Truncate(self.content(rng)?, self.size(rng)),
            },
            Act::Allocate => R::Allocate(self.content(rng)?, at, count),
            Act::Punch => R::Punch(self.content(rng)?, at, count),
            Act::Chmod => R::Chmod(self.any(rng)?, [0o600, 0o644, 0o755][rng.below(3) as usize]),
            Act::Chown => R::Chown(self.any(rng)?, self.owner(rng)),
            Act::Fsync => R::Fsync(self.content(rng)?),
            Act::FsyncDirectory => R::Fsync(self.any_directory(rng)),
            Act::Fdatasync => R::Fdatasync(self.content(rng)?),
            Act::Sync
            | Act::Short
            | Act::Vacate
            | Act::Crowd
            | Act::Slot
            | Act::Grow
            | Act::Spread
            | Act::Synced => R::Sync,
            Act::Hold => R::Hold(self.file(rng)?, rng.below(4) as u8),
            Act::Release => {
                let held: Vec<u8> = self.world.held().collect();
                R::Release(*held.get(rng.below(held.len().max(1) as u64) as usize)?)
            }
        })
    }

    /// Where an indirect block begins. Formats without generations have the maps of Minix.
    fn indirect(&self, rng: &mut Rng) -> u64 {
        match self.limits.generations {
            true => DIRECT,
            false => MINIX_DIRECT[rng.below(MINIX_DIRECT.len() as u64) as usize],
        }
    }

    /// A place and a length, in sectors, next to a border that the profile is about.
    fn extent(&self, rng: &mut Rng) -> (u32, u32) {
        let most = self.profile.most_sectors;
        let count = 1 + rng.below(most);
        let near = |border: u64, rng: &mut Rng| (border + rng.below(5)).saturating_sub(2);
        let at = match self.profile.far {
            true if self.limits.file_bytes < u64::from(u32::MAX) && rng.chance(0.05) => {
                near(self.limits.file_bytes / 512, rng).saturating_sub(count)
            }
            true if rng.chance(0.6) => near(self.indirect(rng), rng),
            _ if rng.chance(0.4) => near(rng.below(6) * BLOCK / 2, rng),
            _ => rng.below(3 * most),
        };
        (at as u32, count as u32)
    }

    /// A size in bytes: of whole sectors, or with enough of the last one to tell what it is.
    fn size(&self, rng: &mut Rng) -> u32 {
        let most = self.limits.file_bytes;
        if most < u64::from(u32::MAX) && rng.chance(0.05) {
            // The largest size, or one more.
            return most as u32 + rng.below(2) as u32;
        }
        let (at, _) = self.extent(rng);
        at * 512 + if rng.chance(0.4) { 16 + rng.below(490) as u32 } else { 0 }
    }

    /// An owner; where the format has a largest one, now and then that one or the next.
    fn owner(&self, rng: &mut Rng) -> u32 {
        match self.limits.owner {
            u32::MAX => rng.below(3) as u32 * 1000,
            most if rng.chance(0.2) => most + rng.below(2) as u32,
            _ => rng.below(3) as u32 * 1000,
        }
    }

    fn name(&self, rng: &mut Rng) -> Name {
        let name = Name::numbered(rng.below(u64::from(self.profile.names)) as u16);
        name.within(self.limits.name_bytes)
    }

    fn new_path(&self, rng: &mut Rng) -> Path {
        self.any_directory(rng).join(self.name(rng))
    }

    /// All objects with a path, in order.
    fn paths(&self) -> Vec<(Path, Object)> {
        let mut all = vec![(Path::ROOT, ROOT)];
        let mut at = 0;
        while let Some(&(path, object)) = all.get(at) {
            for (name, child) in self.world.names(object) {
                let below = path.join(name);
                if below != path {
                    all.push((below, child));
                }
            }
            at += 1;
        }
        all
    }

    fn pick(&self, of: impl Fn(FileKind) -> bool, rng: &mut Rng) -> Option<Path> {
        let is = |(_, object): &(Path, Object)| of(self.world.record(*object).kind);
        let all: Vec<Path> = self.paths().into_iter().filter(is).map(|(path, _)| path).collect();
        (!all.is_empty()).then(|| all[rng.below(all.len() as u64) as usize])
    }

    /// A directory with room for a name below its path.
    fn any_directory(&self, rng: &mut Rng) -> Path {
        let found = self.pick(|kind| kind == FileKind::Directory, rng).unwrap_or(Path::ROOT);
        let fits = found.names().len() + 1 < super::names::MOST_DEPTH;
        if fits { found } else { Path::ROOT }
    }

    fn object(&self, kind: FileKind, rng: &mut Rng) -> Option<Path> {
        self.pick(|one| one == kind, rng).filter(|path| *path != Path::ROOT)
    }

    fn file(&self, rng: &mut Rng) -> Option<Path> {
        self.object(FileKind::File, rng)
    }

    fn any(&self, rng: &mut Rng) -> Option<Path> {
        self.pick(|_| true, rng).filter(|path| *path != Path::ROOT)
    }

    /// A file, or one that is open.
    fn content(&self, rng: &mut Rng) -> Option<Path> {
        let held: Vec<u8> = self.world.held().collect();
        match held.is_empty() || rng.chance(0.5) {
            true => self.file(rng),
            false => Some(Path::Held(held[rng.below(held.len() as u64) as usize])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that must be refused test little: most are possible, and some are not.
    #[test]
    fn most_requests_are_possible() {
        for kind in seekless_formats::Kind::all() {
            most_are_possible_within(kind.limits);
        }
    }

    fn most_are_possible_within(limits: KindLimits) {
        let mut refused = 0;
        for profile in &PROFILES {
            let script = script(profile, limits, &mut Rng::stream(3, profile.name));
            let mut world = World::new(Attrs { mode: 0o755, uid: 0 });
            let (mut done, mut failed) = (0, 0);
            for operation in script {
                let Operation::Request(request) = operation else { continue };
                match world.plan(request) {
                    Ok(effects) if !request.exceeds(&limits) => {
                        world.send(effects);
                        world.confirm();
                        done += 1;
                    }
                    _ => failed += 1,
                }
            }
            assert!(done > 2 * failed, "{}: {done} possible, {failed} not", profile.name);
            refused += failed;
        }
        assert!(refused > 10, "{refused} requests are not possible");
    }
}
