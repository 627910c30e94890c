//! Sustained load with verification: fio.

use crate::harness::{Server, check_is_clean, command, create, succeed, temp_dir};
use crate::{each_layout, require};
use std::path::Path;
use std::process::Command;

each_layout!(
    fio_verifies_random_writes_at_depth,
    fio_verifies_several_connections,
    fio_overwrites_a_full_volume,
);

/// fio against a server. State files of its verification stay in `dir`.
pub fn fio(uri: &str, dir: &Path, more: &[&str]) -> Command {
    let mut fio = command("fio");
    fio.current_dir(dir);
    fio.args(["--name=test", "--ioengine=nbd", "--thread", "--randseed=7"]);
    fio.arg(format!("--uri={uri}")).args(more);
    fio
}

const VERIFY: [&str; 3] = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];

fn fio_verifies_random_writes_at_depth(layout: &str) {
    require!("fio");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "64M");
    let server = Server::image(&image);
    let load = ["--rw=randwrite", "--bssplit=512/10:4k/70:5k/5:64k/15", "--iodepth=16"];
    let mut job = fio(server.uri(), dir.path(), &load);
    // Blocks of several sizes must not overlap, or fio cannot verify them.
    succeed(job.args(VERIFY).args(["--size=48m", "--fsync=64"]));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

fn fio_verifies_several_connections(layout: &str) {
    require!("fio");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "64M");
    let server = Server::image(&image);
    let load = ["--rw=randrw", "--bs=4k", "--iodepth=16", "--numjobs=4"];
    let mut job = fio(server.uri(), dir.path(), &load);
    // Each connection has a quarter of its own.
    let quarters = ["--size=16m", "--offset_increment=16m", "--fsync=32", "--group_reporting"];
    succeed(job.args(VERIFY).args(quarters));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

fn fio_overwrites_a_full_volume(layout: &str) {
    require!("fio");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "16M");
    let server = Server::image(&image);
    let fill = ["--rw=write", "--bs=64k", "--iodepth=8", "--size=16m"];
    succeed(&mut fio(server.uri(), dir.path(), &fill));
    // Random writes of twice the volume: a log that cleans too late fails here.
    let load = ["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=16m", "--loops=2"];
    succeed(fio(server.uri(), dir.path(), &load).args(VERIFY));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}
