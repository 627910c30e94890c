//! Hard cases, each in a program of its own that is recorded and checked.

use crate::harness::{PLAIN_USER, Place, Xfs, assert_complete, is_root, python, shell, words};
use seekless_calls::{Entry, Foreign};
use seekless_fs::call::Request;
use seekless_tracer::{Recording, Syncs};
use std::os::unix::process::CommandExt;

/// Runs a case of `edge.py` three ways: as it is, without its syncs, and of another user.
fn check(case: &str) -> Option<Recording> {
    let text = include_str!("edge.py");
    let mut first = None;
    for way in 0..if is_root() { 3 } else { 2 } {
        let place = Place::new();
        let mut command = python(&["-c", text, case])?;
        command.current_dir(place.run()).env("OUTER", place.outer());
        if way == 2 {
            place.give_to(PLAIN_USER);
            command.uid(PLAIN_USER).gid(PLAIN_USER);
        }
        let mut options = place.options();
        options.syncs = if way == 1 { Syncs::Skip } else { Syncs::Real };
        let recording = place.record(options, command);
        assert_complete(&recording, &place);
        assert!(recording.entries.len() > 4, "nothing is on record");
        first = first.or(Some(recording));
    }
    first
}

fn count(recording: &Recording, what: &str) -> usize {
    words(recording).iter().filter(|word| *word == what).count()
}

#[test]
fn descriptors_that_are_passed_on() {
    let Some(recording) = check("passed") else { return };
    assert_eq!(words(&recording), ["make", "write", "write", "write"]);
}

#[test]
fn vectors_and_appends() {
    let Some(recording) = check("vectors") else { return };
    let syncs: Vec<bool> = recording
        .entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Call { call, .. } => match call.request {
                Request::Fsync { data_only, .. } => Some(data_only),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(syncs, [true, false, true]);
}

#[test]
fn files_without_a_name() {
    let Some(recording) = check("unnamed") else { return };
    let is_unnamed =
        |entry: &&Entry| matches!(entry, Entry::Foreign { change: Foreign::Unnamed { .. }, .. });
    assert_eq!(recording.entries.iter().filter(is_unnamed).count(), 21);
    assert_eq!(count(&recording, "link"), 1);
}

#[test]
fn copies_in_the_kernel() {
    check("copies");
}

#[test]
fn modes_of_fallocate() {
    let Some(recording) = check("allocations") else { return };
    assert_eq!(count(&recording, "allocate"), 5);
}

/// Each page that moves becomes zeros first: from the front if a range goes, from the end if one is
/// put in.
#[test]
fn pages_that_fallocate_moves() {
    let Some(recording) = check("moves") else { return };
    let zeros = recording.entries.iter().filter_map(|entry| match entry {
        Entry::Call { call, .. } => match call.request {
            Request::Allocate { at, .. } => Some(at / 4096),
            _ => None,
        },
        _ => None,
    });
    let zeros: Vec<u64> = zeros.collect();
    if zeros.is_empty() {
        return eprintln!("skipped: this file system moves nothing");
    }
    assert_eq!(zeros, [1, 2, 3, 4, 4, 3, 2]);
    let (page, size) = (["allocate", "write"], "setattr");
    let collapsed = [&page[..], &page, &page, &["allocate", size]].concat();
    let inserted = [&[size][..], &page, &page, &page].concat();
    assert_eq!(words(&recording), [vec!["make", "write"], collapsed, inserted].concat());
}

#[test]
fn names_of_all_kinds() {
    check("names");
}

#[test]
fn renames_across_the_border() {
    check("border");
}

#[test]
fn inode_numbers_that_come_again() {
    let Some(recording) = check("reused") else { return };
    assert_eq!(count(&recording, "forget"), 100);
}

#[test]
fn stores_into_mappings() {
    let Some(recording) = check("mapping") else { return };
    assert_eq!(words(&recording).iter().filter(|word| *word == "=mapped").count(), 1);
    let position = |what: &str| words(&recording).iter().position(|word| word == what);
    // The first store is on record before the sync that makes it durable.
    assert!(position("write") < position("fsync"));
}

#[test]
fn threads_that_append() {
    let Some(recording) = check("threads") else { return };
    assert_eq!(count(&recording, "fsync"), 30);
}

#[test]
fn shells_and_pipes() {
    check("shell");
}

#[test]
fn attributes_owners_and_times() {
    let Some(recording) = check("attributes") else { return };
    assert!(count(&recording, "setattr") >= 6);
}

#[test]
fn files_that_are_only_written() {
    let Some(recording) = check("write_only") else { return };
    assert_eq!(count(&recording, "write"), 11);
}

/// A file system that has no clones refuses them, and nothing is on record.
#[test]
fn clones_of_files() {
    check("clones");
}

/// The loop device wants buffers of `O_DIRECT` that begin a sector.
#[test]
fn clones_moves_and_direct_writes_on_xfs() {
    let Some(xfs) = Xfs::new() else { return };
    for (case, writes) in [("clones", 3), ("copies", 7), ("moves", 7), ("direct", 2)] {
        let place = Place::below(&xfs.path());
        let Some(mut command) = python(&["-c", include_str!("edge.py"), case]) else { return };
        command.current_dir(place.run()).env("OUTER", place.outer());
        let recording = place.record(place.options(), command);
        assert_complete(&recording, &place);
        assert_eq!(count(&recording, "write"), writes, "{case}: {:?}", words(&recording));
    }
}

#[test]
fn calls_that_wait_for_other_processes() {
    check("blocked");
}

#[test]
fn programs_that_a_thread_runs() {
    check("execs");
}

#[test]
fn changes_whose_thread_is_killed() {
    check("killed");
}

#[test]
fn names_that_lead_elsewhere_all_the_time() {
    check("storm");
}

#[test]
fn mappings_that_become_writable() {
    let Some(recording) = check("protected") else { return };
    assert_eq!(words(&recording), ["make", "write", "write", "fsync", "write", "fsync"]);
}

#[test]
fn mappings_of_sparse_files() {
    check("sparse");
}

#[test]
fn trees_at_the_start_are_on_record() {
    let place = Place::new();
    let script = "mkdir -p a/b/c; echo one > a/b/one; ln a/b/one a/two; ln -s b a/link; \
                  truncate -s 1000000 a/holes; mkfifo a/pipe; chmod 1777 a/b/c; \
                  echo x | dd of=a/holes bs=1 seek=500000 conv=notrunc status=none; \
                  head -c 300000 /dev/urandom > a/big";
    assert!(shell(script, &place.run()).status().unwrap().success());
    let recording = place.sh("mv a/b z; rm a/two; cp -a z y; rm -r z");
    assert_complete(&recording, &place);
}
