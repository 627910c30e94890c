//! Volumes on arrays of several images: members removed, replaced, rebuilt.

use crate::harness::{
    Server, command, eventually, installed, pattern, run, seekless, skip, succeed, temp_dir,
};
use crate::load::fio;
use crate::{each_layout, require};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

each_layout!(a_missing_member_is_replaced_and_rebuilt, a_member_is_pulled_out_under_load);

pub fn create_array(level: &str, layout: &str, size: &str, members: &[PathBuf], more: &[&str]) {
    let mut create = seekless();
    create.args(["create", "--raid", level, "--layout", layout]).args(more);
    if !size.is_empty() {
        create.args(["--size", size]);
    }
    succeed(create.args(members));
}

pub fn serve(dir: &Path, members: &[PathBuf], more: &[&str]) -> Server {
    let socket = dir.join("array.sock");
    let mut command = seekless();
    command.arg("serve").args(members).arg("--socket").arg(&socket).args(more);
    Server::start(command, socket)
}

pub fn files(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| dir.join(format!("{name}.img"))).collect()
}

pub fn copy_in(from: &Path, server: &Server) {
    succeed(command("nbdcopy").arg("--flush").arg(from).arg(server.uri()));
}

pub fn holds(server: &Server, dir: &Path, expected: &Path) {
    let back = dir.join("back");
    succeed(command("nbdcopy").arg(server.uri()).arg(&back));
    assert!(fs::read(expected).expect("read") == fs::read(&back).expect("read"), "content differs");
}

/// Serves until the member that was put in is part of the array, then compares all members.
fn rebuilds(dir: &Path, members: &[PathBuf], expected: &Path) {
    let server = serve(dir, members, &[]);
    holds(&server, dir, expected);
    // The recorded progress may lag. A clean shutdown may come at any time, and the rebuild goes on
    // from there.
    assert_eq!(server.stop().code(), 0);
    eventually("the rebuild comes to an end", || {
        let server = serve(dir, members, &[]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(server.stop().code(), 0);
        let info = succeed(seekless().arg("info").args(members));
        !info.contains("rebuilding")
    });
    let scrubbed = succeed(seekless().args(["check", "--scrub"]).args(members));
    assert!(scrubbed.contains("no damage found"), "{scrubbed}");
}

/// An array that was never served, or was only repaired, needs no recovery.
#[test]
fn what_is_made_or_repaired_has_ended_in_order() {
    for level in ["0", "1", "5"] {
        let dir = temp_dir();
        let members = files(dir.path(), &["a", "b", "c"]);
        create_array(level, "vlog", "8M", &members, &[]);
        let in_order = || {
            let info = succeed(seekless().arg("info").args(&members));
            assert!(info.contains("ended    cleanly"), "{info}");
        };
        in_order();
        if level != "0" {
            succeed(seekless().args(["check", "--scrub", "--repair"]).args(&members));
            in_order();
        }
    }
}

fn a_missing_member_is_replaced_and_rebuilt(layout: &str) {
    require!("nbdcopy");
    for level in ["1", "5"] {
        let dir = temp_dir();
        let source = dir.path().join("source");
        fs::write(&source, pattern(3, 24 << 20)).expect("write");
        let members = files(dir.path(), &["a", "b", "c"]);
        create_array(level, layout, "24M", &members, &["--chunk", "64k"]);
        // In any order.
        let server =
            serve(dir.path(), &[members[2].clone(), members[0].clone(), members[1].clone()], &[]);
        copy_in(&source, &server);
        holds(&server, dir.path(), &source);
        assert_eq!(server.stop().code(), 0);
        fs::remove_file(&members[1]).expect("remove");
        let left = [members[0].clone(), members[2].clone()];
        let socket = dir.path().join("refused.sock");
        let refused = run(seekless().arg("serve").args(&left).arg("--socket").arg(&socket));
        assert_eq!(refused.code(), 3, "{}", refused.err);
        assert!(refused.err.contains("member 1") && refused.err.contains("--degraded"));
        let server = serve(dir.path(), &left, &["--degraded"]);
        holds(&server, dir.path(), &source);
        fs::write(&source, pattern(4, 24 << 20)).expect("write");
        copy_in(&source, &server);
        assert_eq!(server.stop().code(), 0);
        let new = dir.path().join("d.img");
        succeed(seekless().arg("replace").args(&left).arg("--with").arg(&new));
        rebuilds(dir.path(), &[members[0].clone(), new, members[2].clone()], &source);
    }
}

/// A loop device over a file; it can be made shorter while it is in use.
pub struct Loop {
    /// Its path.
    pub device: PathBuf,
    file: PathBuf,
}

impl Loop {
    pub fn new(dir: &Path, bytes: u64) -> Option<Loop> {
        if !installed("losetup") || !rustix::process::geteuid().is_root() {
            skip("loop devices need losetup and root rights");
            return None;
        }
        let file = dir.join("loop");
        File::create(&file).and_then(|file| file.set_len(bytes)).expect("file");
        let attached = run(command("losetup").args(["--find", "--show"]).arg(&file));
        if !attached.status.success() {
            skip("no loop devices here");
            return None;
        }
        Some(Loop { device: PathBuf::from(attached.out.trim()), file })
    }

    /// Cuts everything behind the first blocks off.
    pub fn pull(&self) {
        let file = File::options().write(true).open(&self.file).expect("file");
        let name = self.device.file_name().expect("a name");
        let size = Path::new("/sys/class/block").join(name).join("size");
        // A write in between makes the file longer again.
        eventually("the device is shorter", || {
            file.set_len(8 << 10).expect("shorter");
            succeed(command("losetup").arg("--set-capacity").arg(&self.device));
            fs::read_to_string(&size).expect("sectors").trim() == "16"
        });
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(command("losetup").arg("--detach").arg(&self.device));
    }
}

fn a_member_is_pulled_out_under_load(layout: &str) {
    require!("fio", "nbdcopy");
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 40 << 20) else { return };
    let mut members = files(dir.path(), &["a", "b"]);
    members.insert(1, disk.device.clone());
    create_array("5", layout, "32M", &members, &[]);
    let server = serve(dir.path(), &members, &[]);
    let verify = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    let load = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=24m", "--fsync=64"];
    let mut job = fio(server.uri(), dir.path(), &load);
    let job = job.args(verify).args(["--loops=2"]).stdout(Stdio::null());
    let mut running = job.spawn().expect("fio");
    std::thread::sleep(std::time::Duration::from_millis(400));
    disk.pull();
    let status = running.wait().expect("fio ends");
    assert!(status.success(), "fio found something wrong: {status}");
    let source = dir.path().join("source");
    fs::write(&source, pattern(5, 32 << 20)).expect("write");
    copy_in(&source, &server);
    holds(&server, dir.path(), &source);
    let ended = server.stop();
    assert_eq!(ended.code(), 0);
    let left = [members[0].clone(), members[2].clone()];
    let info = succeed(seekless().arg("info").args(&left).arg("--degraded"));
    assert!(info.contains("out of date"), "{info}\n{}", ended.err);
    let new = dir.path().join("d.img");
    succeed(seekless().arg("replace").args(&left).arg("--with").arg(&new));
    rebuilds(dir.path(), &[left[0].clone(), new, left[1].clone()], &source);
}

#[test]
fn members_that_do_not_belong_together_are_named() {
    let dir = temp_dir();
    let (one, other) = (files(dir.path(), &["a", "b"]), files(dir.path(), &["c", "d"]));
    create_array("0", "inplace", "8M", &one, &[]);
    create_array("0", "inplace", "8M", &other, &[]);
    let mixed = run(seekless().arg("check").args([&one[0], &other[1]]));
    assert_eq!(mixed.code(), 3);
    assert!(mixed.err.contains("another array"), "{}", mixed.err);
    let alone = run(seekless().arg("check").arg(&one[0]));
    assert_eq!(alone.code(), 3);
    assert!(alone.err.contains("member 1"), "{}", alone.err);
    let told = succeed(seekless().arg("info").arg(&one[0]));
    assert!(told.contains("RAID-0 of 2 members"), "{told}");
    let shape = run(seekless()
        .args(["create", "--raid", "5", "--layout", "inplace", "--size", "8M"])
        .arg(dir.path().join("x.img")));
    assert_eq!(shape.code(), 2, "{}", shape.err);
    assert!(shape.err.contains("members"), "{}", shape.err);
}

/// A rebuild ends without a client. `info` shows that while the array is served.
#[test]
fn a_rebuild_ends_without_clients_and_tells_how_far_it_is() {
    for level in ["1", "5"] {
        let dir = temp_dir();
        let members = files(dir.path(), &["a", "b", "c"]);
        create_array(level, "inplace", "64M", &members, &[]);
        fs::remove_file(&members[1]).expect("remove");
        let left = [members[0].clone(), members[2].clone()];
        let new = dir.path().join("d.img");
        succeed(seekless().arg("replace").args(&left).arg("--with").arg(&new));
        let all = [members[0].clone(), new.clone(), members[2].clone()];
        // One member is filled after the other.
        let second = run(seekless().arg("replace").args(&all[..2]).args(["--with", "/tmp/never"]));
        assert_eq!(second.code(), 2, "{}", second.err);
        assert!(second.err.contains("member 1 is still being filled"), "{}", second.err);
        let server = serve(dir.path(), &all, &[]);
        eventually("the rebuild comes to an end", || {
            let info = succeed(seekless().arg("info").args(&all));
            assert!(info.contains("in use   by process"), "{info}");
            !info.contains("rebuilding")
        });
        let ended = server.stop();
        assert_eq!(ended.code(), 0);
        assert!(ended.err.contains("% done, "), "{}", ended.err);
        assert!(ended.err.contains("the new member is filled and active"), "{}", ended.err);
        // It replaces another member in this round.
        let server = serve(dir.path(), &all[..2], &["--degraded"]);
        assert_eq!(server.stop().code(), 0);
    }
}

/// Changes a byte of every block between two offsets of an image.
fn spoil(image: &Path, from: usize, to: usize) {
    let mut bytes = fs::read(image).expect("read");
    for at in (from..to.min(bytes.len())).step_by(4096) {
        bytes[at + 77] ^= 0x10;
    }
    fs::write(image, bytes).expect("write");
}

#[test]
fn a_repair_believes_the_member_that_is_right() {
    require!("nbdcopy");
    for (level, names) in [("1", &["a", "b"][..]), ("5", &["a", "b", "c"])] {
        let dir = temp_dir();
        let source = dir.path().join("source");
        fs::write(&source, pattern(5, 12 << 20)).expect("write");
        let members = files(dir.path(), names);
        create_array(level, "lfs", "12M", &members, &["--chunk", "64k"]);
        let server = serve(dir.path(), &members, &[]);
        copy_in(&source, &server);
        assert_eq!(server.stop().code(), 0);
        spoil(&members[0], 1 << 20, 5 << 20);
        let found = run(seekless().args(["check", "--scrub"]).args(&members));
        assert_eq!(found.code(), 1, "{}", found.out);
        let repaired = succeed(seekless().args(["check", "--scrub", "--repair"]).args(&members));
        assert!(repaired.contains("no damage found"), "{repaired}");
        let again = succeed(seekless().args(["check", "--scrub"]).args(&members));
        assert!(again.contains("no damage found"), "{again}");
        let server = serve(dir.path(), &members, &[]);
        holds(&server, dir.path(), &source);
        assert_eq!(server.stop().code(), 0);
        // Each is damaged differently, so that none is right.
        let offset = 3 << 20;
        spoil(&members[0], offset, offset + 1);
        spoil(&members[1], offset + 1, offset + 2);
        let before: Vec<_> = members.iter().map(|one| fs::read(one).expect("read")).collect();
        let left = run(seekless().args(["check", "--scrub", "--repair"]).args(&members));
        assert_eq!(left.code(), 1, "{}{}", left.out, left.err);
        assert!(left.out.contains("it is unchanged"), "{}", left.out);
        let after: Vec<_> = members.iter().map(|one| fs::read(one).expect("read")).collect();
        // The members' own superblocks count how often the array was put together.
        for (member, (before, after)) in before.iter().zip(&after).enumerate() {
            let blocks = before.chunks(4096).zip(after.chunks(4096)).enumerate();
            let changed: Vec<usize> = blocks
                .filter(|(at, (a, b))| a != b && (256..1280).contains(at))
                .map(|it| it.0)
                .collect();
            assert_eq!(changed, [0; 0], "RAID-{level}: blocks of member {member} were overwritten");
        }
    }
}

#[test]
fn one_image_in_two_places_is_named() {
    let dir = temp_dir();
    let members = files(dir.path(), &["a", "b", "c"]);
    create_array("5", "inplace", "8M", &members, &[]);
    let socket = dir.path().join("never.sock");
    for force in [&[][..], &["--force"]] {
        let left = [&members[0], &members[2]];
        let mut replace = seekless();
        let itself = replace.arg("replace").args(left).arg("--with").arg(&members[2]).args(force);
        let ended = run(itself);
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains("given as a remaining member"), "{}", ended.err);
    }
    let twice = [&members[0], &members[1], &members[1]];
    let ended = run(seekless().arg("serve").args(twice).arg("--socket").arg(&socket));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("is given twice"), "{}", ended.err);
    let plain = dir.path().join("o");
    fs::write(&plain, pattern(1, 1 << 20)).expect("write");
    for (command, more) in [("serve", vec!["--socket".into(), socket.clone()]), ("drain", vec![])] {
        let mut own = seekless();
        let ended = run(own.arg(command).arg(&plain).arg("--log").arg(&plain).args(more));
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains("is given twice"), "{}", ended.err);
    }
}

#[test]
fn the_image_that_does_not_belong_is_the_one_that_is_named() {
    let dir = temp_dir();
    let (one, other) = (files(dir.path(), &["a", "b", "c"]), files(dir.path(), &["d", "e", "f"]));
    create_array("5", "inplace", "8M", &one, &[]);
    create_array("5", "inplace", "8M", &other, &[]);
    let [copy, missing] = ["copy", "missing"].map(|name| dir.path().join(name));
    fs::copy(&one[1], &copy).expect("copy");
    let check = |images: &[&PathBuf], more: &[&str], code: i32, named: &PathBuf, why: &str| {
        let ended = run(seekless().arg("check").args(images).args(more));
        assert_eq!(ended.code(), code, "{images:?}: {}", ended.err);
        let named = format!("error: {}", named.display());
        assert!(ended.err.starts_with(&named), "{images:?}: {}", ended.err);
        assert!(ended.err.contains(why), "{images:?}: {}", ended.err);
    };
    let [a, b, d] = [&one[0], &one[1], &other[0]];
    check(&[a, b, d], &[], 3, d, "another array");
    check(&[d, a, b], &[], 3, d, "another array");
    check(&[a, b, &copy], &[], 3, &copy, "leave out the one that is a copy");
    check(&[a, b, b], &[], 2, b, "is given twice");
    check(&[&missing], &["--degraded"], 3, &missing, "does not exist");
    let told = succeed(seekless().args(["info", "--degraded"]).args([a, b, &missing]));
    assert!(told.contains("missing: it does not exist\n"), "{told}");
}

#[test]
fn a_check_says_that_an_array_is_degraded() {
    let dir = temp_dir();
    let members = files(dir.path(), &["a", "b", "c"]);
    create_array("5", "inplace", "8M", &members, &[]);
    let told = |members: &[PathBuf], more: &[&str]| {
        succeed(seekless().arg("check").args(members).args(more))
    };
    assert!(!told(&members, &[]).contains("degraded"));
    let left = told(&members[1..], &["--degraded"]);
    assert!(left.contains("degraded: member 0 is missing"), "{left}");
    assert!(left.contains("no damage found"), "{left}");
    let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    let left = json(told(&members[1..], &["--degraded", "--json"]));
    assert_eq!((&left["degraded"], &left["missing_members"][0]), (&true.into(), &0.into()));
    assert_eq!(json(told(&members, &["--json"]))["degraded"], false);
}

#[test]
fn an_array_that_cannot_be_made_says_what_helps() {
    let dir = temp_dir();
    for (args, hint) in [
        (&["5", "--size", "8M", "x"][..], "name an image for each"),
        (&["1", "x", "y"], "give one with --size"),
        (&["1", "--size", "8M", "x", "x"], "is given twice"),
        (&["0", "--size", "8M", "--chunk", "2M", "x", "y"], "choose a --chunk of 4k to 1M"),
    ] {
        let make = ["create", "--layout", "inplace", "--raid"];
        let refused = run(seekless().current_dir(dir.path()).args(make).args(args));
        assert_eq!(refused.code(), 2, "{args:?}: {}", refused.err);
        assert!(refused.err.contains(hint), "{args:?}: {}", refused.err);
        assert!(!dir.path().join("x").exists(), "{args:?} left something behind");
    }
}
