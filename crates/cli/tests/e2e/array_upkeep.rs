//! Arrays of which a member holds wrong bytes or fails: what survives, what is said, and what a
//! scrub finds while clients are served.

use crate::arrays::{Loop, copy_in, create_array, files, holds, serve};
use crate::harness::{eventually, pattern, run, seekless, succeed, temp_dir};
use crate::load::fio;
use crate::require;
use seekless_serve::status::Report;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Changes a byte of every block that holds something between two offsets, in place: a server may
/// have the image open. Returns how many.
fn spoil(image: &Path, from: u64, to: u64) -> u64 {
    let file = File::options().read(true).write(true).open(image).expect("open");
    let mut count = 0;
    for at in (from..to.min(file.metadata().expect("metadata").len())).step_by(4096) {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, at).expect("read");
        if block.iter().any(|&byte| byte != 0) {
            file.write_all_at(&[block[77] ^ 0x10], at + 77).expect("write");
            count += 1;
        }
    }
    count
}

fn report(what: &Path) -> Report {
    let text = succeed(seekless().arg("status").arg(what).arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An array of 12 MiB that is served and holds a file, which is returned.
fn filled(dir: &Path, level: &str, layout: &str) -> (Vec<PathBuf>, PathBuf) {
    let source = dir.join("source");
    fs::write(&source, pattern(5, 12 << 20)).expect("write");
    let members = files(dir, if level == "1" { &["a", "b"] } else { &["a", "b", "c"] });
    create_array(level, layout, "12M", &members, &["--chunk", "64k"]);
    (members, source)
}

/// The server is killed before the marks of its writes are cleared, and a member has wrong bytes.
#[test]
fn a_kill_does_not_make_wrong_bytes_final() {
    require!("nbdcopy");
    for (level, layout) in [("1", "vlog"), ("5", "lfs"), ("5", "loge")] {
        let dir = temp_dir();
        let (members, source) = filled(dir.path(), level, layout);
        let server = serve(dir.path(), &members, &[]);
        copy_in(&source, &server);
        server.kill();
        assert!(spoil(&members[0], 2 << 20, 6 << 20) > 200, "{layout} on RAID-{level}");
        let repaired = succeed(seekless().args(["check", "--scrub", "--repair"]).args(&members));
        assert!(repaired.contains("no damage found"), "{layout} on RAID-{level}: {repaired}");
        let server = serve(dir.path(), &members, &[]);
        holds(&server, dir.path(), &source);
        assert_eq!(server.stop().code(), 0);
        assert!(succeed(seekless().arg("check").args(&members)).contains("no damage found"));
    }
}

/// The same, and a server is what assembles the array: its log names the member.
#[test]
fn a_server_says_what_its_resync_has_put_right() {
    require!("nbdcopy");
    let dir = temp_dir();
    let (members, source) = filled(dir.path(), "5", "vlog");
    let server = serve(dir.path(), &members, &[]);
    copy_in(&source, &server);
    server.kill();
    spoil(&members[1], 2 << 20, 6 << 20);
    let server = serve(dir.path(), &members, &[]);
    assert!(report(&members[0]).members[1].healed_blocks > 100);
    let ended = server.stop();
    assert_eq!(ended.code(), 0);
    assert!(ended.err.contains("member 1 held wrong bytes in"), "{}", ended.err);
}

#[test]
fn a_check_compares_the_members_or_says_why_not() {
    require!("nbdcopy");
    let dir = temp_dir();
    let (members, source) = filled(dir.path(), "5", "vlog");
    let check = |members: &[PathBuf], more: &[&str]| {
        run(seekless().arg("check").arg("--json").args(members).args(more))
    };
    let server = serve(dir.path(), &members, &[]);
    copy_in(&source, &server);
    server.kill();
    let crashed = check(&members, &[]);
    assert_eq!(crashed.code(), 0, "{}", crashed.out);
    assert_eq!(json(&crashed.out)["copies"]["compared"], false);
    assert_eq!(serve(dir.path(), &members, &[]).stop().code(), 0);
    let whole = check(&members, &[]);
    assert_eq!((whole.code(), &json(&whole.out)["copies"]["compared"]), (0, &true.into()));
    let wrong = spoil(&members[1], 2 << 20, 4 << 20);
    let found = check(&members, &[]);
    let report = json(&found.out);
    assert_eq!(found.code(), 1, "{}", found.out);
    assert!(report["copies"]["mismatched_stripes"].as_u64() >= Some(wrong / 16), "{report}");
    let degraded = check(&members[..2], &["--degraded"]);
    assert_eq!(json(&degraded.out)["copies"]["compared"], false, "{}", degraded.out);
    let told = run(seekless().args(["check", "--degraded"]).args(&members[..2]));
    assert_eq!(told.code(), 1, "{}", told.out);
    let why = "copies and parity: not compared: a member is missing";
    assert!(told.out.contains(why), "{}", told.out);
}

#[test]
fn wrong_blocks_of_a_member_are_logged() {
    require!("nbdcopy");
    let dir = temp_dir();
    let (members, source) = filled(dir.path(), "5", "vlog");
    let server = serve(dir.path(), &members, &[]);
    copy_in(&source, &server);
    let wrong = spoil(&members[2], 2 << 20, 4 << 20);
    assert!(wrong > 100, "{wrong}");
    holds(&server, dir.path(), &source);
    let healed = report(&members[0]).members[2].healed_blocks;
    assert!(healed > 50, "{healed}");
    let ended = server.stop();
    assert_eq!(ended.code(), 0);
    let lines: Vec<&str> =
        ended.err.lines().filter(|it| it.contains("gave wrong blocks")).collect();
    assert!(lines[0].contains("member 2 (") && lines[0].contains("c.img)"), "{lines:?}");
    // The first at once, and the rest at the end.
    assert!((1..=3).contains(&lines.len()), "{lines:?}");
    if lines.len() > 1 {
        let last = lines[lines.len() - 1];
        assert!(last.contains(&format!("(0 and {healed} so far)")), "{healed}: {last}");
    }
}

#[test]
fn an_array_is_scrubbed_while_it_is_served() {
    require!("nbdcopy");
    for level in ["1", "5"] {
        let dir = temp_dir();
        let (members, source) = filled(dir.path(), level, "vlog");
        let server = serve(dir.path(), &members, &[]);
        copy_in(&source, &server);
        let scrub = |more: &[&str]| run(seekless().arg("scrub").arg(&members[0]).args(more));
        let whole = scrub(&["--wait"]);
        assert_eq!(whole.code(), 0, "{}{}", whole.out, whole.err);
        assert!(whole.out.contains("scrub ended, 100 % done; 0 blocks"), "{}", whole.out);
        // At this pace it takes minutes.
        assert_eq!(scrub(&["--rate", "64k"]).code(), 0);
        let twice = scrub(&[]);
        assert_eq!(twice.code(), 1);
        assert!(twice.err.contains("a scrub is under way"), "{}", twice.err);
        holds(&server, dir.path(), &source);
        let running = report(server.socket()).scrub.expect("a scrub");
        assert_eq!(running.state, "running");
        assert!(running.done_stripes < running.stripes, "{running:?}");
        assert_eq!(scrub(&["--stop"]).code(), 0);
        assert_eq!(report(server.socket()).scrub.expect("a scrub").state, "stopped");
        let wrong = spoil(&members[1], 2 << 20, 4 << 20);
        let found = scrub(&["--wait"]);
        assert_eq!(found.code(), 1, "{}{}", found.out, found.err);
        let mismatched = report(server.socket()).scrub.expect("a scrub").mismatched_blocks;
        assert_eq!(mismatched, wrong, "RAID-{level}");
        let ended = server.stop();
        assert_eq!(ended.code(), 0);
        assert!(ended.err.contains("scrub ended: members disagree about"), "{}", ended.err);
        let repaired = succeed(seekless().args(["check", "--scrub", "--repair"]).args(&members));
        assert!(repaired.contains("no damage found"), "{repaired}");
    }
}

#[test]
fn what_cannot_be_scrubbed_says_why() {
    let dir = temp_dir();
    let members = files(dir.path(), &["a", "b"]);
    create_array("0", "inplace", "8M", &members, &[]);
    let scrub = || run(seekless().arg("scrub").arg(&members[0]));
    let idle = scrub();
    assert_eq!(idle.code(), 1);
    assert!(idle.err.contains("not served"), "{}", idle.err);
    let server = serve(dir.path(), &members, &[]);
    let striped = scrub();
    assert_eq!(striped.code(), 1);
    assert!(striped.err.contains("RAID-0 has nothing to compare"), "{}", striped.err);
    assert_eq!(server.stop().code(), 0);
}

/// A limited rebuild goes on at its pace, and a scrub waits for its end.
#[test]
fn a_rebuild_keeps_to_its_rate() {
    let dir = temp_dir();
    let members = files(dir.path(), &["a", "b"]);
    create_array("1", "inplace", "8M", &members, &[]);
    fs::remove_file(&members[1]).expect("remove");
    succeed(seekless().arg("replace").arg(&members[0]).arg("--with").arg(&members[1]));
    let began = std::time::Instant::now();
    let server = serve(dir.path(), &members, &["--rebuild-rate", "8M"]);
    let early = run(seekless().arg("scrub").arg(&members[0]));
    assert!(early.err.contains("missing or being filled"), "{}", early.err);
    eventually("the rebuild ends", || {
        report(&members[0]).members.iter().all(|one| one.state == "active")
    });
    let spent = began.elapsed().as_secs_f64();
    assert!((0.7..8.0).contains(&spent), "8 MiB at 8 MiB a second took {spent} s");
    assert_eq!(server.stop().code(), 0);
}

/// No client sees an error when a member goes, so the end is a good one, and the log names it.
#[test]
fn a_member_that_goes_is_named_and_the_end_is_good() {
    require!("fio", "nbdcopy");
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 24 << 20) else { return };
    let mut members = files(dir.path(), &["a", "b"]);
    members.insert(1, disk.device.clone());
    create_array("5", "vlog", "16M", &members, &[]);
    let server = serve(dir.path(), &members, &[]);
    let source = dir.path().join("source");
    fs::write(&source, pattern(6, 16 << 20)).expect("write");
    copy_in(&source, &server);
    disk.pull();
    let load = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=4m", "--fsync=32"];
    let mut job = fio(server.uri(), dir.path(), &load);
    assert!(run(&mut job).status.success(), "a client saw an error");
    assert_eq!(report(server.socket()).members[1].state, "out");
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let named = format!("member 1 ({}) has failed", disk.device.display());
    assert!(ended.err.contains(&named), "{}", ended.err);
}

/// A member is gone; another one takes its place while clients write.
#[test]
fn a_served_array_takes_a_new_member() {
    require!("fio", "nbdcopy");
    for (level, layout) in [("1", "inplace"), ("5", "vlog")] {
        let dir = temp_dir();
        let (mut members, source) = filled(dir.path(), level, layout);
        let server = serve(dir.path(), &members, &[]);
        let all_there = run(seekless().arg("replace").arg(&members[0]).arg("--with").arg("x.img"));
        assert_eq!(all_there.code(), 1);
        assert!(all_there.err.contains("all members are there"), "{}", all_there.err);
        assert_eq!(server.stop().code(), 0);
        let new = dir.path().join("new.img");
        let gone = std::mem::replace(&mut members[1], new.clone());
        fs::rename(&gone, dir.path().join("gone")).expect("it is there");
        let left: Vec<PathBuf> = members.iter().filter(|one| **one != new).cloned().collect();
        let server = serve(dir.path(), &left, &["--degraded"]);
        let load = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--size=8m", "--loops=4"];
        let mut job = fio(server.uri(), dir.path(), &load);
        let mut job = job.stdout(Stdio::null()).spawn().expect("fio starts");
        let replace = |more: &[&str]| {
            run(seekless().arg("replace").arg(&left[0]).arg("--with").arg(&new).args(more))
        };
        fs::write(&new, b"not a volume").expect("write");
        let refused = replace(&[]);
        assert_ne!(refused.code(), 0);
        assert!(refused.err.contains("exists"), "{}", refused.err);
        let taken = replace(&["--force"]);
        assert_eq!(taken.code(), 0, "{}", taken.err);
        assert!(taken.out.contains("member 1, being filled"), "{}", taken.out);
        assert!(job.wait().expect("fio ends").success(), "a client saw an error");
        copy_in(&source, &server);
        eventually("the new member is filled", || report(&left[0]).members[1].state == "active");
        assert_eq!(report(&new).members[1].image.as_deref(), Some(new.as_path()));
        let ended = server.stop();
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert!(ended.err.contains("new.img) is new and is being filled"), "{}", ended.err);
        let check = succeed(seekless().args(["check", "--scrub"]).args(&members));
        assert!(check.contains("no damage found"), "{layout} on RAID-{level}: {check}");
        let without = &members[1..];
        let server = serve(dir.path(), without, &["--degraded"]);
        holds(&server, dir.path(), &source);
        assert_eq!(server.stop().code(), 0);
    }
}
