//! Minix through its library: against the model, at its limits, and on damaged images.

mod cuts;
mod damage;
mod limits;
pub mod scripts;
mod unreadable;

use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::node::Node;
use seekless_formats::minix::{self, Minix, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;

/// Sizes of a block.
const BLOCKS: [u32; 3] = [1024, 2048, 4096];

fn options(block: u32) -> MkfsOptions {
    MkfsOptions { block, ..(minix::KIND.defaults)() }
}

/// A new file system on so many blocks of 4,096 bytes.
fn image(blocks: u64, options: &MkfsOptions) -> Cells {
    let mut cells = Cells::new(blocks);
    mkfs(&mut MediumDisk(&mut cells), options).expect("it fits");
    cells
}

/// A node over an image, that takes parts of blocks or not.
fn node_of(cells: Cells, parts: bool) -> Node {
    let ram = Ram::new(Box::new(cells));
    Plain::node(Box::new(if parts { ram } else { ram.in_whole_blocks() }))
}

/// A mount with a cache so small that blocks come and go.
fn options_of(policy: PolicyKind) -> MountOptions {
    let core = CoreOptions { cache_bytes: 256 << 10, ..CoreOptions::default() };
    MountOptions { core, policy, now: 1, ..MountOptions::default() }
}

/// Mounts with such a cache.
fn mount(node: Node, policy: PolicyKind) -> Blocking<Minix> {
    let options = options_of(policy);
    Blocking::mount(node, |disk| minix::mount(disk, &options)).expect("it can be mounted")
}

/// What a check of an unmounted file system finds.
fn findings(node: &mut Node) -> Vec<String> {
    let found = check(&mut NodeDisk::new(node, &mut 0)).expect("it can be read");
    found.list.iter().map(ToString::to_string).collect()
}
