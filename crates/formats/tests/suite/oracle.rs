//! FFS against the model: every reply of random scripts, and a check after each unmount.

use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Call, Reply};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::Runs;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle;
use seekless_fs_model::script::{Kind, Script, Shape};

/// A file system that is unmounted and checked when it goes.
struct Checked(Option<Blocking<Ffs>>);

impl Checked {
    fn new((block, fragment): (u32, u32), blocks: u64, cache_bytes: u64) -> Checked {
        let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(blocks)))));
        let options = MkfsOptions { block, fragment, ..MkfsOptions::default() };
        mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("fits");
        let core = CoreOptions { cache_bytes, ..CoreOptions::default() };
        let mounted = Blocking::mount(node, |disk| {
            ffs::mount(disk, &MountOptions { core, now: 1, ..MountOptions::default() })
        });
        Checked(Some(mounted.expect("just made")))
    }
}

impl Runs for Checked {
    fn run(&mut self, call: Call) -> Reply {
        self.0.as_mut().expect("it is mounted").run_call(call)
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        let Some(blocking) = self.0.take().filter(|_| !std::thread::panicking()) else { return };
        let mut now = blocking.now();
        let (mut node, result) = blocking.unmount();
        assert_eq!(result, Ok(()));
        let findings = check(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be read");
        assert!(findings.is_clean(), "{findings:#?}");
    }
}

fn agrees(kind: Kind, seed: u64, sizes: (u32, u32), cache_bytes: u64) {
    let blocks = if kind.may_fill() { 2048 } else { 65_536 };
    let script = Script::random(kind, seed, 1200, Shape::default());
    let mut make = || Checked::new(sizes, blocks, cache_bytes);
    if let Err(difference) = oracle::check(&mut make, &script, Limits::default()) {
        panic!("{sizes:?} with a cache of {cache_bytes}: {difference}");
    }
}

#[test]
fn ffs_agrees_with_the_model_in_large_blocks() {
    for kind in Kind::ALL {
        agrees(kind, 1, (8192, 4096), 64 << 20);
        agrees(kind, 2, (8192, 1024), 1 << 20);
    }
}

#[test]
fn ffs_agrees_with_the_model_in_small_blocks_with_hardly_any_cache() {
    for kind in Kind::ALL {
        agrees(kind, 3, (4096, 1024), 64 << 10);
        agrees(kind, 4, (4096, 4096), 64 << 10);
    }
}
