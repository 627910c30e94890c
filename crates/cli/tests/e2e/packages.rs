//! Packages for other languages and build servers, with the program under test.
//!
//! `cargo xtask dist` tests them once more as they are installed.

use crate::harness::{Ended, command, run, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What schemas are checked by, and the options for each template.
const SCHEMAS: [(&str, &str, &str); 2] = [
    ("check-jsonschema", "vendor.github-actions", "packages/github/action.yml"),
    ("check-jsonschema", "vendor.gitlab-ci", "packages/gitlab/crash-test.gitlab-ci.yml"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python(script: &str) -> Command {
    let mut python = command("python3");
    python.arg(root().join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("SEEKLESS", env!("CARGO_BIN_EXE_seekless"));
    python.env("PYTHONPATH", root().join("packages/python"));
    python
}

fn must_succeed(ended: &Ended) {
    assert_eq!(ended.code(), 0, "{}\n{}", ended.out, ended.err);
}

/// True if system calls can be recorded here.
fn traces() -> bool {
    let allowed = seekless_crashtest::calls::trace::preflight();
    if let Err(error) = &allowed {
        skip(&error.to_string());
    }
    allowed.is_ok()
}

#[test]
fn reports_are_rows_in_python() {
    crate::require!("python3");
    if traces() {
        must_succeed(&run(&mut python("packages/python/tests/test_reports.py")));
    }
}

#[test]
fn templates_of_build_servers_say_green_and_red_and_keep_what_was_found() {
    crate::require!("python3", "bash");
    if traces() {
        let mut templates = python("scripts/run-templates.py");
        templates.arg("--program").arg(env!("CARGO_BIN_EXE_seekless"));
        must_succeed(&run(&mut templates));
    }
}

#[test]
fn templates_of_build_servers_have_the_form_that_servers_take() {
    for (program, schema, file) in SCHEMAS {
        crate::require!(program);
        let mut check = command(program);
        must_succeed(&run(check.args(["--builtin-schema", schema]).arg(root().join(file))));
    }
}

#[test]
fn the_hook_has_the_form_that_pre_commit_takes() {
    crate::require!("pre-commit");
    let mut check = command("pre-commit");
    must_succeed(&run(check.arg("validate-manifest").arg(root().join(".pre-commit-hooks.yaml"))));
}

/// systemd finds no fault in the units. Their program need not be installed.
#[test]
fn systemd_takes_the_units() {
    crate::require!("systemd-analyze");
    let mut verify = command("systemd-analyze");
    verify.env("SYSTEMD_UNIT_PATH", format!("{}:", root().join("packages/debian").display()));
    verify.args(["verify", "--man=no", "seekless@a.service", "seekless@a.socket"]);
    let ended = run(&mut verify);
    let faults = |line: &&str| line.contains("seekless@") && !line.contains("is not executable");
    assert_eq!(ended.err.lines().find(faults), None);
}
