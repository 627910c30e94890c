//! Sorted and Compressed Loge from creation to recovery: served as a file and at the pace of a
//! disk, killed, checked, and what `info` says of the tables.

use crate::harness::{Server, check_is_clean, pattern, run, seekless, succeed, temp_dir};
use crate::nbd::Client;
use serde_json::Value;
use std::path::Path;

const BLOCK: usize = 4096;

fn info(image: &Path) -> Value {
    let text = succeed(seekless().arg("info").arg(image).arg("--json"));
    serde_json::from_str(&text).expect("JSON")
}

fn write_some(image: &Path, more: &[&str], round: u64, versions: &mut [u64]) {
    let server = Server::with(image, more);
    let mut client = Client::connect(server.socket()).expect("connection");
    for (place, version) in (0..).zip(versions.iter_mut()) {
        if round == 0 || (place * 37 + round).is_multiple_of(3) {
            *version = (place << 8) | (round + 1);
            client.write(place * BLOCK as u64, &pattern(*version, BLOCK), false).expect("writes");
        }
    }
    client.flush().expect("flushes");
    server.kill();
    check_is_clean(image);
}

fn holds(image: &Path, more: &[&str], versions: &[u64]) {
    let server = Server::with(image, &[more, &["--read-only"]].concat());
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; BLOCK];
    for (place, &version) in (0..).zip(versions) {
        client.read(place * BLOCK as u64, &mut found).expect("reads");
        assert!(found == pattern(version, BLOCK), "block {place} is not as it was flushed");
    }
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn compact_tables_are_served_and_recovered() {
    for form in ["sorted:1", "compressed", "compressed:1"] {
        for (made, served) in [(&[][..], &[][..]), (&["--headers"], &["--disk", "st19101"])] {
            let dir = temp_dir();
            let image = dir.path().join("loge.img");
            let make = ["--layout", "loge", "--size", "8M", "--table", form];
            succeed(seekless().arg("create").arg(&image).args(make).args(made));
            // An emulated disk is slow.
            let mut versions = vec![0; if made.is_empty() { 1200 } else { 200 }];
            for round in 0..3 {
                write_some(&image, served, round, &mut versions);
            }
            holds(&image, served, &versions);
            let facts = info(&image);
            let table = facts["table"].as_str();
            assert!(table.is_some_and(|table| table.starts_with(form)), "{facts}");
            let text = succeed(seekless().arg("info").arg(&image));
            if form.starts_with("sorted") && !made.is_empty() {
                assert!(text.contains("cylinders of the disk") && facts["exceptions"].is_null());
                continue;
            }
            let bits = facts["address_bits"].as_f64();
            assert!(bits.is_some_and(|bits| (1.0..20.0).contains(&bits)), "{facts}");
            assert!(facts["exceptions"].as_u64() <= facts["exceptions_most"].as_u64(), "{facts}");
            assert!(text.contains("bits for the place of a block"), "{text}");
        }
    }
}

#[test]
fn forms_that_cannot_be_are_refused() {
    let dir = temp_dir();
    let image = dir.path().join("x.img");
    for (more, part) in [
        (&["--table", "sorted:0"][..], "unknown table"),
        (&["--table", "compressed:50"], "unknown table"),
        (&["--table", "sorted", "--sparse", "1G"], "--table"),
        (&["--table", "sorted", "--layout", "vlog"], "--table"),
        (&["--heuristic", "cr", "--layout", "vlog"], "--heuristic"),
        (&["--segment", "64k", "--layout", "inplace"], "--segment"),
        (&["--log-size", "1M", "--layout", "lfs"], "--log-size"),
    ] {
        let mut create = seekless();
        create.arg("create").arg(&image).args(["--size", "8M"]);
        if !more.contains(&"--layout") {
            create.args(["--layout", "loge"]);
        }
        let ended = run(create.args(more));
        assert_eq!(ended.code(), 2, "{more:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{more:?}: {}", ended.err);
    }
}
