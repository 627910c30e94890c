//! The self-check finds what is not on record.

use crate::harness::{Place, assert_complete, assert_sound, shell};
use seekless_calls::Entry;
use seekless_fs::call::Request;
use seekless_tracer::selfcheck::{What, compare};
use std::path::Path;

/// A run that leaves one of each, and its record.
fn run(place: &Place) -> seekless_tracer::Recording {
    let script = "umask 022; echo content > f; ln f g; mkdir d; echo x > d/x; ln -s d s; mkfifo p";
    let recording = place.sh(script);
    assert_complete(&recording, place);
    recording
}

/// What a change that the recorder does not see is found as.
fn found(script: &str) -> (String, What) {
    let place = Place::new();
    let recording = run(&place);
    assert!(shell(script, &place.run()).status().unwrap().success());
    let difference = compare(&recording.entries, &place.run()).unwrap_err();
    (difference.path.to_str().unwrap().to_owned(), difference.what)
}

#[test]
fn each_kind_of_difference_is_found() {
    let at = |path: &str| path.to_owned();
    assert_eq!(found("echo > d/y"), (at("d/y"), What::Unrecorded));
    assert_eq!(found("rm d/x"), (at("d/x"), What::Missing));
    assert_eq!(found("chmod 600 f"), (at("f"), What::Mode(0o644, 0o600)));
    assert_eq!(found("echo more >> f"), (at("f"), What::Size(8, 13)));
    let byte = What::Byte { offset: 3, recorded: b't', found: b'T' };
    assert_eq!(found("printf T | dd of=f bs=1 seek=3 conv=notrunc status=none"), (at("f"), byte));
    assert_eq!(found("cp f h; mv h g"), (at("g"), What::Links));
    assert_eq!(found("ln -sfn e s"), (at("s"), What::Text));
    let (path, what) = found("rm p; echo > p");
    assert_eq!(path, "p");
    assert!(matches!(what, What::Kind(..)), "{what:?}");
}

#[test]
fn a_writer_that_is_no_child_is_found() {
    let place = Place::new();
    let (dir, ready) = (place.run(), place.outer().join("ready"));
    let writer = std::thread::spawn(move || {
        while !ready.exists() {
            std::thread::yield_now();
        }
        std::fs::write(dir.join("f"), b"from elsewhere").unwrap();
        std::fs::write(ready.with_file_name("written"), b"").unwrap();
    });
    let script = "echo here > f; echo > ../ready; while ! [ -e ../written ]; do :; done; echo > g";
    let recording = place.sh(script);
    writer.join().unwrap();
    assert_sound(&recording);
    let difference = compare(&recording.entries, &place.run()).unwrap_err();
    assert_eq!(difference.path, Path::new("f"));
    assert!(difference.to_string().contains("did not start"), "{difference}");
}

#[test]
fn a_record_without_one_write_is_found() {
    let place = Place::new();
    let mut entries = run(&place).entries;
    let is_write = |entry: &Entry| match entry {
        Entry::Call { call, .. } => matches!(call.request, Request::Write { .. }),
        _ => false,
    };
    let at = entries.iter().position(is_write).unwrap();
    entries.remove(at);
    let difference = compare(&entries, &place.run()).unwrap_err();
    assert_eq!(difference.what, What::Size(0, 8));
}
