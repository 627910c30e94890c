//! What kernels were seen to leave (`calibrate/sequences.py`, Linux 6.18), as scripts.

use super::*;
use crate::model::Change;

/// `a` has 100 bytes, `b` 5000, both durable.
fn start() -> (Script, [Ino; 2]) {
    let mut script = Script::default();
    let files = [script.file("a"), script.file("b")];
    script.write(files[0], 0, &[b'a'; 100]).write(files[1], 0, &[b'b'; 5000]).begin();
    (script, files)
}

#[test]
fn ext4_commits_the_size_of_an_append_before_its_bytes() {
    // `append a 100; wait; fsync b`: the block has bytes, so the size goes to the inode at once.
    let (mut script, [a, b]) = start();
    script.write(a, 100, &[b'A'; 100]).fsync(b);
    // `append c 10; fsync .`: the block is new and unwritten until the bytes are on the disk.
    let c = script.file("c");
    script.write(c, 0, &[b'C'; 10]).fsync(ROOT);
    for (size, bytes) in [("the size 200", "bytes 100 to 200"), ("the size 10 ", "bytes 0 to 10 ")]
    {
        assert!(allows(&script.under(Model::EXT4), size, bytes));
        assert!(!allows(&script.under(Model::XFS), size, bytes), "it sets the size afterwards");
    }
    script.fsync(a);
    assert!(!allows(&script.under(Model::EXT4), "the size 200", "bytes 100 to 200"));
}

#[test]
fn a_write_may_leave_a_size_between_two_pages() {
    // `append a 4096; wait`: 4096 bytes on ext4, of 4196.
    let (mut script, [a, _]) = start();
    script.write(a, 100, &[b'A'; 4096]);
    for model in Model::ALL {
        let modelled = script.under(model);
        assert!(allows(&modelled, "the size 4096", "the size 4196"), "{}", model.name);
    }
}

#[test]
fn the_page_that_a_truncation_cuts_may_be_written_before_the_size() {
    // `truncate b 50; append d/b 100`: b is 5000 bytes long on ext4, with zeros from 50 to 4096.
    let (mut script, [a, b]) = start();
    script.write(b, 0, b"B").truncate(b, 50);
    for model in Model::ALL {
        let modelled = script.under(model);
        assert!(allows(&modelled, "zeros from 50 to 4096", "the size 50 of"), "{}", model.name);
        // The page is written as a whole.
        let zeros_alone = allows(&modelled, "zeros from 50", "bytes 0 to 1 of");
        assert_eq!(zeros_alone, !model.pages_are_whole, "{}", model.name);
    }
    // A sync of the file covers the zeros, and at the end of a page there are none.
    script.fsync(b).truncate(a, 0);
    let modelled = script.under(Model::POSIX);
    assert_eq!(saying(&modelled, "zeros").len(), 1);
    assert!(modelled.durable(u64::MAX).contains(saying(&modelled, "zeros")[0]));
}

#[test]
fn a_sync_does_not_cover_names_behind_the_last_change_of_the_file() {
    // `truncate a 0; fsync .; append c 4096; fsync a`: c is lost on ext4, as the journal had
    // committed the truncation before c came.
    let (mut script, [a, _]) = start();
    script.file("before");
    script.truncate(a, 0);
    script.file("after");
    script.fsync(a);
    for model in [Model::EXT4, Model::XFS] {
        let modelled = script.under(model);
        let durable = modelled.durable(u64::MAX);
        assert!(durable.contains(saying(&modelled, "\"before\"")[0]), "{}", model.name);
        assert!(!durable.contains(saying(&modelled, "\"after\"")[0]), "{}", model.name);
    }
}

#[test]
fn bytes_in_the_page_that_a_truncation_cut_do_not_need_it() {
    // `truncate a 50; append a 100`: a is 100 bytes long on ext4, and has the new bytes from 50 on.
    let (mut script, [a, b]) = start();
    script.truncate(a, 50).write(a, 50, &[b'C'; 100]);
    for model in Model::ALL {
        let modelled = script.under(model);
        assert!(allows(&modelled, "bytes 50 to 150", "the size 50 of"), "{}", model.name);
        let alone = allows(&modelled, "bytes 50 to 150", "zeros from 50 to 100");
        assert_eq!(alone, !model.pages_are_whole, "{}", model.name);
    }
    // The next page has another block from then on.
    script.truncate(b, 50).write(b, 4096, b"D");
    for model in [Model::EXT4, Model::XFS] {
        let modelled = script.under(model);
        assert!(!allows(&modelled, "bytes 4096 to 4097", "the size 50 of truncate(\"b\""));
    }
}

#[test]
fn a_range_of_zeros_has_whole_pages_and_parts_of_pages() {
    let parts = |at: u64, length: u64| {
        let mut script = Script::default();
        let file = script.file("a");
        script.write(file, 0, &[1; 4 * 4096]).begin();
        let (handle, how) = (by_inode(file), seekless_fs::call::AllocateHow::Punch);
        script.call(Request::Allocate { handle, at, length, how }, Told::Done);
        let recorded = Recorded::read(&script.entries).expect("modelled");
        let zeros = |change: &Change| match change {
            Change::Zeros { from, to, .. } => Some((*from, *to)),
            _ => None,
        };
        recorded.micros.iter().filter_map(|micro| zeros(&micro.change)).collect::<Vec<_>>()
    };
    assert_eq!(parts(0, 8192), [(0, 8192)]);
    assert_eq!(parts(10, 20), [(10, 30)]);
    assert_eq!(parts(10, 4086), [(10, 4096)]);
    assert_eq!(parts(4000, 200), [(4000, 4096), (4096, 4200)]);
    assert_eq!(parts(10, 12000), [(10, 4096), (4096, 8192), (8192, 12010)]);
    assert_eq!(parts(4096, 12287), [(4096, 12288), (12288, 16383)]);
}

#[test]
fn a_sync_of_a_range_covers_no_other_bytes() {
    // `append d/b 4096; sync-write d/b 4096 100`: the first page is zeros on ext4 and XFS.
    let (mut script, [a, b]) = start();
    let range = |ino, at, length| Entry::Foreign {
        change: Foreign::SyncedRange { ino, at, length },
        at: 0,
    };
    script.write(a, 100, &[b'A'; 3996]).write(a, 4096, &[b'B'; 100]);
    script.entries.push(range(a, 4096, 100));
    script.fsync(a).write(b, 0, b"C");
    // The range is that of one sync.
    script.fsync(b).write(a, 0, b"D");
    for model in Model::ALL {
        let modelled = script.under(model);
        let durable = modelled.durable(u64::MAX);
        let is_durable = |text| saying(&modelled, text).iter().all(|&one| durable.contains(one));
        assert!(is_durable("bytes 4096 to 4196") && is_durable("the size 4196"), "{}", model.name);
        assert!(!is_durable("bytes 100 to 4096") && is_durable("bytes 0 to 1 of write(\"b\""));
    }
    script.fsync(a);
    let modelled = script.under(Model::POSIX);
    assert!(modelled.durable(u64::MAX).contains(saying(&modelled, "bytes 100 to 4096")[0]));
}
