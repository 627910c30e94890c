//! Executes the commands that the pages show and compares what they print.
//!
//! A page is README.md or a page of docs/manual. Its ```` ```console ```` blocks hold commands,
//! which begin with `$ `, and their output. All blocks of a page run in order, in one shell and one
//! temporary directory, with the program under test first on the search path.
//!
//! * A line `...` of output stands for any number of lines, `[..]` for any text within a line.
//! * `\` at the end of a line and `> ` at the beginning of the next one continue a command.
//! * A command that fails must be followed by one that shows its exit code: `$ echo $?`.
//! * `<!-- needs: fio root fuse loop crash-test ptrace recordings -->` before a block names what
//!   must be there: programs, root rights, FUSE, loop devices, all that `crash-test` needs, the
//!   right to trace children, the recordings of drives. Without it the section is skipped, visibly.
//! * `<!-- not run: reason -->` keeps a block from running. Its options are still looked up in
//!   `--help`.
//!
//! `SEEKLESS_PAGES=overwrite cargo test -p seekless --test pages` writes the output anew and keeps
//! what is elided. Some sections need the example `toydb`, which `cargo build -p seekless --example
//! toydb` puts in its place; `cargo test` with `--example` builds its tests only.

mod compare;
mod needs;
mod options;
mod page;
mod run;
mod session;
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that a page may have: one task, one sitting.
const WORDS: usize = 1200;

/// Makes a test of each page, so that the name of a failed test is the name of a page.
macro_rules! pages {
    ($($name:ident: $path:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($path),+];
        $(#[test] fn $name() { run::check(&root().join($path)); })+
    };
}

pages! {
    readme: "README.md",
    manual_index: "docs/manual/README.md",
    install: "docs/manual/install.md",
    serve: "docs/manual/serve.md",
    watch: "docs/manual/watch.md",
    salvage: "docs/manual/salvage.md",
    damage: "docs/manual/damage.md",
    mount: "docs/manual/mount.md",
    simulate: "docs/manual/simulate.md",
    simulate_files: "docs/manual/simulate-files.md",
    simulate_logs: "docs/manual/simulate-logs.md",
    reproduce_files: "docs/manual/reproduce-files.md",
    prove: "docs/manual/prove.md",
    crash_test: "docs/manual/crash-test.md",
    crash_test_models: "docs/manual/crash-test-models.md",
    test_suite: "docs/manual/test-suite.md",
    crash_test_policies: "docs/manual/crash-test-policies.md",
    crash_test_stand_ins: "docs/manual/crash-test-stand-ins.md",
    what_survives_a_crash: "docs/manual/what-survives-a-crash.md",
    record_and_replay: "docs/manual/record-and-replay.md",
    crashing_disk: "docs/manual/crashing-disk.md",
    arrays: "docs/manual/arrays.md",
    attach: "docs/manual/attach.md",
    cut_power: "docs/manual/cut-power.md",
    journals: "docs/manual/journals.md",
    log_service: "docs/manual/log-service.md",
    switch_policy: "docs/manual/switch-policy.md",
    transactions: "docs/manual/transactions.md",
    minix: "docs/manual/minix.md",
    vlfs: "docs/manual/vlfs.md",
    files: "docs/manual/files.md",
    fstab: "docs/manual/fstab.md",
    failed_member: "docs/manual/failed-member.md",
    dcd: "docs/manual/dcd.md",
    ssd_in_front: "docs/manual/ssd-in-front.md",
    disks: "docs/manual/disks.md",
    calibrate: "docs/manual/calibrate.md",
    traces: "docs/manual/traces.md",
    models: "docs/manual/models.md",
    layouts: "docs/manual/layouts.md",
    log_structured: "docs/manual/log-structured.md",
    exit_codes: "docs/manual/exit-codes.md",
    crash_test_gate: "docs/manual/crash-test-gate.md",
    shingled: "docs/manual/shingled.md",
    drives: "docs/manual/drives.md",
    crash_test_two_disks: "docs/manual/crash-test-two-disks.md",
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_page_of_the_manual_has_a_test() {
    let listed: BTreeSet<PathBuf> = PAGES.iter().map(|page| root().join(page)).collect();
    let entries = fs::read_dir(root().join("docs/manual")).expect("the manual is there");
    for entry in entries {
        let page = entry.expect("an entry").path();
        assert!(listed.contains(&page), "{} is not listed in pages/main.rs", page.display());
    }
}

#[test]
fn no_page_is_longer_than_it_may_be() {
    let words = |page: &&str| {
        let text = fs::read_to_string(root().join(page)).expect("a listed page is there");
        text.split_whitespace().count()
    };
    let long: Vec<_> = PAGES.iter().filter(|page| words(page) > WORDS).collect();
    assert!(long.is_empty(), "more than {WORDS} words, so split them: {long:?}");
}
