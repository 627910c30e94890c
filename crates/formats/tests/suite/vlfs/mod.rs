//! VLFS through its library, above its drive in memory: against the model, at its limits, and on
//! damaged images.

mod damage;
mod scripts;
mod space;

use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::{FormatOptions, MountOptions as VolumeMount};
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use seekless_formats::MountOptions;
use seekless_formats::vlfs::{self, Vlfs, check, mkfs};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_layouts::Kind;

/// A node, and the time that it has reached.
pub type Timed = (Node, Time);

/// A new file system on a device of so many blocks, that keeps what it completes or not.
pub fn formatted(blocks: u64, volatile: bool) -> Timed {
    let mut cells = Cells::new(blocks);
    let objects = Kind::VLFS.largest_volume(blocks);
    let options = FormatOptions::new(Kind::VLFS, objects, 1);
    let disk = &mut MediumDisk(&mut cells);
    seekless_layouts::format(disk, &options).expect("it fits");
    let (mut node, mut now) = (node_of(cells, volatile), 0);
    let options = (vlfs::KIND.defaults)();
    mkfs(&mut NodeDisk::new(&mut node, &mut now), &options).expect("it fits");
    (node, now)
}

/// The drive over an image.
fn node_of(mut cells: Cells, volatile: bool) -> Node {
    let options = VolumeMount { volatile, ..VolumeMount::default() };
    let disk = &mut MediumDisk(&mut cells);
    let (layer, _, _) = seekless_layouts::mount(disk, &options).expect("it is sound");
    let boxed = Box::new(cells);
    let ram = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
    Node::new(layer, vec![Box::new(ram)], 1)
}

/// Mounts with a cache so small that blocks come and go.
pub fn mount((node, now): Timed, policy: PolicyKind) -> Blocking<Vlfs> {
    let core = CoreOptions { cache_bytes: 256 << 10, ..CoreOptions::default() };
    let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
    let mounted = Blocking::mount_at(node, now, |disk| vlfs::mount(disk, &options));
    mounted.expect("it can be mounted")
}

/// What a check of an unmounted file system finds.
fn findings((node, now): &mut Timed) -> Vec<String> {
    let found = check(&mut NodeDisk::new(node, now)).expect("it can be read");
    found.list.iter().map(ToString::to_string).collect()
}
