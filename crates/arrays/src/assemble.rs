//! Finding an array again: which device is which member, and which superblock is right. It runs
//! alone, in blocking style; [`Recovery`] repairs what a crash has left.

use super::member::{MemberState, MemberSuperblock};
use super::recover::Recovery;
use super::scrub::CheckVolume;
use super::unwritten::Unwritten;
use super::{Array, VolumeError};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};

/// How to assemble.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssembleOptions {
    /// Members may lose completed writes until they are flushed.
    pub volatile: bool,
    /// Write nothing.
    pub read_only: bool,
    /// Go on without members that should be there, as far as the level can.
    pub degraded: bool,
    /// Says what the layout above finds whole. A resync asks it where members disagree; without it
    /// the data counts on RAID-5 and the first member on RAID-1.
    pub volume: Option<CheckVolume>,
}

/// An array found, and what was done to it.
#[derive(Debug)]
pub struct Assembled {
    /// The array.
    pub array: Array,
    /// Members that are not part of it now.
    pub missing: Vec<usize>,
    /// It had been ended in order.
    pub clean: bool,
    /// Blocks written once more from logs.
    pub replayed: u64,
    /// Stripes read to bring marked regions into step.
    pub resynced: u64,
    /// Blocks of each member that the resync found wrong by the checksums of the layout above, and
    /// put right from the others.
    pub healed: Vec<u64>,
    /// Blocks read.
    pub blocks_read: u64,
}

/// Which of some devices is which member: for each member the position of its device among
/// `found`, if one claims to be it.
///
/// # Errors
/// Members of different arrays, or two that claim the same place.
pub fn arrange(found: &[Option<MemberSuperblock>]) -> Result<Vec<Option<usize>>, VolumeError> {
    // Of several arrays the one with the most members here is meant, or else the first.
    let fellows =
        |one: &&MemberSuperblock| found.iter().flatten().filter(|other| one.id == other.id).count();
    let first = found.iter().flatten().rev().max_by_key(fellows).ok_or(VolumeError::NoMember)?;
    let mut places = vec![None; first.geometry.members];
    for (device, superblock) in found.iter().enumerate() {
        let Some(superblock) = superblock else { continue };
        if superblock.id != first.id || superblock.geometry != first.geometry {
            let (found, expected) = (superblock.id, first.id);
            return Err(VolumeError::Foreign { device: device + 1, found, expected });
        }
        let member = superblock.index;
        if let Some(other) = places[member].replace(device) {
            return Err(VolumeError::Twice { first: other + 1, second: device + 1, member });
        }
    }
    Ok(places)
}

/// Members in words.
pub(super) fn names(members: &[usize]) -> String {
    members.iter().map(|member| format!("member {member}")).collect::<Vec<_>>().join(", ")
}

/// Two members that each say of the other that it is out were in use without each other since: who
/// of them is right is not for us to say. What only the younger copy of a superblock says was cut
/// off by a crash before anything was acknowledged. Of more than two members one may say so that
/// was put out before the other was replaced.
fn diverged(
    found: &[Option<MemberSuperblock>],
    older: &[Option<MemberSuperblock>],
    newest: &MemberSuperblock,
) -> Result<(), VolumeError> {
    if found.len() > 2 {
        return Ok(());
    }
    let second = newest.index;
    for (one, before) in found.iter().zip(older) {
        let (Some(one), Some(before)) = (one, before) else { continue };
        let first = one.index;
        let out = |of: &MemberSuperblock, who: usize| of.states[who] == MemberState::Out;
        let sure = out(one, second) && out(before, second);
        if out(newest, first) && sure && !out(one, first) {
            return Err(VolumeError::Diverged { first, second });
        }
    }
    Ok(())
}

/// The superblock with the youngest word, and which members may be used according to it.
pub(super) fn agree_on_superblock(
    found: &[Option<MemberSuperblock>],
    older: &[Option<MemberSuperblock>],
    degraded: bool,
) -> Result<(MemberSuperblock, Vec<bool>), VolumeError> {
    let newest =
        found.iter().flatten().max_by_key(|one| one.events).ok_or(VolumeError::NoMember)?;
    // Changes reach the members one by one, so a crash leaves some of them one behind, no more; and
    // each start, end and replacement is two changes, so who is one behind has missed no data.
    let recent = |one: &MemberSuperblock| {
        one.events + 1 >= newest.events || planted(PlantedBug::StaleMember)
    };
    diverged(found, older, newest)?;
    let wanted = |member: usize| {
        newest.states[member] != MemberState::Out || planted(PlantedBug::StaleMember)
    };
    let usable: Vec<bool> = (0..found.len())
        .map(|member| wanted(member) && found[member].as_ref().is_some_and(recent))
        .collect();
    let active = |member: &usize| newest.states[*member] == MemberState::Active;
    let gone: Vec<usize> = (0..found.len()).filter(|&member| !usable[member]).collect();
    let short: Vec<usize> = (0..found.len())
        .filter(|member| !usable[*member] || newest.states[*member] == MemberState::Rebuilding)
        .collect();
    let (level, members) = (newest.geometry.level, found.len());
    if short.len() > level.spare(members) {
        let (missing, who) = (short.len(), names(&short));
        return Err(VolumeError::TooFew { missing, members, who, level });
    }
    let news: Vec<usize> = gone.iter().copied().filter(active).collect();
    if !news.is_empty() && !degraded {
        let (missing, who) = (news.len(), names(&news));
        return Err(VolumeError::Degraded { missing, members, who });
    }
    Ok((newest.clone(), usable))
}

/// Finds an array on its members, which are in their places; `None` for one that is missing.
///
/// # Errors
/// Members that do not belong together, too few of them, logs that cannot be trusted, and what the
/// media report.
pub fn assemble(
    disks: &mut [Option<&mut dyn Disk>],
    options: &AssembleOptions,
) -> Result<Assembled, VolumeError> {
    let (mut found, mut older) = (Vec::new(), Vec::new());
    for disk in disks.iter_mut() {
        let both = match disk.as_mut().map(|disk| MemberSuperblock::read_both(*disk)) {
            None => None,
            Some(Ok(both)) => Some(both),
            Some(Err(_)) if options.degraded => None,
            Some(Err(error)) => return Err(error),
        };
        let (superblock, before) = both.unzip();
        found.push(superblock);
        older.push(before.flatten());
    }
    let places = arrange(&found)?;
    let ordered = places.len() == disks.len()
        && places.iter().enumerate().all(|(member, place)| place.is_none_or(|at| at == member));
    assert!(ordered, "members are handed in at their places");
    let (superblock, usable) = agree_on_superblock(&found, &older, options.degraded)?;
    let behind = |one: &Option<MemberSuperblock>| {
        one.as_ref().is_some_and(|one| one.events < superblock.events)
    };
    let behind = found.iter().map(behind).collect();
    let (read, replayed) = (2 * found.len() as u64, 0);
    let healed = vec![0; found.len()];
    if !options.read_only {
        let mut recovery =
            Recovery { disks, superblock, usable, behind, options, read, replayed, healed };
        return recovery.run();
    }
    let mut members: Vec<Option<Unwritten<'_>>> =
        disks.iter_mut().map(|disk| disk.as_mut().map(|disk| Unwritten::new(*disk))).collect();
    let disks: &mut [_] = &mut members
        .iter_mut()
        .map(|one| one.as_mut().map(|one| one as &mut dyn Disk))
        .collect::<Vec<_>>();
    let mut recovery =
        Recovery { disks, superblock, usable, behind, options, read, replayed, healed };
    let mut found = recovery.run()?;
    for (member, disk) in members.into_iter().enumerate() {
        found.array.lay(disk.into_iter().flat_map(|disk| disk.into_runs(member)).collect());
    }
    Ok(found)
}

/// Names the member in an error of its medium.
pub(super) fn on<T>(member: usize, result: Result<T, IoError>) -> Result<T, VolumeError> {
    result.map_err(|error| VolumeError::Io { member, error })
}
