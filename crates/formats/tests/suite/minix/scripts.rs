//! Minix against the model: every kind of script and size of blocks, with a check and a remount at
//! the end.

use super::{BLOCKS, findings, image, mount, node_of, options};
use seekless_engine::node::Node;
use seekless_formats::MkfsOptions;
use seekless_formats::minix::KIND;
use seekless_fs::policy::PolicyKind;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle::{self, Judge};
use seekless_fs_model::script::{Kind, Script, Shape};

/// Calls of a script.
const LENGTH: usize = 3000;
/// Inodes: more than a script makes, because a number that is used again tells nothing apart.
const INODES: u32 = 4096;

/// Blocks of the volume: small where it must fill.
fn blocks(kind: Kind) -> u64 {
    if kind.may_fill() { 3 << 8 } else { 64 << 8 }
}

fn formatted(kind: Kind, block: u32, parts: bool) -> Node {
    let options = MkfsOptions { inodes: Some(INODES), ..options(block) };
    node_of(image(blocks(kind), &options), parts)
}

/// What the format cannot hold, as the model takes it.
pub(crate) fn limits(block: u32) -> Limits {
    Limits {
        most_bytes: 0x7fff_ffff,
        most_links: KIND.limits.links,
        exchanges: true,
        most_name: KIND.limits.name_bytes,
        most_text: block as usize - 1,
        most_device: 0xffff,
        allocates: KIND.limits.allocates,
        time_step: KIND.limits.time_step,
    }
}

fn run(kind: Kind, seed: u64, block: u32, parts: bool, policy: PolicyKind) {
    let limits = limits(block);
    let shape = Shape {
        block: u64::from(block),
        fragment: u64::from(block),
        capacity: blocks(kind) * 4096,
        most_bytes: limits.most_bytes,
        direct: 7,
        addresses: 128,
    };
    let script = Script::random(kind, seed, LENGTH, shape);
    let mut make = || mount(formatted(kind, block, parts), policy);
    if let Err(difference) = oracle::check(&mut make, &script, limits) {
        panic!("{policy:?}, {block}: {difference}");
    }
    let mut judge = Judge::new(make(), limits, kind.may_fill());
    let passed = judge.run(&script.calls).expect("it has just passed");
    assert_eq!(passed.full > 0, kind.may_fill(), "{kind:?}, seed {seed}, {block}: {passed:?}");
    let mut judge = judge.remount(|fs| {
        let (mut node, stopped) = fs.unmount();
        stopped.expect("memory does not fail");
        let found = findings(&mut node);
        assert!(found.is_empty(), "{policy:?}, {kind:?}, seed {seed}, {block}: {found:#?}");
        mount(node, policy)
    });
    assert_eq!(judge.walk(), Ok(()), "{kind:?}, seed {seed}, {block}, after a remount");
}

#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn scripts() -> u64 {
    let scripts = std::env::var("SEEKLESS_SCRIPTS").ok();
    scripts.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn all(kind: Kind) {
    for (block, policy) in
        BLOCKS.into_iter().flat_map(|b| KIND.policies.iter().map(move |p| (b, *p)))
    {
        for seed in 1..=scripts() {
            run(kind, seed, block, true, policy);
            run(kind, seed, block, false, policy);
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
