//! The two quickest crash tests of `findings/`: a database that keeps its promise, and one that was
//! told not to.

use crate::crash_clients::possible;
use crate::harness::{command, run, skip, temp_dir};
use crate::require;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

#[test]
fn the_quickest_findings_have_the_verdicts_that_are_expected() {
    require!("python3", "sh");
    if !possible() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../findings/run");
    let cache = temp_dir();
    fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut test = command("sh");
    test.arg(script).args(["lmdb/sync", "sqlite/delete-off"]);
    test.env("SEEKLESS", env!("CARGO_BIN_EXE_seekless")).env("XDG_CACHE_HOME", cache.path());
    let ended = run(&mut test);
    if ended.out.contains("SKIP") {
        return skip(&format!("the programs cannot be installed: {}", ended.out));
    }
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.out.contains("2 passed, 0 failed"), "{}", ended.out);
}
