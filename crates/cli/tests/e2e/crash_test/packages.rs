//! The packages for test suites of other languages, each by its own runner, found where the user
//! has it.

use crate::harness::{run, skip};
use std::path::Path;
use std::process::Command;

/// The directory of a package.
fn package(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages").join(name)
}

/// True if a command says that a runner is there.
fn is_there(probe: &mut Command) -> bool {
    probe.output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_fixture_of_pytest_passes_its_tests() {
    let mut probe = Command::new("python3");
    if !is_there(probe.args(["-m", "pytest", "--version"])) {
        return skip("pytest is not installed");
    }
    let dir = package("pytest");
    let mut tests = Command::new("python3");
    tests.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]).current_dir(&dir);
    tests.env("PYTHONPATH", &dir).env("SEEKLESS", env!("CARGO_BIN_EXE_seekless"));
    let ended = run(&mut tests);
    assert_eq!(ended.code(), 0, "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("7 passed"), "{}", ended.out);
}

#[test]
fn the_helper_of_go_passes_its_tests() {
    if !is_there(Command::new("go").arg("version")) {
        return skip("go is not installed");
    }
    let mut tests = Command::new("go");
    tests.args(["test", "-count=1", "./..."]).current_dir(package("go"));
    tests.env("SEEKLESS", env!("CARGO_BIN_EXE_seekless"));
    let ended = run(&mut tests);
    assert_eq!(ended.code(), 0, "{}{}", ended.out, ended.err);
}
