//! Which files stay when the command ends.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with};
use std::fs;

#[test]
fn a_named_directory_stays_after_green() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(bench.test(DURABLE, ROWS).args(["--dir", "run dir"]), 0);
    assert!(ended.err.contains("run dir"), "{}", ended.err);
    let dir = bench.path("run dir");
    let length = |name: &str| fs::metadata(dir.join(name)).map(|file| file.len()).ok();
    assert!(length("run.tape") > Some(0), "the recording is kept");
    assert_eq!(length("base.img"), Some(16 << 20), "and what the disk held before");
    assert_eq!(bench.kept().len(), 0, "no other directory");
    bench.assert_no_leak();
    // The two halves fit: the recording can be swept again.
    let again = ends_with(&mut bench.replay(&dir, ROWS), 0);
    assert!(again.out.starts_with("GREEN"), "{}", again.out);
    bench.assert_no_leak();
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let dir = bench.path("mine");
    fs::create_dir(&dir).expect("directory");
    fs::write(dir.join("thesis"), "years of work").expect("file");
    let ended = ends_with(bench.test(DURABLE, ROWS).arg("--dir").arg(&dir), 2);
    assert!(ended.err.contains("mine is not empty"), "{}", ended.err);
    assert!(ended.err.contains("hint: "), "{}", ended.err);
    let names: Vec<_> = fs::read_dir(&dir).expect("directory").collect();
    assert_eq!(names.len(), 1, "nothing was added");
    assert_eq!(fs::read_to_string(dir.join("thesis")).expect("file"), "years of work");
}

#[test]
fn an_empty_directory_is_used_and_a_missing_parent_is_told() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("empty")).expect("directory");
    ends_with(bench.test(FORGETFUL, ROWS).args(["--fail-fast", "--dir", "empty"]), 1);
    assert!(bench.path("empty/run.tape").exists());
    let ended = ends_with(bench.test(DURABLE, ROWS).args(["--dir", "no/such/parent"]), 1);
    assert!(ended.err.contains("--dir no/such/parent"), "{}", ended.err);
    bench.assert_no_leak();
}
