//! A disk caching disk whose log is a device of its own, from the command line.

use crate::harness::{Server, command, pattern, run, seekless, succeed, temp_dir};
use crate::require;
use std::fs;

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
    // The two must not be mixed up.
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
