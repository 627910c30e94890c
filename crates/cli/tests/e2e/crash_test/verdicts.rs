//! One command from an empty disk to a verdict, and what the verdict says.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with};
use std::path::Path;
use std::process::Command;

/// Writes a counter durably, but not the rows that it counts.
const MISCOUNT: &str = "for n in 1 2 3; do echo row $n >> {dir}/log; \
     echo $n | dd of={dir}/count conv=notrunc,fsync status=none; \
     echo $n >> $SEEKLESS_ACKS; done";
/// Exit code 2 for a counter without its rows, 1 for a counter below what was acknowledged.
const COUNTED: &str = "n=$(cat {dir}/count 2>/dev/null || echo 0); \
     rows=$(cat {dir}/log 2>/dev/null | grep -c '^row'); \
     test $rows -ge $n || { echo \"$n counted, $rows there\"; exit 2; }; \
     test $n -ge ${SEEKLESS_ACKED:-0} || \
     { echo \"$n counted, ${SEEKLESS_ACKED:-0} promised\"; exit 1; }";

#[test]
fn rows_with_fsync_are_green_and_leave_nothing() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.test(DURABLE, ROWS), 0);
    let headline = ended.out.lines().next().unwrap_or_default();
    assert!(headline.starts_with("GREEN: all "), "{headline}");
    assert!(headline.ends_with("states are good; 3 acknowledgements checked"), "{headline}");
    assert!(!ended.out.contains("warning"), "{}", ended.out);
    let probes = "end state passes as expected, start state passes as expected, \
                  missing data fails as expected";
    assert!(ended.out.contains(probes), "{}", ended.out);
    assert!(ended.err.contains("FUSE file with a loop device"), "{}", ended.err);
    bench.assert_nothing_left();
}

#[test]
fn rows_without_fsync_are_lost_and_the_command_in_the_report_shows_it_again() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.test(FORGETFUL, ROWS), 1);
    let headline = ended.out.lines().next().unwrap_or_default();
    assert!(headline.starts_with("RED: "), "{headline}");
    // A sync of the host by another program can tear the append as well: `broken` may stand beside.
    assert!(headline.contains("lose acknowledged data"), "{headline}");
    assert!(ended.out.contains(" rows of 3\n"), "{}", ended.out);
    let dir = bench.kept_one();
    let told = format!("the recording and the logs are in {}", dir.display());
    assert!(ended.err.contains(&told), "{}", ended.err);
    bench.assert_no_leak();
    let again = again(&ended.out);
    let shown = ends_with(&mut shell(&bench, &again), 1);
    assert!(
        shown.out.starts_with("RED: the only state loses") || shown.out.contains("RED: 1 of 1")
    );
    bench.assert_no_leak();
    assert_only_records(&dir);
}

#[test]
fn a_counter_before_its_rows_is_broken_not_lost() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.thorough(MISCOUNT, COUNTED), 1);
    let headline = ended.out.lines().next().unwrap_or_default();
    assert!(headline.starts_with("RED: ") && headline.contains("broken"), "{headline}");
    assert!(ended.out.contains("BROKEN - "), "{}", ended.out);
    assert!(ended.out.contains(" counted, "), "{}", ended.out);
    let shown = ends_with(&mut shell(&bench, &again(&ended.out)), 1);
    assert!(shown.out.contains("broken"), "{}", shown.out);
}

/// Two writers, one of which forgets to flush a row. The other one's acknowledgements come later in
/// any case, so the last one and their number do not show the loss.
#[test]
fn a_loss_of_either_of_two_writers_is_found() {
    let Some(bench) = Bench::new() else { return };
    let seekless = env!("CARGO_BIN_EXE_seekless");
    let write = |forgets: &str| {
        format!(
            "write() {{ echo row $2 >> {{dir}}/$1; test $1$2 = '{forgets}' || sync {{dir}}/$1; \
             {seekless} ack --as $1 $2; }}; sync {{dir}}; \
             write a 1 && write b 1 && write a 2 && write b 2 && write a 3"
        )
    };
    // Promises of each writer, by its lines.
    let check = "while read -r writer row; do \
                 grep -qx \"row $row\" {dir}/$writer || { echo $writer lost $row; exit 1; }; \
                 done < $SEEKLESS_ACKED_FILE";
    let ended = ends_with(&mut bench.test(&write("none"), check), 0);
    assert!(ended.out.starts_with("GREEN: all"), "{}", ended.out);
    let ended = ends_with(&mut bench.test(&write("b2"), check), 1);
    assert!(ended.out.contains("b lost 2"), "{}", ended.out);
    let ended = ends_with(&mut bench.test(&write("a1"), check), 1);
    assert!(ended.out.contains("a lost 1"), "{}", ended.out);
    bench.assert_no_leak();
}

#[test]
fn the_story_names_what_is_missing_and_the_call_that_prevents_it() {
    let Some(bench) = Bench::new() else { return };
    // Each version is durable, its name is not.
    let write = "mkdir {dir}/d; sync {dir}; for n in 1 2 3; do \
                 echo version $n > {dir}/d/new; sync {dir}/d/new; mv {dir}/d/new {dir}/d/cur; \
                 echo $n >> $SEEKLESS_ACKS; done";
    let check = "test -z \"$SEEKLESS_ACKED\" || \
                 test \"$(sed s/version.// {dir}/d/cur || echo 0)\" -ge $SEEKLESS_ACKED";
    let ended = ends_with(bench.test(write, check).args(["--dir", "run"]), 1);
    let remedy = "would have prevented it: `fsync` of directory `d` after `rename` or `link` of \
                  `d/new` to `d/cur`";
    assert!(ended.out.contains("beside the disk "), "{}", ended.out);
    assert!(ended.out.contains(remedy), "{}", ended.out);
    // A file that is short.
    let ended = ends_with(&mut bench.test(FORGETFUL, ROWS), 1);
    assert!(ended.out.contains("log"), "{}", ended.out);
    assert!(ended.out.contains("would have prevented it: `fsync` of "), "{}", ended.out);
    // The tree as the check found it, without what the check wrote.
    let writes = format!("echo mine > {{dir}}/of-the-check; {check}");
    let mut replay = bench.replay(&bench.path("run"), &writes);
    let ended = ends_with(replay.args(["--keep", "bad.img"]), 1);
    assert!(ended.out.contains("kept as bad.img, its tree as bad.img.tree"), "{}", ended.out);
    assert!(bench.path("bad.img.tree/d").is_dir());
    assert!(!bench.path("bad.img.tree/of-the-check").exists());
    bench.assert_no_leak();
}

/// By default ext4 writes a file before the rename that replaces another one.
#[test]
fn options_of_mount_and_mkfs_reach_the_file_system_and_the_replay() {
    let Some(bench) = Bench::new() else { return };
    let write = "for n in 1 2 3; do echo version $n > {dir}/new; mv {dir}/new {dir}/config; \
                 echo x > {dir}/other; sync {dir}/other; done";
    let check = "grep -q '^version [0-3]$' {dir}/config || { echo config is empty; exit 1; }";
    let test = |options: &[&str], code| {
        let mut test = bench.test(write, check);
        test.args(["--consistency-only", "--setup", "echo version 0 > {dir}/config"]);
        ends_with(test.args(options), code)
    };
    assert!(test(&[], 0).out.starts_with("GREEN"));
    let options = ["--mount-options", "noauto_da_alloc"];
    let ended = test(&options, 1);
    assert!(ended.out.starts_with("RED") && ended.out.contains("config is empty"));
    let shown = ends_with(&mut shell(&bench, &again(&ended.out)), 1);
    assert!(shown.out.contains("config is empty"), "{}", shown.out);
    // Without a journal nothing is replayed: dumpe2fs need not be there to tell.
    let features = "test ! -e /proc/fs/jbd2/$(basename $(findmnt -no SOURCE {dir}))-8 || exit 9";
    let mut test = bench.test(&format!("{features}; {write}"), check);
    test.args(["--consistency-only", "--setup", "echo version 0 > {dir}/config"]);
    let ended = crate::harness::run(test.args(["--mkfs-options", "-O ^has_journal"]));
    assert_ne!(ended.code(), 6, "{}", ended.err);
    for fs in ["raw", "seekless:ffs:soft"] {
        let mut test = bench.test("true {dir} {device}", "true {dir} {device}");
        let ended = ends_with(test.args(["--fs", fs]).args(options), 2);
        assert!(ended.err.contains("the kernel mounts no file system here"), "{}", ended.err);
    }
    let ended = ends_with(bench.test(write, check).args(["--mount-options", "no-such-option"]), 1);
    assert!(ended.err.contains("Invalid argument"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn the_worst_kind_is_the_first_group() {
    let Some(bench) = Bench::new() else { return };
    // Both at once: a counter that is ahead of its rows, and a late file that vanishes.
    let workload =
        format!("{MISCOUNT}; sync -f {{dir}}; echo 4 > {{dir}}/late; echo 4 >> $SEEKLESS_ACKS");
    let check = format!(
        "if test ${{SEEKLESS_ACKED:-0}} = 4; then SEEKLESS_ACKED=3; \
         test -s {{dir}}/late || {{ echo no late file; exit 1; }}; fi; {COUNTED}"
    );
    let ended = ends_with(&mut bench.thorough(&workload, &check), 1);
    let place = |word: &str| ended.out.find(word).unwrap_or_else(|| panic!("{}", ended.out));
    assert!(place("BROKEN - ") < place("LOST - "), "{}", ended.out);
}

#[test]
fn consistency_only_forgives_what_is_lost() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(bench.test(FORGETFUL, ROWS).arg("--consistency-only"), 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
    assert!(ended.out.contains("consistency only"), "{}", ended.out);
    assert!(ended.out.contains("nothing shows that the check can fail"), "{}", ended.out);
}

#[test]
fn what_setup_makes_is_there_and_not_part_of_the_test() {
    let Some(bench) = Bench::new() else { return };
    let check = format!("grep -q made {{dir}}/made || {{ echo setup is lost; exit 1; }}; {ROWS}");
    let mut test = bench.test(DURABLE, &check);
    let ended = ends_with(test.args(["--setup", "echo made > {dir}/made", "--json"]), 0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["verdict"], "green");
}

#[test]
fn ext4_itself_has_no_bad_state_on_default_options() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(bench.thorough(DURABLE, ROWS).arg("--json"), 0);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let coverage = &report["coverage"];
    assert!(coverage["space"].as_u64() > Some(20), "{coverage}");
    assert_eq!((&report["sector_bytes"], &coverage["broken"]), (&4096.into(), &0.into()));
    bench.assert_nothing_left();
}

#[test]
fn a_raw_disk_is_checked_without_a_file_system() {
    let Some(bench) = Bench::new() else { return };
    let write = |flag: &str| {
        format!(
            "printf AAAA | dd of={{device}} bs=4096 seek=1 conv=notrunc,sync{flag} status=none; \
             echo 1 >> $SEEKLESS_ACKS; \
             printf BBBB | dd of={{device}} bs=4096 seek=2 conv=notrunc,sync{flag} status=none; \
             echo 2 >> $SEEKLESS_ACKS"
        )
    };
    let check = "a=$(dd if={device} bs=4 skip=1024 count=1 status=none); \
         b=$(dd if={device} bs=4 skip=2048 count=1 status=none); \
         case ${SEEKLESS_ACKED:-0} in 0) ;; 1) test \"$a\" = AAAA;; \
         2) test \"$a$b\" = AAAABBBB;; esac";
    let options = ["--fs", "raw", "--size", "1M"];
    let test = |flag| {
        let mut test = bench.command("crash-test");
        test.args(options).args(["--run", &write(flag), "--check", check]);
        test
    };
    let good = ends_with(&mut test(",fsync"), 0);
    assert!(good.out.contains("1 MiB, raw"), "{}", good.out);
    bench.assert_nothing_left();
    let bad = ends_with(&mut test(""), 1);
    assert!(bad.out.starts_with("RED"), "{}", bad.out);
    ends_with(&mut shell(&bench, &again(&bad.out)), 1);
    bench.assert_no_leak();
}

#[test]
fn two_tests_at_once_do_not_disturb_each_other() {
    let Some(bench) = Bench::new() else { return };
    std::thread::scope(|scope| {
        let green = scope.spawn(|| ends_with(&mut bench.test(DURABLE, ROWS), 0));
        let red = scope.spawn(|| ends_with(&mut bench.test(FORGETFUL, ROWS), 1));
        assert!(green.join().expect("no panic").out.starts_with("GREEN"));
        assert!(red.join().expect("no panic").out.starts_with("RED"));
    });
    bench.assert_no_leak();
    assert_eq!(bench.kept().len(), 1, "that of the red one");
}

/// The command that a report prints for its first example.
pub fn again(report: &str) -> String {
    let line = report.lines().find_map(|line| line.trim_start().strip_prefix("again:"));
    line.unwrap_or_else(|| panic!("no command in: {report}")).trim().to_owned()
}

/// A command of a report in a shell that knows where the program is.
pub fn shell(bench: &Bench, line: &str) -> Command {
    let dir = Path::new(env!("CARGO_BIN_EXE_seekless")).parent().expect("a directory");
    let mut command = crate::harness::command("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:/usr/sbin:/sbin:{path}", dir.display()));
    command.args(["-c", line]).env("TMPDIR", bench.path("tmp")).current_dir(bench.path("."));
    command
}

/// The kept directory has what people need, and no mount point or copy of the disk.
fn assert_only_records(dir: &Path) {
    let entries = std::fs::read_dir(dir).expect("directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let known = ["base.img", "run.log", "run.tape", "run.tape.states", "setup.log"];
    let odd: Vec<&String> = names.iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(odd.is_empty(), "{odd:?} in {}", dir.display());
    assert!(names.contains(&"run.tape".to_owned()) && names.contains(&"base.img".to_owned()));
}
