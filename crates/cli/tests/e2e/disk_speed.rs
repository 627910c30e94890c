//! Images served at the emulated speed of zoned and cached disks.

use crate::harness::{
    Server, check_is_clean, command, create, pattern, run, seekless, succeed, temp_dir,
};
use crate::nbd::Client;
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
    // Flushed data survives a kill, at any emulated speed.
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

/// A disk with zones of 1 MiB that are written in order, but for the first four.
const SHINGLED: &str = "\
name = 'shingled'
summary = 'small zones'
rpm = 7200
heads = 2
cylinders = 100
head_switch_ms = 1
overhead_ms = 0.1
seek = { constant = { ms = 1 } }
zones = [{ sectors = 256, track_skew = 30, cylinder_skew = 50 }]
zoned = { zone_sectors = 2048, conventional_zones = 4, max_open = 8 }
";

const AGAINST_THE_RULES: &str = "
def refused(what):
    try:
        what()
    except nbd.Error:
        return
    assert False
h.pwrite(b'a' * 4096, 0)
# Neither the write pointer of the fifth zone nor the whole of it, wherever the volume begins.
refused(lambda: h.pwrite(b'b' * 4096, 0x500000 + 65536))
refused(lambda: h.trim(65536, 0x500000 + 65536))
# That was all: writing goes on.
h.pwrite(b'c' * 4096, 4096)
h.flush()
assert h.pread(8192, 0) == b'a' * 4096 + b'c' * 4096
";

#[test]
fn what_a_shingled_disk_refuses_ends_nothing() {
    require!("nbdsh");
    let dir = temp_dir();
    let disk = dir.path().join("shingled.toml");
    std::fs::write(&disk, SHINGLED).expect("write");
    let image = create(dir.path(), "inplace", "16M");
    let server = Server::with(&image, &["--disk", disk.to_str().expect("text")]);
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", AGAINST_THE_RULES]));
    assert_eq!(server.stop().code(), 0);
}

/// A run that the disk would end in its midst does not begin.
#[test]
fn what_writes_elsewhere_is_refused_before_a_run_on_a_shingled_disk() {
    let dir = temp_dir();
    let disk = dir.path().join("shingled.toml");
    std::fs::write(&disk, SHINGLED).expect("write");
    let disk = disk.to_str().expect("text");
    let refused = |args: &[&str], whose: &str| {
        let ended = run(seekless().args(args));
        assert_eq!(ended.code(), 2, "{args:?}: {}", ended.err);
        let why = format!("takes writes only in the order of its zones, and {whose}");
        assert!(ended.err.contains(&why), "{args:?}: {}", ended.err);
        assert!(ended.err.contains("hint: choose"), "{args:?}: {}", ended.err);
    };
    for layout in ["vlog", "loge", "dcd", "lfs", "wolf", "hylog", "lld"] {
        let whose = format!("layout {layout} writes elsewhere");
        refused(&["sim", "--layout", layout, "--disk", disk], &whose);
        refused(&["sim", "--layout", layout, "--disk", disk, "--empty"], &whose);
        let image = create(dir.path(), layout, "8M");
        let before = std::fs::read(&image).expect("the image");
        let (image, socket) = (image.to_str().expect("text"), dir.path().join("never.sock"));
        let socket = socket.to_str().expect("text");
        refused(&["serve", image, "--disk", disk, "--socket", socket], &whose);
        assert!(std::fs::read(image).expect("the image") == before, "{layout}: it was changed");
        let memory = ["serve", "--memory", "8M", "--layout", layout, "--socket", socket];
        refused(&[&memory[..], &["--disk", disk]].concat(), &whose);
        std::fs::remove_file(image).expect("removed");
    }
    let baseline = ["sim", "--layout", "inplace", "--disk", disk];
    refused(&baseline, "the overwrites that age a volume go anywhere");
    refused(&["sim", "--layout", "inplace,lfs", "--disk", disk, "--empty"], "layout lfs");
    refused(&["sim", "--layout", "inplace", "--raid", "1", "--disk", disk], "an array");
    let files = ["sim-fs", "--program", "micro", "--layout", "inplace", "--disk", disk];
    refused(&files, "a file system");
    // What the hint says works.
    for more in [
        &["--age", "0", "--read-share", "1", "--requests", "100", "--warm-up", "0"][..],
        &["--empty", "--pattern", "sequential", "--requests", "100", "--warm-up", "0"],
    ] {
        let large = ["sim", "--layout", "inplace", "--disk", "hm-smr-15tb:1G"];
        succeed(seekless().args(large).args(more));
    }
}

/// The mechanics that eager writing knows cover more than the image.
#[test]
fn images_smaller_than_the_disk_are_served() {
    require!("nbdsh", "nbdinfo");
    for layout in ["inplace", "vlog", "loge"] {
        served("st19101", layout, "4M");
        served("desktop7200", layout, "64M");
        served("cmr-20tb", layout, "64M");
    }
}

#[test]
fn a_disk_of_20_terabytes_is_served_from_a_sparse_image() {
    require!("nbdsh", "nbdinfo");
    // ext4 has no files of 16 TiB or more.
    served("cmr-20tb", "inplace", "15T");
}

/// The most memory that a process has had, in bytes.
fn most_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Unwritten capacity costs neither time nor memory. The written blocks lie at both ends and in
/// between.
#[test]
fn capacity_costs_neither_time_nor_memory() {
    const BLOCK: usize = 4096;
    for (size, more) in [("18T", &["--disk", "cmr-20tb"][..]), ("30T", &[])] {
        let dir = temp_dir();
        let socket = dir.path().join("disk.sock");
        let mut command = seekless();
        command.args(["serve", "--layout", "inplace", "--memory", size, "--socket"]);
        command.arg(&socket).args(more);
        let began = Instant::now();
        let server = Server::start(command, socket);
        assert!(began.elapsed() < Duration::from_secs(5), "{size}: {:?}", began.elapsed());
        let mut client = Client::connect(server.socket()).expect("connection");
        let last = client.size_bytes() - BLOCK as u64;
        for (number, at) in [0, (last / 2) & !4095, last].into_iter().enumerate() {
            client.write(at, &pattern(number as u64, BLOCK), true).expect("writes");
            let mut found = vec![0; BLOCK];
            client.read(at, &mut found).expect("reads");
            assert!(found == pattern(number as u64, BLOCK), "{size}: {at}");
        }
        let most = most_memory(server.pid());
        assert!(most < 64 << 20, "{size}: {most} bytes");
        assert_eq!(server.stop().code(), 0);
    }
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

/// Labels between the blocks cost time of the disk, those in sector headers do not.
#[test]
fn a_loge_image_without_sector_headers_is_called_slow() {
    let dir = temp_dir();
    let said = |headers: &[&str], name: &str| {
        let image = dir.path().join(name);
        let mut create = seekless();
        create.arg("create").arg(&image).args(["--layout", "loge", "--size", "8M"]).args(headers);
        let made = run(&mut create);
        assert_eq!(made.code(), 0, "{}", made.err);
        let served = Server::with(&image, &["--disk", "st19101"]).stop();
        assert_eq!(served.code(), 0, "{}", served.err);
        (made.err, served.err)
    };
    let (made, served) = said(&[], "beside.img");
    assert!(made.contains("note: ") && made.contains("--headers"), "{made}");
    assert!(served.contains("WARN") && served.contains("`seekless create --headers`"), "{served}");
    let (made, served) = said(&["--headers"], "headers.img");
    assert_eq!(made, "");
    assert!(!served.contains("--headers"), "{served}");
}

/// The labels of `loge` are in the sector headers of the emulated disk, in a trailer of the image.
/// After a kill, only whole transactions are there.
#[test]
fn an_image_with_sector_headers_is_served_at_the_pace_of_a_disk() {
    const BLOCK: usize = 4096;
    let dir = temp_dir();
    let image = dir.path().join("loge.img");
    let make = ["--layout", "loge", "--size", "16M", "--headers"];
    succeed(seekless().arg("create").arg(&image).args(make));
    let mut durable = vec![0; 512];
    for round in 1..4 {
        let server = Server::with(&image, &["--disk", "st19101"]);
        let mut client = Client::connect(server.socket()).expect("connection");
        for (place, version) in durable.iter_mut().enumerate().skip(round) {
            if (place * 37 + round) % 5 != 0 {
                continue;
            }
            *version = (place << 8 | round) as u64;
            let at = (place * 8 * BLOCK) as u64;
            client.write(at, &pattern(*version, BLOCK), true).expect("writes");
        }
        client.trim(0, 2 * BLOCK as u32).expect("trims");
        durable[0] = 0;
        server.kill();
        check_is_clean(&image);
    }
    let server = Server::with(&image, &["--disk", "desktop7200", "--read-only"]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; BLOCK];
    for (place, &version) in durable.iter().enumerate() {
        client.read((place * 8 * BLOCK) as u64, &mut found).expect("reads");
        let expected = if version == 0 { vec![0; BLOCK] } else { pattern(version, BLOCK) };
        assert!(found == expected, "place {place} is not as it was acknowledged");
    }
    assert_eq!(server.stop().code(), 0);
    // Refused without a disk, and on a disk whose cache would lose the headers.
    for more in [&[][..], &["--disk", "atlas10k"]] {
        let socket = dir.path().join("refused.sock");
        let mut serve = seekless();
        serve.arg("serve").arg(&image).arg("--socket").arg(&socket).args(more);
        let ended = run(&mut serve);
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains("sector headers") && ended.err.contains("--disk"));
    }
    let ended = run(seekless().arg("create").arg(dir.path().join("v.img")).args([
        "--layout",
        "vlog",
        "--size",
        "16M",
        "--headers",
    ]));
    assert_eq!(ended.code(), 2, "{}", ended.err);
}
