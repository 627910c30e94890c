//! A disk caching disk whose log is a device of its own, from the command line.

use crate::harness::{Server, command, pattern, run, seekless, succeed, temp_dir};
use crate::require;
use std::fs;
use std::path::Path;

#[test]
fn a_log_is_put_in_front_of_a_disk_and_taken_away() {
    require!("nbdcopy");
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let (origin, log) = (path("origin.img"), path("log.img"));
    let log_name = log.to_str().expect("a readable name");
    let before = pattern(5, 24 << 20);
    fs::write(&origin, &before).expect("write");
    succeed(seekless().args(["create", "--layout", "dcd", "--log", log_name]).arg(&origin));
    let server = Server::with(&origin, &["--log", log_name]);
    succeed(command("nbdcopy").arg(server.uri()).arg(path("back")));
    assert!(fs::read(path("back")).expect("read") == before, "attaching changed the content");
    let after = pattern(6, 24 << 20);
    fs::write(path("new"), &after).expect("write");
    succeed(command("nbdcopy").arg("--flush").arg(path("new")).arg(server.uri()));
    server.kill();
    let both = |verb: &str| succeed(seekless().arg(verb).arg(&origin).args(["--log", log_name]));
    assert!(both("check").contains("no damage found"));
    assert!(both("info").contains("log.img"));
    // Swapped devices are refused.
    let mixed = run(seekless().arg("info").arg(&log).arg("--log").arg(&origin));
    assert_eq!(mixed.code(), 3, "{}", mixed.err);
    assert!(!both("dump").is_empty());
    both("drain");
    both("detach");
    assert!(fs::read(&origin).expect("read") == after, "the origin is not what was written");
}

#[test]
fn a_log_does_not_go_with_arrays_and_faults() {
    let dir = temp_dir();
    let socket = dir.path().join("socket");
    let socket = socket.to_str().expect("a readable name");
    let image = dir.path().join("origin.img");
    let image = image.to_str().expect("a readable name");
    succeed(seekless().args(["create", "--layout", "inplace", "--size", "1M", image]));
    let cases: [&[&str]; 6] = [
        &["serve", image, image, "--log", "log.img", "--socket", socket],
        &["serve", image, "--log", "log.img", "--socket", socket, "--faults", "lying-flush"],
        &["check", image, image, "--log", "log.img"],
        &["dump", image, image, "--log", "log.img"],
        &["create", "a.img", "b.img", "--layout", "dcd", "--size", "1M", "--log", "log.img"],
        &["prove", "--layout", "vlog", "--log"],
    ];
    for case in cases {
        let refused = run(seekless().current_dir(dir.path()).args(case));
        assert_eq!(refused.code(), 2, "{case:?}: {}", refused.err);
        assert!(refused.err.contains("--log"), "{case:?}: {}", refused.err);
    }
}

/// An origin of 4 MiB that is attached to a log.
fn attached(dir: &Path, name: &str) -> [String; 2] {
    let path = |half: &str| dir.join(format!("{name}.{half}")).to_str().expect("text").to_owned();
    let [origin, log] = [path("origin"), path("log")];
    fs::write(&origin, pattern(5, 4 << 20)).expect("write");
    succeed(seekless().args(["create", "--layout", "dcd", "--log", &log, &origin]));
    [origin, log]
}

#[test]
fn errors_name_the_half_that_is_at_fault() {
    let dir = temp_dir();
    let [origin, log] = attached(dir.path(), "one");
    let [_, other] = attached(dir.path(), "other");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (foreign, missing, short) = (path("foreign"), path("missing"), path("short"));
    fs::write(&foreign, pattern(6, 2 << 20)).expect("write");
    fs::copy(&log, &short).expect("copy");
    fs::File::options()
        .write(true)
        .open(&short)
        .and_then(|file| file.set_len(1 << 20))
        .expect("shorter");
    let alone = crate::harness::create(dir.path(), "vlog", "4M");
    let alone = alone.to_str().expect("text").to_owned();
    for verb in ["check", "dump", "drain", "detach"] {
        for (log, why) in [
            (&foreign, "name the one that the origin was attached to"),
            (&missing, "if it is gone, all that was in it only is lost"),
            (&short, "is truncated"),
            (&alone, "without --log"),
            (&other, "belongs to another volume"),
        ] {
            let refused = run(seekless().args([verb, &origin, "--log", log]));
            assert_eq!(refused.code(), 3, "{verb} {log}: {}", refused.err);
            assert!(refused.err.starts_with(&format!("error: {log}")), "{}", refused.err);
            assert!(refused.err.contains(why), "{verb} {log}: {}", refused.err);
        }
        let refused = run(seekless().args([verb, &alone, "--log", &log]));
        assert!(refused.err.starts_with(&format!("error: {alone}: the origin")), "{}", refused.err);
    }
    let refused = run(seekless().args(["check", &origin]));
    assert!(refused.err.contains("if it is gone"), "{}", refused.err);
}

/// Attaching them would hide their volume, or lose the end of the device.
#[test]
fn what_cannot_be_an_origin_is_refused_and_left_alone() {
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (odd, there, member, second) = (path("odd"), path("there"), path("a"), path("b"));
    let headers = path("headers");
    fs::write(&odd, vec![1; (4 << 20) + 1]).expect("write");
    fs::write(&there, vec![1; 4 << 20]).expect("write");
    let array = ["create", "--raid", "1", "--layout", "inplace", "--size", "4M"];
    succeed(seekless().args(array).args([&member, &second]));
    succeed(seekless().args(["create", "--layout", "loge", "--size", "4M", "--headers", &headers]));
    for (origin, more, why) in [
        (&odd, &[][..], "truncate -s %4096"),
        (&there, &["--size", "8M"], "leave out --size"),
        (&member, &[], "member of an array"),
        (&headers, &[], "without --headers"),
        (&there, &["--log-size", "64k"], "a mebibyte or more"),
    ] {
        let before = fs::read(origin).expect("read");
        let log = path("log");
        let attach = ["create", "--layout", "dcd", "--log", &log, origin];
        let refused = run(seekless().args(attach).args(more));
        assert_eq!(refused.code(), 2, "{origin}: {}", refused.err);
        assert!(refused.err.contains(why), "{origin}: {}", refused.err);
        assert!(fs::read(origin).expect("read") == before, "{origin} was changed");
        assert!(fs::metadata(&log).is_err(), "a log is left behind");
    }
    let same = ["create", "--layout", "dcd", "--size", "4M", "--log", &path("log"), &there];
    succeed(seekless().args(same));
}

#[test]
fn an_image_has_room_for_the_log_that_is_asked_for() {
    let dir = temp_dir();
    let image = dir.path().join("large.img");
    let make = ["create", "--layout", "dcd", "--size", "8M", "--log-size"];
    let small = run(seekless().args(make).args(["64k", "--segment", "1M"]).arg(&image));
    assert_eq!(small.code(), 2, "{}", small.err);
    assert!(small.err.contains("choose a larger log, of 128k or more"), "{}", small.err);
    succeed(seekless().args(make).arg("80M").arg(&image));
    let checked = succeed(seekless().arg("check").arg(&image));
    assert!(checked.contains("log segments: 640\n"), "{checked}");
}

/// Blocks that a volume has in its log only.
fn dirty(image: &Path, more: &[&str]) -> u64 {
    let checked = succeed(seekless().arg("check").arg(image).args(more));
    let line = checked.lines().find_map(|line| line.strip_prefix("dirty blocks: "));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{checked}"))
}

/// A disk of 24 MiB that begins as disks do: a boot sector, a partition table, zeros.
fn partitioned() -> Vec<u8> {
    let mut disk = pattern(7, 24 << 20);
    disk[1024..3 << 10].fill(0);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk
}

#[test]
fn a_clean_origin_is_a_plain_disk_without_its_log() {
    require!("nbdcopy");
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let (origin, log) = (path("origin.img"), path("log.img"));
    let log_name = log.to_str().expect("a readable name");
    fs::File::create(&origin).and_then(|file| file.set_len(24 << 20)).expect("a new disk");
    succeed(seekless().args(["create", "--layout", "dcd", "--log", log_name]).arg(&origin));
    let both = ["--log", log_name];
    // The partition table and all else come through the log.
    let written = partitioned();
    fs::write(path("new"), &written).expect("write");
    let all = [&both[..], &["--bypass", "off", "--sequential", "off"]].concat();
    let server = Server::with(&origin, &all);
    succeed(command("nbdcopy").arg("--flush").arg(path("new")).arg(server.uri()));
    assert_ne!(fs::read(&origin).expect("read")[..512], written[..512], "it is bound");
    assert_eq!(server.stop().code(), 0);
    assert!(fs::read(&origin).expect("read") == written, "the origin alone is not the disk");
    assert!(succeed(seekless().arg("info").arg(&origin).args(both)).contains("usable without it"));
    // The two go on together, and part again.
    let server = Server::with(&origin, &both);
    succeed(command("nbdcopy").arg(server.uri()).arg(path("back")));
    assert!(fs::read(path("back")).expect("read") == written);
    assert_eq!(server.stop().code(), 0);
    fs::remove_file(&log).expect("remove");
    assert!(fs::read(&origin).expect("read") == written);
    let said = succeed(seekless().arg("abandon-log").arg(&origin));
    assert!(said.contains("usable alone as it is"), "{said}");
    assert!(fs::read(&origin).expect("read") == written);
}

#[test]
fn a_lost_log_is_no_dead_end() {
    require!("nbdcopy");
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let (origin, log) = (path("origin.img"), path("log.img"));
    let log_name = log.to_str().expect("a readable name");
    let before = partitioned();
    fs::write(&origin, &before).expect("write");
    succeed(seekless().args(["create", "--layout", "dcd", "--log", log_name]).arg(&origin));
    let server = Server::with(&origin, &["--log", log_name]);
    server.kill();
    fs::remove_file(&log).expect("remove");
    let bound = fs::read(&origin).expect("read");
    assert_ne!(bound[..512], before[..512], "it is bound");
    let abandon = |more: &[&str]| {
        run(seekless().current_dir(dir.path()).arg("abandon-log").arg(&origin).args(more))
    };
    let refused = abandon(&[]);
    assert_eq!(refused.code(), 1, "{}", refused.err);
    assert!(refused.err.contains("at most") && refused.err.contains("--yes"), "{}", refused.err);
    assert!(fs::read(&origin).expect("read") == bound, "it was changed without --yes");
    let alone = abandon(&["--yes", "--save", "kept"]);
    assert_eq!(alone.code(), 0, "{}", alone.err);
    assert!(fs::read(&origin).expect("read") == before, "the origin alone is not the disk");
    assert!(fs::metadata(path("kept")).is_err(), "the file is left behind");
}

#[test]
fn idle_work_survives_a_kill() {
    require!("nbdcopy");
    let dir = temp_dir();
    let image = dir.path().join("disk.img");
    succeed(seekless().args(["create", "--layout", "dcd", "--size", "8M"]).arg(&image));
    let server = Server::with(&image, &["--bypass", "off", "--sequential", "off"]);
    fs::write(dir.path().join("new"), pattern(8, 1 << 20)).expect("write");
    let copy = ["--flush", "--destination-is-zero"];
    succeed(command("nbdcopy").args(copy).arg(dir.path().join("new")).arg(server.uri()));
    // The pause of an almost empty log, the work, a second until it is recorded.
    std::thread::sleep(std::time::Duration::from_secs(4));
    server.kill();
    assert_eq!(dirty(&image, &[]), 0);
}

#[test]
fn a_drain_that_is_killed_goes_on_where_it_was() {
    require!("nbdcopy");
    let dir = temp_dir();
    let path = |name: &str| dir.path().join(name);
    let (origin, log) = (path("origin.img"), path("log.img"));
    let log_name = log.to_str().expect("a readable name");
    fs::write(&origin, pattern(5, 64 << 20)).expect("write");
    let create = ["create", "--layout", "dcd", "--log-size", "96M", "--log", log_name];
    succeed(seekless().args(create).arg(&origin));
    let both = ["--log", log_name];
    let server =
        Server::with(&origin, &[&both[..], &["--bypass", "off", "--sequential", "off"]].concat());
    let after = pattern(6, 64 << 20);
    fs::write(path("new"), &after).expect("write");
    succeed(command("nbdcopy").arg("--flush").arg(path("new")).arg(server.uri()));
    server.kill();
    let mut left = vec![dirty(&origin, &both)];
    assert!(left[0] > 8000, "{left:?}");
    // Killed a little later each time, until it gets through.
    for pause in 1..200_u64 {
        let mut drain = seekless().arg("drain").arg(&origin).args(both).spawn().expect("drain");
        std::thread::sleep(std::time::Duration::from_millis(pause * 15));
        drain.kill().expect("kill");
        if drain.wait().expect("wait").success() {
            break;
        }
        left.push(dirty(&origin, &both));
    }
    assert!(left.windows(2).all(|two| two[1] <= two[0]), "{left:?}");
    let between = left.iter().filter(|&&one| 0 < one && one < left[0]).count();
    assert!(between > 0, "no kill left anything between nothing and all: {left:?}");
    succeed(seekless().arg("drain").arg(&origin).args(both));
    assert!(fs::read(&origin).expect("read") == after, "the origin alone is not the disk");
}
