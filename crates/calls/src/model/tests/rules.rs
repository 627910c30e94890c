//! Each rule forbids what the model without it allows.

use super::*;
use seekless_fs::call::AllocateHow;

/// `a` is there with content; `b` is written, synced if asked, and renamed over it.
fn replaced(synced: bool) -> Script {
    let mut script = Script::default();
    let old = script.file("a");
    script.write(old, 0, b"old").begin();
    let new = script.file("b");
    script.write(new, 0, b"new");
    if synced {
        script.fsync(new);
    }
    script.rename("b", "a");
    script
}

#[test]
fn a_rename_without_a_sync_may_leave_an_empty_file() {
    for model in Model::ALL {
        let modelled = replaced(false).under(model);
        assert!(allows(&modelled, "rename(", "bytes 0 to 3 of write(\"b\""), "{}", model.name);
        // ext4 has allocated the blocks, so the file is as long as it should be, and zeros.
        let is_empty = allows(&modelled, "rename(", "the size 3 after write(\"b\"");
        assert_eq!(is_empty, !model.replace_needs_size, "{}", model.name);
    }
    let waits = replaced(false).under(Model::EXT4.with(Rule::ReplaceNeedsContent));
    assert!(!allows(&waits, "rename(", "bytes 0 to 3 of write(\"b\""), "dioread_lock");
    // A name that is not there yet has no such rule.
    let mut script = Script::default();
    script.begin();
    let new = script.file("b");
    script.write(new, 0, b"new").rename("b", "a");
    for model in Model::ALL {
        assert!(allows(&script.under(model), "rename(", "bytes 0 to 3"), "{}", model.name);
    }
}

#[test]
fn a_synced_file_is_replaced_as_a_whole() {
    for model in Model::ALL {
        let modelled = replaced(true).under(model);
        let rename = saying(&modelled, "rename(")[0];
        let bytes = saying(&modelled, "bytes 0 to 3 of write(\"b\"")[0];
        let states = states(&modelled);
        assert!(states.iter().all(|set| set.contains(bytes)), "{}", model.name);
        assert!(states.iter().any(|set| set.contains(rename)), "{}", model.name);
        assert!(states.iter().any(|set| !set.contains(rename)), "{}", model.name);
    }
}

#[test]
fn the_name_of_a_synced_file_is_durable_where_a_journal_commits_it() {
    let mut script = Script::default();
    script.begin();
    let file = script.file("a");
    script.write(file, 0, b"x").fsync(file);
    let lost = |model| {
        let modelled = script.under(model);
        let name = saying(&modelled, "create(")[0];
        states(&modelled).iter().any(|set| !set.contains(name))
    };
    assert!(lost(Model::POSIX));
    assert!(!lost(Model::EXT4) && !lost(Model::XFS));
    script.fsync(ROOT);
    assert!(states(&script.under(Model::POSIX)).len() == 1, "the directory is synced, too");
}

#[test]
fn a_set_size_does_not_wait_for_bytes_that_were_written_before() {
    // LMDB with MDB_WRITEMAP: the first pages, then a longer file, and no sync.
    let mut script = Script::default();
    script.begin();
    let file = script.file("data.mdb");
    script.write(file, 0, &[1; 8192]).truncate(file, 1 << 20);
    for model in Model::ALL {
        let modelled = script.under(model);
        assert!(allows(&modelled, "the size 1048576", "bytes 0 to 4096"), "{}", model.name);
        let grown = allows(&modelled, "the size 8192", "bytes 4096 to 8192");
        assert_eq!(grown, !model.size_needs_bytes, "{}", model.name);
        // Pages reach the disk in any order.
        assert!(allows(&modelled, "the size 8192", "bytes 0 to 4096"), "{}", model.name);
    }
}

/// For each rule a script, and what is there without what else if the rule is missing.
fn controls() -> Vec<(Rule, Script, &'static str, &'static str)> {
    let mut names = Script::default();
    names.begin();
    names.file("one");
    names.file("two");

    let mut grown = Script::default();
    let file = grown.file("a");
    grown.begin().write(file, 0, &[1; 5000]);

    let mut pages = Script::default();
    let file = pages.file("a");
    pages.begin().write(file, 0, b"first").write(file, 100, b"second");

    let mut cut = Script::default();
    let file = cut.file("a");
    cut.write(file, 0, &[1; 8192]).begin();
    cut.truncate(file, 0).write(file, 4096, b"new");

    let mut unsynced = Script::default();
    unsynced.begin();
    unsynced.file("one");
    unsynced.file("two");

    vec![
        (Rule::MetadataInOrder, names, "\"two\"", "\"one\""),
        (Rule::UnsyncedInOrder, unsynced, "\"two\"", "\"one\""),
        (Rule::SizeNeedsBytes, grown, "the size 5000", "bytes 4096 to 5000"),
        (Rule::ReplaceNeedsContent, replaced(false), "rename(", "bytes 0 to 3 of write(\"b\""),
        (Rule::ReplaceNeedsSize, replaced(false), "rename(", "the size 3 after write(\"b\""),
        (Rule::PagesAreWhole, pages, "bytes 100", "bytes 0 to 5"),
        (Rule::CutBeforeNewBytes, cut, "bytes 4096", "truncate("),
    ]
}

#[test]
fn each_rule_forbids_what_is_allowed_without_it() {
    for (rule, script, there, lost) in controls() {
        // All metadata in order implies it.
        let base = if rule == Rule::UnsyncedInOrder { Model::BTRFS } else { Model::EXT4 };
        let (weaker, stronger) = (base.without(rule), base.with(rule));
        assert!(!weaker.has(rule) && stronger.has(rule));
        assert!(!allows(&script.under(stronger), there, lost), "{rule:?} forbids it");
        assert!(allows(&script.under(weaker), there, lost), "{rule:?} is what forbids it");
        // The rule alone is enough, whatever else is weak.
        assert!(allows(&script.under(Model::POSIX), there, lost), "{rule:?}");
        assert!(!allows(&script.under(Model::POSIX.with(rule)), there, lost), "{rule:?}");
    }
}

#[test]
fn btrfs_takes_a_synced_file_ahead_of_others_with_its_names() {
    let mut script = Script::default();
    let moved = script.file("old");
    script.begin();
    script.file("other");
    script.rename("old", "new").fsync(moved);
    script.file("later");
    let modelled = script.under(Model::BTRFS);
    let states = states(&modelled);
    let [other, rename, later] =
        ["\"other\"", "rename(", "\"later\""].map(|text| saying(&modelled, text)[0]);
    assert!(states.iter().all(|set| set.contains(rename)), "its name is synced with it");
    assert!(states.iter().any(|set| !set.contains(other)), "another one is not");
    assert!(!allows(&modelled, "\"later\"", "\"other\""), "what no sync takes comes in order");
    assert!(allows(&script.under(Model::POSIX), "\"later\"", "\"other\""));
    assert!(states.iter().any(|set| !set.contains(later)));
    // The first use of the new name goes with the second.
    let mut script = Script::default();
    let first = script.file("a");
    script.write(first, 0, b"first").begin();
    script.file("other");
    script.rename("a", "b");
    let second = script.file("a");
    script.write(second, 0, b"second").fsync(second);
    let modelled = script.under(Model::BTRFS);
    let durable = modelled.durable(u64::MAX);
    assert!(durable.contains(saying(&modelled, "rename(")[0]));
    assert!(!durable.contains(saying(&modelled, "\"other\"")[0]));
}

#[test]
fn what_is_durable_before_is_no_need() {
    let mut script = Script::default();
    script.begin();
    for _ in 0..100 {
        let file = script.file("a");
        script.fsync(file).unlink("a").fsync(ROOT);
    }
    script.file("b");
    let modelled = script.under(Model::BTRFS);
    let last = *saying(&modelled, "\"b\"").last().expect("it is made");
    assert!(modelled.needs(last).len() < 5, "{:?}", modelled.needs(last));
}

#[test]
fn syncs_cover_less_where_the_scope_is_the_object() {
    let mut script = Script::default();
    script.begin();
    script.file("other");
    let file = script.file("a");
    script.write(file, 0, b"x").fsync(file);
    let weaker = Model { file_sync: super::super::Covers::Object, ..Model::EXT4 };
    let lost = |model| {
        let modelled = script.under(model);
        let name = saying(&modelled, "\"other\"")[0];
        states(&modelled).iter().any(|set| !set.contains(name))
    };
    assert!(!lost(Model::EXT4));
    // What the size needs is durable with it, so the names are lost only if they have no order.
    assert!(!lost(weaker) && lost(weaker.without(Rule::MetadataInOrder)));

    let mut script = Script::default();
    let dir = script.make(ROOT, "dir", New::Directory);
    script.begin();
    script.file("other");
    script.make(dir, "in", New::File);
    script.fsync(dir);
    let weaker = Model { directory_sync: super::super::Covers::Object, ..Model::EXT4 }
        .without(Rule::MetadataInOrder);
    let lost = |model| {
        let modelled = script.under(model);
        let name = saying(&modelled, "\"other\"")[0];
        states(&modelled).iter().any(|set| !set.contains(name))
    };
    assert!(!lost(Model::EXT4) && lost(weaker));
}

#[test]
fn a_sync_without_anything_to_commit_commits_nothing() {
    let mut script = Script::default();
    let file = script.file("a");
    script.write(file, 0, &[0; 4096]).begin();
    script.file("other");
    script.fsync(file);
    let modelled = script.under(Model::EXT4);
    assert_eq!(states(&modelled).len(), 2, "the name `other` may be lost");
    // Bytes in their old place change times only, which `fdatasync` leaves out.
    script.write(file, 0, b"x").call(Request::Fsync { ino: file, data_only: true }, Told::Done);
    assert_eq!(states(&script.under(Model::EXT4)).len(), 2);
    script.write(file, 0, b"y").fsync(file);
    assert_eq!(states(&script.under(Model::EXT4)).len(), 1);
}

#[test]
fn a_sync_covers_what_was_complete_when_it_was_asked() {
    let mut script = Script::default();
    let file = script.file("a");
    script.write(file, 0, &[0; 4096]).begin();
    let data = |text: &'static [u8]| Bytes::from_static(text);
    let write =
        |at, text| Request::Write { handle: by_inode(file), at, data: data(text), append: false };
    let late = script.ask(write(0, b"late"));
    let sync = script.ask(Request::Fsync { ino: file, data_only: false });
    script.entries.push(Entry::Reply { number: late, told: Told::Written(4) });
    let before = script.entries.len() as u64;
    script.entries.push(Entry::Reply { number: sync, told: Told::Done });
    let modelled = script.under(Model::EXT4);
    let bytes = saying(&modelled, "bytes 0 to 4 of")[0];
    assert!(!modelled.durable(u64::MAX).contains(bytes), "its reply came after the sync was asked");
    script.fsync(file);
    let modelled = script.under(Model::EXT4);
    assert!(modelled.durable(u64::MAX).contains(bytes));
    assert!(!modelled.durable(before).contains(bytes), "it counts from the reply on");
}

#[test]
fn a_file_that_is_cut_needs_the_cut_only_where_it_was() {
    let mut script = Script::default();
    let file = script.file("a");
    script.write(file, 0, &[1; 3 * 4096]).begin();
    let how = AllocateHow::Punch;
    let handle = by_inode(file);
    script.call(Request::Allocate { handle, at: 0, length: 4096, how }, Told::Done);
    script.write(file, 0, b"in the hole").write(file, 8192, b"behind it");
    let modelled = script.under(Model::EXT4);
    assert!(!allows(&modelled, "bytes 0 to 11", "zeros"));
    assert!(allows(&modelled, "bytes 8192", "zeros"));
}

#[test]
fn no_directory_comes_to_lie_in_itself() {
    let mut script = Script::default();
    let outer = script.make(ROOT, "outer", New::Directory);
    let inner = script.make(outer, "inner", New::Directory);
    script.begin();
    let name = Bytes::from_static;
    let how = RenameHow::Replace;
    let up = Request::Rename {
        dir: outer,
        name: name(b"inner"),
        to_dir: ROOT,
        to_name: name(b"top"),
        how,
    };
    let down = Request::Rename {
        dir: ROOT,
        name: name(b"outer"),
        to_dir: inner,
        to_name: name(b"outer"),
        how,
    };
    script.call(up, Told::Done).call(down, Told::Done);
    for model in Model::ALL {
        let modelled = script.under(model);
        assert!(!allows(&modelled, "\"top/outer\"", "\"outer/inner\", \"top\""), "{}", model.name);
        let mut trees = modelled.trees();
        trees.advance(u64::MAX);
        for set in states(&modelled) {
            let tree = trees.tree(|index| set.contains(index));
            assert_eq!(tree.found().len(), 2, "both are found: {:?}", tree.found());
        }
    }
}
