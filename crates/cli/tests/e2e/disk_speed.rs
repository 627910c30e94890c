//! Images served at the pace of zoned and cached disks.

use crate::harness::{Server, check_is_clean, command, create, succeed, temp_dir};
use crate::require;
use std::time::{Duration, Instant};

/// A disk with a write-back cache.
const CACHED: &str = "\
name = 'cached'
summary = 'zones and a volatile cache'
rpm = 7200
heads = 4
cylinders = 2000
head_switch_ms = 0.6
overhead_ms = 0.1
seek = { stroke = { constant_ms = 0.8, root_ms = 12 } }
zones = [{ sectors = 400, track_skew = 30, cylinder_skew = 50, last_cylinder = 999 },
         { sectors = 300, track_skew = 22, cylinder_skew = 38 }]
[cache]
segments = 8
segment_sectors = 512
write_back = { sectors = 8192, writes = 256, idle_ms = 2 }
";

const SCRIPT: &str = "
import os
size = h.get_size()
data = os.urandom(64 << 10)
for at in (0, size // 2 & ~4095, size - len(data)):
    h.pwrite(data, at)
    assert h.pread(len(data), at) == data
h.flush()
h.pwrite(b'y' * 8192, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 4096) == b'y' * 8192
";

const AGAIN: &str = "
assert h.pread(8192, 4096) == b'y' * 8192
assert h.pread(4096, h.get_size() - 4096) != bytes(4096)
";

fn served(disk: &str, layout: &str, size: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, size);
    let began = Instant::now();
    let server = Server::with(&image, &["--disk", disk]);
    succeed(command("nbdinfo").arg(server.uri()));
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", SCRIPT]));
    server.kill();
    // What was flushed is there after a kill, at any pace.
    let server = Server::with(&image, &["--disk", disk]);
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", AGAIN]));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
    assert!(began.elapsed() < Duration::from_secs(60), "{disk}: the size must not matter");
}

#[test]
fn zoned_disks_with_early_writes_are_served() {
    require!("nbdsh", "nbdinfo");
    served("atlas10k", "inplace", "64M");
    served("atlas10k", "vlog", "64M");
}

#[test]
fn a_disk_of_20_terabytes_is_served_from_a_sparse_image() {
    require!("nbdsh", "nbdinfo");
    // ext4 has no files of 16 TiB or more.
    served("cmr-20tb", "inplace", "15T");
}

#[test]
fn a_volatile_cache_keeps_what_was_flushed() {
    require!("nbdsh", "nbdinfo");
    let dir = temp_dir();
    let disk = dir.path().join("cached.toml");
    std::fs::write(&disk, CACHED).expect("write");
    let disk = disk.to_str().expect("text");
    served(disk, "inplace", "64M");
    served(disk, "vlog", "64M");
}
