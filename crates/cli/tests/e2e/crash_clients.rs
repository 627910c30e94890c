//! Crash tests of real programs, with acknowledgements: SQLite, PostgreSQL, and ext4 itself.

use crate::harness::{Ended, command, installed, run, seekless, skip, temp_dir};
use crate::require;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// True if crash tests can run here; else prints the reason.
pub fn possible() -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        "crash tests need root rights"
    } else if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        "no FUSE here"
    } else if fs::File::open("/dev/loop-control").is_err() {
        "no loop devices here"
    } else if !installed("mkfs.ext4") {
        "mkfs.ext4 is not installed"
    } else {
        return true;
    };
    skip(reason);
    false
}

/// A directory that other users may enter, with these shell scripts.
fn scripts(scripts: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = temp_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    for (name, text) in scripts {
        fs::write(dir.path().join(name), text).expect("script");
    }
    dir
}

/// Runs a crash test; the commands are scripts of `dir` that get `{dir}`.
fn crash_test(dir: &Path, size: &str, run_with: &str, more: &[&str]) -> (Ended, serde_json::Value) {
    let script = |name: &str, more: &str| format!("sh {} {{dir}} {more}", dir.join(name).display());
    let mut test = seekless();
    test.args(["crash-test", "--json", "--size", size]);
    test.args(["--setup", &script("setup.sh", "")]);
    test.args(["--run", &script("run.sh", run_with)]);
    test.args(["--check", &script("check.sh", "")]).args(more);
    test.arg("--dir").arg(dir.join(format!("test{run_with}")));
    let ended = run(&mut test);
    let report = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    (ended, report)
}

fn number(report: &serde_json::Value, name: &str) -> u64 {
    report["coverage"][name].as_u64().unwrap_or_else(|| panic!("{name}: {report:#}"))
}

const SQLITE: [(&str, &str); 3] = [
    (
        "setup.sh",
        "sqlite3 \"$1/t.db\" 'PRAGMA journal_mode=WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, v);'",
    ),
    (
        "run.sh",
        "for n in 1 2 3 4 5 6; do\n\
         sqlite3 \"$1/t.db\" \"PRAGMA synchronous=$2; \
         INSERT INTO t VALUES ($n, printf('%.3000c', 'x') || $n);\" || exit 1\n\
         echo $n >> \"$SEEKLESS_ACKS\"\n\
         done",
    ),
    (
        // Rows are committed in order, so the rows must be a prefix of the inserted ones.
        "check.sh",
        "found=$(sqlite3 \"$1/t.db\" \"PRAGMA integrity_check; \
         SELECT count(*) = ifnull(max(n), 0) \
         AND total(v = printf('%.3000c', 'x') || n) = count(*), \
         count(*) >= ${SEEKLESS_ACKED:-0} FROM t;\" 2>&1)\n\
         [ \"$(echo $found)\" = 'ok 1|1' ] && exit 0\n\
         echo \"$found, acknowledged ${SEEKLESS_ACKED:-0}\"; exit 1",
    ),
];

#[test]
fn sqlite_keeps_what_it_committed_through_every_crash_that_was_tried() {
    require!("sqlite3");
    if !possible() {
        return;
    }
    let dir = scripts(&SQLITE);
    let few = ["--samples", "6", "--exhaustive", "2"];
    let (ended, report) = crash_test(dir.path(), "32M", "FULL", &few);
    assert_eq!(ended.code(), 0, "{report:#}");
    assert_eq!(report["acknowledgements"]["count"], 6, "{report:#}");
    assert!(number(&report, "good") >= 150, "{report:#}");
    // Without a flush at each commit, rows that were acknowledged are lost, and the story tells of
    // the files.
    let (ended, report) = crash_test(dir.path(), "32M", "OFF", &few);
    assert_eq!(ended.code(), 1, "{report:#}");
    assert!(number(&report, "lost") + number(&report, "broken") > 0, "{report:#}");
    let places: Vec<&str> = (report["groups"].as_array().expect("groups").iter())
        .flat_map(|group| group["example"]["writes"].as_array().expect("writes"))
        .filter_map(|write| write["place"].as_str())
        .collect();
    let of_database = |place: &&str| place.contains("t.db");
    assert!(places.iter().any(of_database), "{places:?} {report:#}");
}

/// With one connection the log stays the same file, and SQLite replaces none.
#[test]
fn sqlite_with_a_log_is_safe_under_every_policy() {
    require!("sqlite3");
    if !possible() {
        return;
    }
    let [setup, _, check] = SQLITE;
    let run = "for n in 1 2 3 4 5 6; do\n\
         echo \"INSERT INTO t VALUES ($n, printf('%.3000c', 'x') || $n);\"\n\
         echo \".shell echo $n >> \\\"$SEEKLESS_ACKS\\\"\"\n\
         done | sqlite3 -bail -cmd \"PRAGMA synchronous=$2\" \"$1/t.db\"";
    let dir = scripts(&[setup, ("run.sh", run), check]);
    let few = ["--samples", "6", "--exhaustive", "2", "--fs", "seekless:ffs:all"];
    let (ended, report) = crash_test(dir.path(), "32M", "FULL", &few);
    assert_eq!(ended.code(), 0, "{report:#}");
    for one in report["policies"].as_array().expect("policies") {
        assert_eq!(one["acknowledgements"]["count"], 6, "{one:#}");
        assert!(number(one, "good") >= 50, "{one:#}");
    }
    let (ended, report) = crash_test(dir.path(), "32M", "OFF", &few);
    assert_eq!(ended.code(), 1, "{report:#}");
    let first = &report["policies"][0];
    assert!(number(first, "lost") + number(first, "broken") > 0, "{first:#}");
}

#[test]
fn ext4_keeps_what_was_synced_through_every_crash_that_was_tried() {
    if !possible() {
        return;
    }
    let dir = scripts(&[
        ("setup.sh", "true"),
        (
            "run.sh",
            "for n in 1 2 3 4 5 6 7 8; do\n\
             mkdir \"$1/d$n\" && yes $n | head -c 20000 > \"$1/d$n/f\" || exit 1\n\
             sync -f \"$1\" || exit 1\n\
             echo $n >> \"$SEEKLESS_ACKS\"\n\
             done",
        ),
        (
            "check.sh",
            "for n in $(seq ${SEEKLESS_ACKED:-0}); do\n\
             yes $n | head -c 20000 | cmp - \"$1/d$n/f\" || exit 1\n\
             done",
        ),
    ]);
    let few = ["--samples", "12", "--exhaustive", "2"];
    let (ended, report) = crash_test(dir.path(), "32M", "", &few);
    assert_eq!(ended.code(), 0, "{report:#}");
    assert!(number(&report, "boundaries") > 12 && number(&report, "good") > 100, "{report:#}");
}

/// Where the programs of PostgreSQL are, newest first.
fn postgres() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|dir| dir.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop()
}

#[test]
fn postgresql_keeps_what_it_committed_through_every_crash_that_was_tried() {
    require!("setpriv", "mkfifo");
    if !possible() {
        return;
    }
    let known = run(command("id").arg("postgres")).status.success();
    let Some(programs) = postgres().filter(|_| known) else {
        return skip("PostgreSQL or its user is not installed");
    };
    let directory = std::env::temp_dir();
    let as_postgres = "setpriv --reuid postgres --regid postgres --clear-groups";
    let enter = format!("{as_postgres} test -x {}", directory.display());
    if !run(command("sh").args(["-c", &enter])).status.success() {
        return skip(&format!("user postgres may not enter {}", directory.display()));
    }
    let programs = programs.display();
    let single = format!("{as_postgres} {programs}/postgres --single");
    let setup = format!(
        "mkdir \"$1/db\" && chown postgres \"$1/db\" && cd / &&\n\
         {as_postgres} {programs}/initdb -N -D \"$1/db\" >/dev/null &&\n\
         echo 'create table t (n int);' | {single} -D \"$1/db\" postgres"
    );
    // What is printed for the second statement says that the first one is committed.
    let workload = format!(
        "pipes=$(mktemp -d) && mkfifo $pipes/in $pipes/out && chmod 755 $pipes && cd / || exit 1\n\
         {single} -D \"$1/db\" postgres <$pipes/in >$pipes/out &\n\
         exec 3>$pipes/in 4<$pipes/out; rm -r $pipes\n\
         for n in 1 2 3 4; do\n\
         echo \"insert into t values ($n);\" >&3; echo \"select 'row $n is there';\" >&3\n\
         while read -r line <&4; do case \"$line\" in *\"row $n is there\"*) break;; esac; done\n\
         echo $n >> \"$SEEKLESS_ACKS\"\n\
         done\n\
         exec 3>&-; cat <&4 >/dev/null; wait"
    );
    // Rows are committed in order: as many must be there as the greatest number says.
    let check = format!(
        "cd / && found=$(echo \"select 'good' where (select count(*) = coalesce(max(n), 0) and \
         count(*) >= ${{SEEKLESS_ACKED:-0}} from t);\" | \
         {single} -D \"$1/db\" postgres 2>&1)\n\
         case \"$found\" in *'\"good\"'*) exit 0;; esac\n\
         echo \"$found\"; echo \"acknowledged ${{SEEKLESS_ACKED:-0}}\"; exit 1"
    );
    let dir = scripts(&[("setup.sh", &setup), ("run.sh", &workload), ("check.sh", &check)]);
    let few = ["--samples", "2", "--exhaustive", "0"];
    let (ended, report) = crash_test(dir.path(), "128M", "", &few);
    assert_eq!(ended.code(), 0, "{report:#} {}", ended.err);
    assert_eq!(report["acknowledgements"]["count"], 4, "{report:#}");
    assert!(number(&report, "good") > 20, "{report:#}");
}
