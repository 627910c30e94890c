//! Giving an array a new member. It runs alone, in blocking style.

use super::VolumeError;
use super::assemble::{agree_on_superblock, on};
use super::create::{prepare, write_both};
use super::member::{MemberState, MemberSuperblock};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;

/// Writes the superblock to all usable members but one.
fn tell_others(
    disks: &mut [Option<&mut dyn Disk>],
    usable: &[bool],
    except: usize,
    superblock: &MemberSuperblock,
) -> Result<(), VolumeError> {
    for (place, disk) in disks.iter_mut().enumerate() {
        if let Some(disk) = disk.as_mut().filter(|_| usable[place] && place != except) {
            on(place, superblock.write(*disk, place))?;
            on(place, disk.flush_for(Edge::TellOthersFlush))?;
        }
    }
    Ok(())
}

/// Puts a new device in the place of a member: the next assembly begins to fill it. The other
/// members are in their places; `None` for those that are missing.
///
/// # Errors
/// A level without redundancy, a device that is too small, too few other members, and what the
/// media report.
pub fn replace(
    disks: &mut [Option<&mut dyn Disk>],
    member: usize,
    new: &mut dyn Disk,
) -> Result<MemberSuperblock, VolumeError> {
    let mut found = Vec::with_capacity(disks.len());
    for (place, disk) in disks.iter_mut().enumerate() {
        let disk = disk.as_mut().filter(|_| place != member);
        found.push(match disk {
            None => None,
            Some(disk) => Some(MemberSuperblock::read(*disk)?),
        });
    }
    let (mut superblock, usable) = agree_on_superblock(&found, &[], true)?;
    let needed = superblock.device_blocks();
    if new.blocks() < needed {
        return Err(VolumeError::Truncated { needed, found: new.blocks() });
    }
    for (place, disk) in disks.iter_mut().enumerate() {
        let late = found[place].as_ref().is_some_and(|one| one.events < superblock.events);
        if let Some(disk) = disk.as_mut().filter(|_| usable[place] && late) {
            on(place, superblock.write(*disk, place))?;
            on(place, disk.flush_for(Edge::InformFlush))?;
        }
    }
    superblock.events += 1;
    if Edge::ReplacedFilled.stands() {
        superblock.rebuilt = 0;
    }
    for (place, state) in superblock.states.iter_mut().enumerate() {
        match *state {
            _ if place == member => *state = MemberState::Rebuilding,
            // One at a time: what was being filled begins anew later.
            MemberState::Rebuilding => *state = MemberState::Out,
            _ => {}
        }
    }
    debug_assert_eq!(superblock.replacement(), Some(member), "one member is filled at a time");
    on(member, prepare(new, &superblock, false))?;
    on(member, write_both(new, &mut superblock, member))?;
    tell_others(disks, &usable, member, &superblock)?;
    // Once more, so that the device that was replaced is two behind.
    superblock.events += 1;
    on(member, superblock.write(new, member))?;
    on(member, new.flush_for(Edge::ReplaceFlush))?;
    tell_others(disks, &usable, member, &superblock)?;
    Ok(superblock)
}
