//! Recordings of calls come back as they were, and damaged ones are refused.

use super::*;
use crate::Foreign;
use proptest::prelude::*;
use seekless_fs::call::{AllocateHow, New, RenameHow, SeekWhat, SetAttr};

/// One call of each operation, and variants of those that have some.
fn requests() -> Vec<Request> {
    let name = || Bytes::from_static(b"name");
    let (dir, ino, handle, at) = (2, 5, 9 | 1 << 63, 1 << 40);
    let make = |what| Request::Make { dir, name: name(), what, mode: 0o4755, open: true };
    let allocate = |how| Request::Allocate { handle, at, length: 7, how };
    let (to_dir, to_name) = (3, Bytes::from_static(b"\xff"));
    let rename = |how| Request::Rename { dir, name: name(), to_dir, to_name: to_name.clone(), how };
    let some = SetAttr { size: Some(0), mtime: Some(-1), ..SetAttr::default() };
    let all = SetAttr {
        mode: Some(0),
        uid: Some(u32::MAX),
        gid: Some(1),
        size: Some(u64::MAX),
        atime: Some(i64::MIN),
        mtime: Some(i64::MAX),
        handle: Some(0),
    };
    let set = |set| Request::SetAttr { ino, set };
    let data = Bytes::from(vec![7; 10_000]);
    vec![
        Request::Lookup { dir, name: name() },
        Request::Forget { ino, count: 3 },
        Request::Attr { ino },
        set(SetAttr::default()),
        set(some),
        set(all),
        Request::ReadLink { ino },
        make(New::File),
        make(New::Directory),
        make(New::Symlink(Bytes::from_static(b"a/b"))),
        make(New::Symlink(Bytes::new())),
        make(New::Fifo),
        make(New::Socket),
        make(New::CharDevice(0)),
        make(New::BlockDevice(u32::MAX)),
        Request::Link { ino, dir, name: name() },
        Request::Unlink { dir, name: name() },
        Request::RmDir { dir, name: name() },
        rename(RenameHow::Replace),
        rename(RenameHow::NoReplace),
        rename(RenameHow::Exchange),
        Request::Open { ino, truncate: true },
        Request::Release { handle },
        Request::Read { handle, at, length: u32::MAX },
        Request::Write { handle, at, data, append: true },
        Request::Write { handle, at, data: Bytes::new(), append: false },
        Request::List { handle, cookie: 1, most_bytes: 4096 },
        Request::Fsync { ino, data_only: true },
        Request::Sync,
        Request::Trim { from: 4096, to: u64::MAX, least: 8192 },
        Request::Space,
        allocate(AllocateHow::Extend),
        allocate(AllocateHow::KeepSize),
        allocate(AllocateHow::Punch),
        allocate(AllocateHow::Zero { keep_size: false }),
        allocate(AllocateHow::Zero { keep_size: true }),
        Request::Seek { handle, at, what: SeekWhat::Data },
        Request::Seek { handle, at, what: SeekWhat::Hole },
    ]
}

fn replies() -> Vec<Told> {
    vec![
        Told::Done,
        Told::Object(4, u32::MAX, None),
        Told::Object(4, 0, Some(0)),
        Told::Attr(1),
        Told::Opened(u64::MAX),
        Told::Bytes(1 << 40, 3),
        Told::Written(17),
        Told::At(u64::MAX),
        Told::Other,
        Told::Failed(-1),
        Told::Failed(28),
    ]
}

/// Calls of all kinds with replies of all kinds, marks and a begin.
fn sample() -> Vec<Entry> {
    let (mut entries, mut told) = (vec![Entry::Begin], replies().into_iter().cycle());
    for (number, request) in (0..).zip(requests()) {
        let has_reply = !matches!(request, Request::Forget { .. });
        let who = Credentials { uid: number as u32, gid: u32::MAX };
        let call = Call { id: number, who, now: -(number as i64), request };
        entries.push(Entry::Call { call, at: number << 33 });
        if has_reply {
            let told = told.next().expect("a cycle");
            entries.push(Entry::Reply { number, told });
        }
        entries.push(Entry::Mark(format!("é {number}")));
    }
    entries
}

fn bytes(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    write_to(&mut out, 1 << 20, entries).expect("memory");
    out
}

fn read_bytes(bytes: &[u8]) -> Result<(u64, Vec<Entry>), BadCalls> {
    read(Bytes::copy_from_slice(bytes))
}

fn foreign() -> Vec<Entry> {
    let name = Bytes::from_static(b"user.mime/type");
    let changes = [
        Foreign::Unnamed { ino: 7, mode: 0o600, uid: u32::MAX, gid: 0 },
        Foreign::SetAttribute { ino: 7, name: name.clone(), value: Bytes::new() },
        Foreign::RemoveAttribute { ino: 7, name },
    ];
    changes.into_iter().map(|change| Entry::Foreign { change, at: 5 }).collect()
}

#[test]
fn a_recording_comes_back_as_it_was() {
    let plain = sample();
    let with_foreign = [sample(), foreign()].concat();
    for (version, entries) in [(1, Vec::new()), (1, plain), (2, with_foreign)] {
        let written = bytes(&entries);
        assert_eq!(written[8], version);
        assert_eq!(read_bytes(&written), Ok((1 << 20, entries)));
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_found() {
    let whole = bytes(&[&sample()[..40], &foreign()].concat());
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert!(read_bytes(&damaged).is_err(), "byte {at}");
        assert!(read_bytes(&whole[..at]).is_err(), "cut at {at}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert!(matches!(read_bytes(&longer), Err(BadCalls::Damaged { .. })));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let call = |id, request| {
        let (who, now) = Default::default();
        Entry::Call { call: Call { id, who, now, request }, at: 0 }
    };
    let name = |name: &'static [u8]| Request::Unlink { dir: 2, name: Bytes::from_static(name) };
    let long = Request::Unlink { dir: 2, name: Bytes::from(vec![b'x'; 256]) };
    let text = New::Symlink(Bytes::from(vec![b'x'; 4096]));
    let link =
        Request::Make { dir: 2, name: Bytes::from_static(b"l"), what: text, mode: 0, open: false };
    let reply = |number| Entry::Reply { number, told: Told::Done };
    let bad = [
        vec![call(1, Request::Sync)],
        vec![call(0, name(b""))],
        vec![call(0, name(b"a/b"))],
        vec![call(0, name(b"a\0b"))],
        vec![call(0, long)],
        vec![call(0, link)],
        vec![reply(0)],
        vec![call(0, Request::Sync), reply(0), reply(0)],
        vec![call(0, Request::Forget { ino: 3, count: 1 }), reply(0)],
        vec![Entry::Begin, Entry::Begin],
        vec![Entry::Mark(String::new())],
        vec![Entry::Mark("two\nlines".to_owned())],
    ];
    for entries in bad {
        let refused = read_bytes(&bytes(&entries));
        assert!(matches!(refused, Err(BadCalls::Damaged { .. })), "{entries:?}");
    }
    let version = |version| {
        let mut other = bytes(&[]);
        other[8] = version;
        let sum = crc32c(&other[..60]);
        other[60..64].copy_from_slice(&sum.to_le_bytes());
        read_bytes(&other)
    };
    assert_eq!(version(3), Err(BadCalls::Newer(3)));
    assert_eq!(version(2), Err(BadCalls::Damaged { at: 0 }), "nothing in it needs version 2");
    assert_eq!(version(0), Err(BadCalls::Damaged { at: 0 }));
    assert_eq!(read_bytes(b"SKLSTAPE"), Err(BadCalls::Foreign));
}

proptest! {
    /// Whatever a payload holds behind right checksums, reading it ends, and what is read is
    /// written the same way.
    #[test]
    fn any_payload_is_read_or_refused(
        kind in 1..7_u8,
        op in 0..22_u8,
        payload in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..120),
    ) {
        let (with, without) = (foreign(), []);
        let mut all = bytes(if kind == FOREIGN { &with } else { &without });
        all.truncate(HEADER_BYTES);
        record(&mut all, Head { kind, op, ..Head::default() }, &payload).expect("memory");
        let end = Head { kind: END, number: 1, ..Head::default() };
        record(&mut all, end, &[]).expect("memory");
        if let Ok((_, entries)) = read_bytes(&all) {
            prop_assert_eq!(bytes(&entries), all);
        }
    }
}
