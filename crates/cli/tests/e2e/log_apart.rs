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
            (&missing, "if it is gone, the first 128 KiB of the origin"),
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
