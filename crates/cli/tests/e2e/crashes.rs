//! The server is killed while it works.

use crate::harness::{Server, check_is_clean, create, run, succeed, temp_dir};
use crate::load::fio;
use crate::nbd::Client;
use crate::{each_layout, require};
use seekless_engine::rng::Rng;
use std::time::Duration;

each_layout!(
    killed_under_fio_the_image_stays_whole,
    flushed_writes_survive_kills,
    an_orderly_end_is_quick_to_mount,
);

const BLOCK: u64 = 4096;

fn killed_under_fio_the_image_stays_whole(layout: &str) {
    require!("fio");
    let dir = temp_dir();
    let image = create(dir.path(), layout, "64M");
    for round in 0..3 {
        let server = Server::image(&image);
        let load = ["--rw=randrw", "--bs=4k", "--iodepth=16", "--fsync=16", "--size=64m"];
        let endless = ["--time_based", "--runtime=60"];
        let mut job = fio(server.uri(), dir.path(), &load);
        job.args(endless);
        let client = std::thread::spawn(move || run(&mut job));
        std::thread::sleep(Duration::from_millis(400 + 150 * round));
        server.kill();
        let ended = client.join().expect("fio ends");
        assert!(!ended.status.success(), "fio did not notice that the server died");
        check_is_clean(&image);
    }
    let server = Server::image(&image);
    succeed(&mut fio(server.uri(), dir.path(), &["--rw=read", "--bs=64k", "--size=64m"]));
}

/// The versions that a block may hold: the last one known durable, and all later ones.
#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    durable: u64,
    newest: u64,
}

fn content(block: u64, version: u64) -> Vec<u8> {
    if version == 0 {
        return vec![0; BLOCK as usize];
    }
    crate::harness::pattern(block << 32 | version, BLOCK as usize)
}

fn flushed_writes_survive_kills(layout: &str) {
    const BLOCKS: u64 = 1024;
    let dir = temp_dir();
    let image = create(dir.path(), layout, "4M");
    let mut rng = Rng::stream(5, "kills");
    let mut known = vec![Versions::default(); BLOCKS as usize];
    let mut version = 0;
    for _ in 0..6 {
        let server = Server::image(&image);
        let mut client = Client::connect(server.socket()).expect("connection");
        assert_eq!(client.size_bytes(), BLOCKS * BLOCK);
        for _ in 0..400 {
            let at = rng.below(BLOCKS);
            version += 1;
            let fua = rng.chance(0.1);
            client.write(at * BLOCK, &content(at, version), fua).expect("write");
            let entry = &mut known[at as usize];
            entry.newest = version;
            if fua {
                entry.durable = version;
            }
            if rng.chance(0.02) {
                client.flush().expect("flush");
                for entry in &mut known {
                    entry.durable = entry.newest;
                }
            }
        }
        server.kill();
        check_is_clean(&image);
        settle(&image, &mut known);
    }
}

/// Reads every block and finds out which of its possible versions it holds.
fn settle(image: &std::path::Path, known: &mut [Versions]) {
    let server = Server::image(image);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; BLOCK as usize];
    for (block, entry) in known.iter_mut().enumerate() {
        let block = block as u64;
        client.read(block * BLOCK, &mut found).expect("read");
        let Versions { durable, newest } = *entry;
        let version = (durable..=newest).rev().find(|&version| found == content(block, version));
        let version = version.unwrap_or_else(|| {
            panic!("block {block} holds none of its versions {durable} to {newest}")
        });
        *entry = Versions { durable: version, newest: version };
    }
    assert_eq!(server.stop().code(), 0);
}

fn an_orderly_end_is_quick_to_mount(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "16M");
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    let bytes = crate::harness::pattern(3, 4 << 20);
    client.write(1 << 20, &bytes, false).expect("write");
    client.disconnect().expect("goodbye");
    // No flush: a clean shutdown must make everything durable by itself.
    let ended = server.stop();
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let report = succeed(crate::harness::seekless().args(["check", "--json"]).arg(&image));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let expected = if layout == "inplace" { "stateless" } else { "tail" };
    assert_eq!(report["mount"]["path"], expected, "{report:#}");
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; bytes.len()];
    client.read(1 << 20, &mut found).expect("read");
    assert!(found == bytes, "content differs");
}

/// One bit of what says where blocks are is wrong after a kill: right after the flush that looks
/// like the end of what the crash has left, and is a doubt; after a rest it is damage, or has been
/// written twice.
#[test]
fn a_rest_makes_damage_of_a_doubt() {
    const DOUBT: &str = "doubt: 1 commit is not whole";
    let rested = [("vlog", b"SKLSMAP1", 0, "stored blocks: 256"), ("lfs", b"SKLSSEG1", 3, "part ")];
    for (layout, magic, code, said) in rested {
        for (rest, code, said) in [(0, 0, DOUBT), (4, code, said)] {
            let dir = temp_dir();
            let image = create(dir.path(), layout, "16M");
            let server = Server::image(&image);
            let mut client = Client::connect(server.socket()).expect("connection");
            client.write(0, &crate::harness::pattern(1, 1 << 20), false).expect("write");
            client.flush().expect("flush");
            std::thread::sleep(Duration::from_secs(rest));
            server.kill();
            check_is_clean(&image);
            let mut damaged = std::fs::read(&image).expect("an image");
            let begins = |at: &usize| damaged[at * BLOCK as usize..].starts_with(magic);
            let all: Vec<usize> = (0..damaged.len() / BLOCK as usize).filter(begins).collect();
            // What was written, and then its witness.
            damaged[all[0] * BLOCK as usize + 40] ^= 1;
            std::fs::write(&image, &damaged).expect("damage");
            let check = run(crate::harness::seekless().arg("check").arg(&image));
            assert_eq!(check.code(), code, "{layout}: {check:?}");
            let all = format!("{}{}", check.out, check.err);
            assert!(all.contains(said), "{layout}, {rest} s: {check:?}");
        }
    }
}
