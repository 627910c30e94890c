//! FFS against the model: every kind of script, policy and size of blocks, with a check and a
//! remount at the end. `SEEKLESS_SCRIPTS=20` runs twenty times as many scripts.

use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::node::Node;
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle::{self, Judge};
use seekless_fs_model::script::{Kind, Script, Shape};

const SIZES: [(u32, u32); 4] = [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)];
/// Calls of a script.
const LENGTH: usize = 3000;

/// Blocks of the volume: small where it must fill.
fn blocks(kind: Kind) -> u64 {
    if kind.may_fill() { 2 << 8 } else { 64 << 8 }
}

/// Blocks of the log, behind those of the file system: the fewest there can be.
const LOG_BLOCKS: u64 = 256;

/// A new file system, on a device that takes parts of blocks or not.
fn formatted(kind: Kind, (block, fragment): (u32, u32), parts: bool, policy: PolicyKind) -> Node {
    let log = if policy.is_logged() { LOG_BLOCKS } else { 0 };
    let ram = Ram::new(Box::new(Cells::new(blocks(kind) + log)));
    let mut node = Plain::node(Box::new(if parts { ram } else { ram.in_whole_blocks() }));
    let options = MkfsOptions {
        block,
        fragment,
        policy,
        journal: policy.is_logged().then_some(LOG_BLOCKS * 4096),
        journal_blocks: policy.has_own_log_volume().then_some(LOG_BLOCKS),
        ..MkfsOptions::default()
    };
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("it fits");
    node
}

/// Mounts with a cache so small that blocks come and go.
fn mount(node: Node, policy: PolicyKind) -> Blocking<Ffs> {
    let core = CoreOptions { cache_bytes: 256 << 10, ..CoreOptions::default() };
    let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

/// What is found wrong with an unmounted file system.
fn findings(node: &mut Node) -> Vec<String> {
    let found = check(&mut NodeDisk::new(node, &mut 0)).expect("it can be read");
    found.list.iter().map(ToString::to_string).collect()
}

fn run(kind: Kind, seed: u64, sizes: (u32, u32), parts: bool, policy: PolicyKind) {
    let most_bytes = most_bytes(kind, sizes);
    // Only guards refuse to exchange names.
    let exchanges = policy == PolicyKind::Async || policy.is_one_point();
    let limits = Limits { most_bytes, exchanges, ..Limits::default() };
    let shape = Shape {
        block: u64::from(sizes.0),
        fragment: u64::from(sizes.1),
        capacity: blocks(kind) * 4096,
        most_bytes: limits.most_bytes,
        ..Shape::default()
    };
    let script = Script::random(kind, seed, LENGTH, shape);
    let mut make = || mount(formatted(kind, sizes, parts, policy), policy);
    if let Err(difference) = oracle::check(&mut make, &script, limits) {
        panic!("{policy:?}, {sizes:?}: {difference}");
    }
    let mut judge = Judge::new(make(), limits, kind.may_fill());
    let passed = judge.run(&script.calls).expect("it has just passed");
    assert_eq!(passed.full > 0, kind.may_fill(), "{kind:?}, seed {seed}, {sizes:?}: {passed:?}");
    let mut judge = judge.remount(|fs| {
        let (mut node, stopped) = fs.unmount();
        stopped.expect("memory does not fail");
        let found = findings(&mut node);
        assert!(found.is_empty(), "{policy:?}, {kind:?}, seed {seed}, {sizes:?}: {found:#?}");
        mount(node, policy)
    });
    let after = judge.walk();
    assert_eq!(after, Ok(()), "{kind:?}, seed {seed}, {sizes:?}, after a remount");
}

/// The limit of the file system, which scripts try to pass.
fn most_bytes(kind: Kind, sizes: (u32, u32)) -> u64 {
    let mut node = formatted(kind, sizes, true, PolicyKind::Async);
    let found =
        seekless_formats::ffs::load(&mut NodeDisk::new(&mut node, &mut 0)).expect("it is there");
    found.superblock.geometry().expect("it is one").most_file_bytes()
}

#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn scripts() -> u64 {
    let scripts = std::env::var("SEEKLESS_SCRIPTS").ok();
    scripts.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn all(kind: Kind) {
    for (sizes, policy) in SIZES.into_iter().flat_map(|s| PolicyKind::ALL.map(|p| (s, p))) {
        (1..=scripts()).for_each(|seed| run(kind, seed, sizes, true, policy));
        // With a log, names and content in one block must be written apart.
        if sizes.1 < 4096 && !policy.is_one_point() {
            (1..=scripts()).for_each(|seed| run(kind, seed, sizes, false, policy));
        }
    }
}

macro_rules! kinds {
    ($($name:ident: $kind:ident,)*) => {
        $(#[test] fn $name() { all(Kind::$kind); })*

        #[test]
        fn every_kind_has_a_test() {
            let mut tested = vec![$(Kind::$kind),*];
            tested.sort_unstable();
            let mut kinds = Kind::ALL.to_vec();
            kinds.sort_unstable();
            assert_eq!(tested, kinds);
        }
    };
}

kinds! {
    hot_directories: HotDirectory,
    deep_trees: DeepTree,
    hard_links: HardLinks,
    renames: Renames,
    sizes: Sizes,
    holes: Holes,
    files_without_names: Unlinked,
    users: Users,
    full_disks: FullDisk,
    lists: Lists,
    special_files: Specials,
    times: Times,
    everything: Mixed,
}
