//! The clients that people use: libnbd and QEMU.

use crate::harness::{
    Server, check_is_clean, command, create, pattern, seekless, succeed, temp_dir,
};
use crate::{each_layout, require};
use std::fs;

each_layout!(
    nbdinfo_sees_an_honest_export,
    holes_are_told_and_data_is_none,
    nbdcopy_brings_back_what_it_took,
    qemu_img_converts_and_compares,
    qemu_io_writes_patterns_with_fua,
    nbdsh_trims_and_reads_zeros,
    a_read_only_export_refuses_writes,
);

fn nbdinfo_sees_an_honest_export(layout: &str) {
    require!("nbdinfo");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "64M");
    let server = Server::image(&image);
    let size = succeed(command("nbdinfo").arg("--size").arg(server.uri()));
    assert_eq!(size.trim(), (64 << 20).to_string());
    let info = succeed(command("nbdinfo").arg("--json").arg(server.uri()));
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    let export = &info["exports"][0];
    for promise in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"] {
        assert_eq!(export[promise], true, "{promise} in {info:#}");
    }
    assert_eq!(export["is_read_only"], false);
}

fn holes_are_told_and_data_is_none(layout: &str) {
    require!("nbdinfo", "nbdcopy");
    const BYTES: usize = 32 << 20;
    let dir = temp_dir();
    let image = create(dir.path(), layout, "32M");
    let source = dir.path().join("source");
    let mut bytes = vec![0; BYTES];
    for (at, length) in [(1 << 20, 1 << 20), ((10 << 20) + 4096, 4096), (BYTES - 4096, 4096)] {
        bytes[at..at + length].copy_from_slice(&pattern(at as u64, length));
    }
    fs::write(&source, &bytes).expect("write");
    let server = Server::image(&image);
    succeed(command("nbdcopy").args(["--flush", "--connections=1"]).arg(&source).arg(server.uri()));
    map(&server, layout, &bytes);
    assert_eq!(server.stop().code(), 0);
    // And after a clean shutdown.
    map(&Server::image(&image), layout, &bytes);
}

/// Compares the holes that an export reports with its content.
fn map(server: &Server, layout: &str, bytes: &[u8]) {
    let map = succeed(command("nbdinfo").args(["--map", "--json"]).arg(server.uri()));
    let map: serde_json::Value = serde_json::from_str(&map).expect("JSON");
    let mut holes = 0;
    for extent in map.as_array().expect("a list") {
        let number = |name: &str| extent[name].as_u64().expect("a number") as usize;
        let (offset, length) = (number("offset"), number("length"));
        let zeros = bytes[offset..offset + length].iter().all(|&byte| byte == 0);
        if number("type") != 0 {
            assert!(zeros, "{layout}: data is told to be a hole: {extent}");
            holes += length;
        }
    }
    // A disk caching disk does not know the content of home locations.
    assert!(layout == "dcd" || holes > bytes.len() / 2, "{layout}: {holes} bytes of holes");
}

fn nbdcopy_brings_back_what_it_took(layout: &str) {
    require!("nbdcopy");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "32M");
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    fs::write(&there, pattern(1, 32 << 20)).expect("write");
    let server = Server::image(&image);
    // Four connections at once: multi-conn must hold as advertised.
    let copy = ["--connections=4", "--flush"];
    succeed(command("nbdcopy").args(copy).arg(&there).arg(server.uri()));
    succeed(command("nbdcopy").args(copy).arg(server.uri()).arg(&back));
    assert!(fs::read(&there).expect("read") == fs::read(&back).expect("read"), "content differs");
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
    // And again after a clean shutdown.
    let server = Server::image(&image);
    succeed(command("nbdcopy").arg(server.uri()).arg(&back));
    assert!(fs::read(&there).expect("read") == fs::read(&back).expect("read"), "content differs");
}

fn qemu_img_converts_and_compares(layout: &str) {
    require!("qemu-img");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "32M");
    let source = dir.path().join("source.raw");
    // Half data, half hole.
    let mut bytes = pattern(2, 16 << 20);
    bytes.resize(32 << 20, 0);
    fs::write(&source, bytes).expect("write");
    let server = Server::image(&image);
    let raw = ["convert", "-n", "-f", "raw", "-O", "raw"];
    succeed(command("qemu-img").args(raw).arg(&source).arg(server.uri()));
    let same = ["compare", "-f", "raw", "-F", "raw"];
    succeed(command("qemu-img").args(same).arg(&source).arg(server.uri()));
    let back = dir.path().join("back.qcow2");
    let out = ["convert", "-f", "raw", "-O", "qcow2"];
    succeed(command("qemu-img").args(out).arg(server.uri()).arg(&back));
    let same = ["compare", "-f", "raw", "-F", "qcow2"];
    succeed(command("qemu-img").args(same).arg(&source).arg(&back));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

fn qemu_io_writes_patterns_with_fua(layout: &str) {
    require!("qemu-io");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "16M");
    let server = Server::image(&image);
    let io = |commands: &[&str]| {
        let mut client = command("qemu-io");
        client.args(["-f", "raw"]);
        for one in commands {
            client.args(["-c", one]);
        }
        let said = succeed(client.arg(server.uri()));
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    };
    // Whole blocks, parts of blocks, and runs that begin and end inside a block.
    io(&[
        "write -f -P 0x11 0 64k",
        "write -f -P 0x22 512 512",
        "write -P 0x33 5000 10000",
        "write -z 32k 8k",
        "discard 48k 8k",
        "flush",
        "aio_write -P 0x44 1M 1M",
        "aio_write -P 0x55 2M 64k",
        "aio_flush",
        "read -P 0x11 0 512",
        "read -P 0x22 512 512",
        "read -P 0x11 1024 3976",
        "read -P 0x33 5000 10000",
        "read -P 0x11 15000 17768",
        "read -P 0 32k 8k",
        "read -P 0x11 40k 8k",
        "read -P 0 48k 8k",
        "read -P 0x44 1M 1M",
        "read -P 0x55 2M 64k",
        "read -P 0 3M 64k",
    ]);
    server.kill();
    // Writes with FUA and flushed writes survive the crash.
    let server = Server::image(&image);
    let kept = ["read -P 0x22 512 512", "read -P 0x33 5000 10000", "read -P 0x44 1M 1M"];
    let mut client = command("qemu-io");
    client.args(["-f", "raw"]);
    for one in kept {
        client.args(["-c", one]);
    }
    let said = succeed(client.arg(server.uri()));
    assert!(!said.contains("failed"), "{said}");
}

fn nbdsh_trims_and_reads_zeros(layout: &str) {
    require!("nbdsh");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "16M");
    let server = Server::image(&image);
    let script = "
import os
h.set_strict_mode(0)
data = os.urandom(1 << 20)
h.pwrite(data, 0, nbd.CMD_FLAG_FUA)
assert h.pread(1 << 20, 0) == data
h.trim(512 << 10, 64 << 10)
assert h.pread(64 << 10, 0) == data[:64 << 10]
assert h.pread(512 << 10, 64 << 10) == bytes(512 << 10)
assert h.pread(448 << 10, 576 << 10) == data[576 << 10:]
h.zero(100, 50)
assert h.pread(200, 0) == data[:50] + bytes(100) + data[150:200]
h.zero(8192, 8192, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
assert h.pread(8192, 8192) == bytes(8192)
h.flush()
for bad in (lambda: h.pread(4096, h.get_size()), lambda: h.pwrite(b'x' * 512, h.get_size() - 100)):
    try:
        bad()
    except nbd.Error:
        continue
    raise SystemExit('a request beyond the end was accepted')
assert h.pread(64 << 10, 0)[200:] == data[200:8192] + bytes(8192) + data[16384:64 << 10]
";
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", script]));
    server.kill();
    check_is_clean(&image);
}

fn a_read_only_export_refuses_writes(layout: &str) {
    require!("nbdsh", "nbdinfo");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "16M");
    let server = Server::image(&image);
    let write = "h.pwrite(b'x' * 4096, 4096)";
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", write]));
    server.stop();
    let before = fs::read(&image).expect("read");
    let server = Server::with(&image, &["--read-only"]);
    succeed(command("nbdinfo").args(["--is", "read-only"]).arg(server.uri()));
    let script = "
h.set_strict_mode(0)
assert h.pread(4096, 4096) == b'x' * 4096
for bad in (lambda: h.pwrite(b'y' * 4096, 4096), lambda: h.trim(4096, 4096),
            lambda: h.zero(4096, 4096)):
    try:
        bad()
    except nbd.Error as error:
        assert error.errnum in (1, 30), error
        continue
    raise SystemExit('a read-only export was written to')
assert h.pread(4096, 4096) == b'x' * 4096
";
    succeed(command("nbdsh").args(["-u", server.uri(), "-c", script]));
    // Readers may share an image, writers may not join them.
    succeed(seekless().arg("info").arg(&image));
    assert_eq!(server.stop().code(), 0);
    assert!(fs::read(&image).expect("read") == before, "a read-only server changed the image");
}
