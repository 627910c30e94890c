//! VLFS against the model: every kind of script, with a check and a remount at the end.

use super::{findings, formatted, mount};
use seekless_engine::units::SECONDS;
use seekless_formats::vlfs::KIND;
use seekless_fs::policy::PolicyKind;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle::{self, Judge};
use seekless_fs_model::script::{Kind, Script, Shape};

/// Calls of a script.
const LENGTH: usize = 3000;

/// Blocks of the device: few where it must fill.
fn blocks(kind: Kind) -> u64 {
    if kind.may_fill() { 3 << 8 } else { 64 << 8 }
}

fn run(kind: Kind, seed: u64, volatile: bool, policy: PolicyKind) {
    let limits = Limits {
        most_bytes: KIND.limits.file_bytes,
        most_links: KIND.limits.links,
        exchanges: true,
        allocates: KIND.limits.allocates,
        ..Limits::default()
    };
    let shape = Shape {
        block: 4096,
        fragment: 4096,
        capacity: blocks(kind) * 4096,
        most_bytes: limits.most_bytes,
        direct: 12,
        addresses: 512,
    };
    let script = Script::random(kind, seed, LENGTH, shape);
    let mut make = || mount(formatted(blocks(kind), volatile), policy);
    if let Err(difference) = oracle::check(&mut make, &script, limits) {
        panic!("{policy:?}, volatile {volatile}: {difference}");
    }
    let mut judge = Judge::new(make(), limits, kind.may_fill());
    let passed = judge.run(&script.calls).expect("it has just passed");
    assert_eq!(passed.full > 0, kind.may_fill(), "{kind:?}, seed {seed}: {passed:?}");
    let mut judge = judge.remount(|fs| {
        let now = fs.now();
        let (node, stopped) = fs.unmount();
        stopped.expect("memory does not fail");
        // The unmount took some time.
        let mut node = (node, now + SECONDS);
        let found = findings(&mut node);
        assert!(found.is_empty(), "{policy:?}, {kind:?}, seed {seed}: {found:#?}");
        mount(node, policy)
    });
    assert_eq!(judge.walk(), Ok(()), "{kind:?}, seed {seed}, after a remount");
}

#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn scripts() -> u64 {
    let scripts = std::env::var("SEEKLESS_SCRIPTS").ok();
    scripts.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn all(kind: Kind) {
    for policy in KIND.policies {
        for seed in 1..=scripts() {
            run(kind, seed, false, *policy);
            run(kind, seed, true, *policy);
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
