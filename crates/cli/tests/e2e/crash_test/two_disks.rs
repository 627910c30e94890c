//! `--dir2`: a second disk, such as for a log, that loses power together with the first one.

use super::bench::{Bench, ends_with};
use super::verdicts::{again, shell};
use std::process::Command;

/// File systems that are tried: one of the kernel, and one of ours that orders writes by itself.
const KINDS: [&str; 2] = ["ext4", "seekless:ffs:soft"];

/// Appends a row to the second disk, and then commits it on the first one, which is synced. `sync`
/// is what happens to the row in between.
fn commits(sync: &str) -> String {
    format!(
        "for n in 1 2 3; do echo row $n >> {{dir2}}/rows; {sync}; \
         echo $n | dd of={{dir}}/commit conv=notrunc,fsync status=none; \
         test $n != 1 || sync {{dir}}; echo $n >> $SEEKLESS_ACKS; done"
    )
}

/// A committed row must be there: exit code 2 without it, 1 without an acknowledged commit.
const COMMITTED: &str = "n=$(cat {dir}/commit 2>/dev/null); n=${n:-0}; \
     rows=$(cat {dir2}/rows 2>/dev/null | grep -c '^row [1-3]$'); \
     test $rows -ge $n || { echo \"$n committed, $rows rows there\"; exit 2; }; \
     test $n -ge ${SEEKLESS_ACKED:-0} || { echo \"commit $SEEKLESS_ACKED is lost\"; exit 1; }";

/// Syncs the second disk: the row, and its name.
const SYNCED: &str = "sync {dir2}/rows {dir2}";

fn test(bench: &Bench, kind: &str, workload: &str) -> Command {
    let mut test = bench.test(workload, COMMITTED);
    test.args(["--fs", kind, "--dir2"]);
    test
}

#[test]
fn a_flush_of_one_disk_makes_nothing_durable_on_the_other() {
    let Some(bench) = Bench::new() else { return };
    for kind in KINDS {
        let ended = ends_with(&mut test(&bench, kind, &commits("true")), 1);
        assert!(ended.out.starts_with("RED: "), "{kind}: {}", ended.out);
        assert!(ended.out.contains(" committed, "), "{kind}: {}", ended.out);
        let remedy = "would have prevented it: `fsync` of ";
        assert!(ended.out.contains(remedy), "{kind}: {}", ended.out);
        assert!(ended.out.contains("dir2"), "{kind}: {}", ended.out);
        let shown = ends_with(&mut shell(&bench, &again(&ended.out)), 1);
        assert!(shown.out.contains(" committed, "), "{kind}: {}", shown.out);
        bench.assert_no_leak();
    }
}

#[test]
fn both_disks_synced_are_green() {
    let Some(bench) = Bench::new() else { return };
    for kind in KINDS {
        let ended = ends_with(&mut test(&bench, kind, &commits(SYNCED)), 0);
        assert!(ended.out.starts_with("GREEN: all "), "{kind}: {}", ended.out);
        bench.assert_nothing_left();
    }
}

#[test]
fn setup_sees_both_disks_and_shards_replay_them() {
    let Some(bench) = Bench::new() else { return };
    let mut test = test(&bench, "ext4", &commits(SYNCED));
    test.args(["--setup", "echo row 1 > {dir2}/rows; echo 0 > {dir}/commit", "--dir", "run"]);
    ends_with(&mut test, 0);
    assert!(!bench.path("run/base2.img").exists(), "one base has both");
    let dir = bench.path("run");
    for shard in ["1/2", "2/2"] {
        let mut replay = bench.replay(&dir, COMMITTED);
        let ended = ends_with(replay.args(["--shard", shard, "--results", "verdicts"]), 0);
        assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
    }
    // The rows of the setup are there before the first row is acknowledged.
    let mut replay = bench.replay(&dir, "grep -q row {dir2}/rows && test -s {dir}/commit");
    ends_with(replay.arg("--consistency-only"), 0);
}

#[test]
fn a_kept_state_has_a_file_and_a_tree_for_each_disk() {
    let Some(bench) = Bench::new() else { return };
    ends_with(test(&bench, "ext4", &commits("true")).args(["--dir", "run"]), 1);
    let mut replay = bench.replay(&bench.path("run"), COMMITTED);
    let ended = ends_with(replay.args(["--fail-fast", "--keep", "bad.img"]), 1);
    let kept = "kept as bad.img and bad.img.2, its tree as bad.img.tree";
    assert!(ended.out.contains(kept), "{}", ended.out);
    for name in ["bad.img", "bad.img.2"] {
        let length = std::fs::metadata(bench.path(name)).expect("a file").len();
        assert_eq!(length, 16 << 20, "{name}");
    }
    assert!(bench.path("bad.img.tree/dir/commit").exists());
    assert!(bench.path("bad.img.tree/dir2").is_dir());
    // What is there already is not written over.
    let mut replay = bench.replay(&bench.path("run"), COMMITTED);
    std::fs::rename(bench.path("bad.img.2"), bench.path("other.img.2")).expect("renamed");
    let ended = ends_with(replay.args(["--keep", "other.img"]), 2);
    assert!(ended.err.contains("other.img.2: there is such a file already"), "{}", ended.err);
}

/// A file that must not be there comes and goes on the second disk.
#[test]
fn a_report_names_the_disk_of_each_write() {
    let Some(bench) = Bench::new() else { return };
    let workload = "touch {dir2}/f; sync {dir2}; rm {dir2}/f; sync {dir2}";
    let mut test = bench.test(workload, "test -d {dir} && test ! -e {dir2}/f");
    test.args(["--dir2", "--consistency-only", "--dir", "run"]);
    let ended = ends_with(&mut test, 1);
    assert!(ended.out.contains(" of the second disk"), "{}", ended.out);
    let check = "test -d {dir} && test ! -e {dir2}/f";
    let mut replay = bench.replay(&bench.path("run"), check);
    let ended = ends_with(replay.args(["--consistency-only", "--json"]), 1);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let writes: Vec<&serde_json::Value> = report["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .flat_map(|group| group["example"]["writes"].as_array().expect("writes"))
        .collect();
    assert!(writes.iter().any(|write| write["disk"] == 2), "{writes:?}");
    for write in writes {
        let number = |name: &str| write[name].as_u64().expect("a number");
        let end = number("offset") + number("length");
        assert!(end <= 16 << 20, "an offset counts from the start of its disk: {write}");
    }
}

#[test]
fn what_a_second_disk_needs_is_said() {
    let Some(bench) = Bench::new() else { return };
    let refused = |arguments: &[&str], check: &str, told: &str| {
        let ended = ends_with(bench.test("true {dir}", check).args(arguments), 2);
        assert!(ended.err.contains(told), "{arguments:?}: {}", ended.err);
    };
    refused(&["--dir2"], "true {dir}", "--check does not contain {dir2}");
    refused(&[], "true {dir} {dir2}", "give --dir2");
    refused(&["--dir2", "--fs", "raw"], "true {device} {dir2}", "--dir2 needs a file system");
    let all = ["--dir2", "--fs", "seekless:ffs:all"];
    refused(&all, "true {dir} {dir2}", "name one policy");
}
