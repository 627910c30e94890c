//! Members full of data, and what they say of their array.

use crate::seen::{Seen, start};
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::{CreateArray, Level, create};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;

/// Stripes of each array.
pub const STRIPES: u64 = 24;

/// An empty medium of the size of a member.
pub fn fresh(level: Level, members: usize, chunk: u32) -> Cells {
    let each = u64::from(chunk);
    let log = if level == Level::Raid5 { 2 * (1 + members as u64 * each) + 2 } else { 0 };
    Cells::new(4 + log + STRIPES * each)
}

/// Members of an array that was written once, in version 1, and ended in order.
pub fn filled(level: Level, members: usize, chunk: u32) -> Vec<Cells> {
    let mut media = vec![fresh(level, members, chunk); members];
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    create(&mut disks, &CreateArray { level, chunk, id: 5, blank: true }).expect("it fits");
    let (mut node, devices) = start(&mut media, 0);
    let (mut now, blocks) = (0, node.layer.blocks() as u32);
    node.run(&mut now, Io::write(1, 0, Data::stamp(blocks, 0, 1))).expect("it is written");
    node.finish(&mut now);
    on_medium(&devices)
}

/// What the devices keep without power.
pub fn on_medium(devices: &[Seen]) -> Vec<Cells> {
    devices.iter().map(|one| one.0.lend().durable().clone()).collect()
}

/// What the youngest superblock says; a member that is put out does not count.
pub fn newest(media: &[Cells]) -> MemberSuperblock {
    let read = |medium: &Cells| MemberSuperblock::read(&mut MediumDisk(&mut medium.clone()));
    let found = media.iter().map(|medium| read(medium).expect("a member"));
    found.max_by_key(|one| one.events).expect("there are members")
}

/// True if they say that all of them are part of it.
pub fn is_whole(media: &[Cells]) -> bool {
    newest(media).states.iter().all(|&one| one == MemberState::Active)
}
