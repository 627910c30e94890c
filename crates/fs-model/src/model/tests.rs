use super::*;
use bytes::Bytes;
use seekless_fs::call::{FileKind, New, RenameHow, SetAttr};

/// A model and a clock that moves by one with each call.
struct Fixture {
    model: Model,
    now: Timestamp,
}

impl Fixture {
    fn new() -> Fixture {
        let limits = Limits { most_bytes: 1 << 20, most_links: 5, ..Limits::default() };
        Fixture { model: Model::new(limits), now: 0 }
    }

    fn run(&mut self, request: Request) -> Result<Answer, Errno> {
        self.now += 1;
        let who = Credentials { uid: 7, gid: 8 };
        self.model.run(Call { id: 1, who, now: self.now, request }).result
    }

    fn make(&mut self, dir: Ino, name: &'static str, what: New) -> Ino {
        let request = Request::Make { dir, name: name.into(), what, mode: 0o755, open: false };
        match self.run(request) {
            Ok(Answer::Object(attr, None)) => attr.ino,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn rename(&mut self, from: (Ino, &'static str), to: (Ino, &'static str)) -> Result<(), Errno> {
        self.rename_as(from, to, RenameHow::Replace)
    }

    fn rename_as(
        &mut self,
        (dir, name): (Ino, &'static str),
        (to_dir, to_name): (Ino, &'static str),
        how: RenameHow,
    ) -> Result<(), Errno> {
        let (name, to_name) = (name.into(), to_name.into());
        self.run(Request::Rename { dir, name, to_dir, to_name, how }).map(drop)
    }

    fn open(&mut self, ino: Ino) -> Handle {
        match self.run(Request::Open { ino, truncate: false }) {
            Ok(Answer::Opened(handle)) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, handle: Handle, at: u64, data: &'static [u8]) {
        let data = Bytes::from(data);
        let written = self.run(Request::Write { handle, at, data: data.clone(), append: false });
        assert_eq!(written, Ok(Answer::Written(data.len() as u32)));
    }

    fn links(&self, ino: Ino) -> u32 {
        self.model.node(ino).map_or(0, |node| node.links)
    }
}

#[test]
fn directories_count_the_directories_in_them() {
    let mut f = Fixture::new();
    let a = f.make(ROOT, "a", New::Directory);
    let b = f.make(a, "b", New::Directory);
    assert_eq!((f.links(ROOT), f.links(a), f.links(b)), (3, 3, 2));
    assert_eq!(f.rename((a, "b"), (ROOT, "b")), Ok(()));
    assert_eq!((f.links(ROOT), f.links(a)), (4, 2));
    assert_eq!(f.rename((ROOT, "a"), (ROOT, "b")), Ok(()), "b is empty");
    assert_eq!((f.links(ROOT), f.links(b)), (3, 0));
}

#[test]
fn renames_refuse_what_would_break_the_tree() {
    let mut f = Fixture::new();
    let a = f.make(ROOT, "a", New::Directory);
    let b = f.make(a, "b", New::Directory);
    f.make(ROOT, "f", New::File);
    assert_eq!(f.rename((ROOT, "a"), (b, "x")), Err(Errno::Inval));
    assert_eq!(f.rename((a, "b"), (ROOT, "a")), Err(Errno::NotEmpty));
    assert_eq!(f.rename((ROOT, "f"), (ROOT, "a")), Err(Errno::IsDir));
    assert_eq!(f.rename((ROOT, "a"), (ROOT, "f")), Err(Errno::NotDir));
    assert_eq!(f.rename((ROOT, "g"), (ROOT, "f")), Err(Errno::NoEnt));
    let taken = f.rename_as((ROOT, "f"), (ROOT, "a"), RenameHow::NoReplace);
    assert_eq!(taken, Err(Errno::Exist));
    let inside = f.rename_as((ROOT, "a"), (a, "b"), RenameHow::Exchange);
    assert_eq!(inside, Err(Errno::Inval));
    let around = f.rename_as((a, "b"), (ROOT, "a"), RenameHow::Exchange);
    assert_eq!(around, Err(Errno::Inval));
}

#[test]
fn an_exchange_moves_both_and_their_links() {
    let mut f = Fixture::new();
    let a = f.make(ROOT, "a", New::Directory);
    let b = f.make(ROOT, "b", New::Directory);
    let inner = f.make(a, "x", New::Directory);
    let file = f.make(b, "x", New::File);
    assert_eq!(f.rename_as((a, "x"), (b, "x"), RenameHow::Exchange), Ok(()));
    assert_eq!((f.links(a), f.links(b)), (2, 3));
    assert_eq!(f.model.at("a/x").map(|attr| attr.ino), Some(file));
    assert_eq!(f.model.at("b/x").map(|attr| attr.ino), Some(inner));
}

#[test]
fn two_names_of_one_file_stay_when_one_is_renamed_to_the_other() {
    let mut f = Fixture::new();
    let file = f.make(ROOT, "f", New::File);
    assert!(f.run(Request::Link { ino: file, dir: ROOT, name: "g".into() }).is_ok());
    let before = f.model.at("f");
    assert_eq!(f.rename((ROOT, "f"), (ROOT, "g")), Ok(()));
    assert_eq!((f.model.at("f"), f.links(file)), (before, 2));
}

#[test]
fn links_end_at_the_limit() {
    let mut f = Fixture::new();
    let file = f.make(ROOT, "f", New::File);
    for name in ["1", "2", "3", "4"] {
        assert!(f.run(Request::Link { ino: file, dir: ROOT, name: name.into() }).is_ok());
    }
    let more = f.run(Request::Link { ino: file, dir: ROOT, name: "5".into() });
    assert_eq!(more, Err(Errno::MLink));
    let dir = f.run(Request::Link { ino: ROOT, dir: ROOT, name: "d".into() });
    assert_eq!(dir, Err(Errno::Perm));
    for name in ["a", "b", "c"] {
        f.make(ROOT, name, New::Directory);
    }
    let (name, what) = ("d".into(), New::Directory);
    let full = f.run(Request::Make { dir: ROOT, name, what, mode: 0, open: false });
    assert_eq!(full, Err(Errno::MLink));
}

#[test]
fn an_object_goes_with_its_last_name_handle_and_lookup() {
    let mut f = Fixture::new();
    let file = f.make(ROOT, "f", New::File);
    let handle = f.open(file);
    f.write(handle, 0, b"here");
    assert_eq!(f.run(Request::Unlink { dir: ROOT, name: "f".into() }), Ok(Answer::Done));
    let link = f.run(Request::Link { ino: file, dir: ROOT, name: "g".into() });
    assert_eq!(link, Err(Errno::NoEnt));
    assert_eq!(f.run(Request::Forget { ino: file, count: 1 }), Ok(Answer::Done));
    let read = f.run(Request::Read { handle, at: 0, length: 9 });
    assert_eq!(read, Ok(Answer::Bytes("here".into())));
    assert_eq!(f.run(Request::Release { handle }), Ok(Answer::Done));
    assert_eq!(f.run(Request::Attr { ino: file }), Err(Errno::Stale));
    assert_eq!(f.run(Request::Release { handle }), Err(Errno::BadF));
}

#[test]
fn nothing_is_made_in_a_directory_that_was_removed() {
    let mut f = Fixture::new();
    let dir = f.make(ROOT, "d", New::Directory);
    let handle = f.open(dir);
    assert_eq!(f.run(Request::RmDir { dir: ROOT, name: "d".into() }), Ok(Answer::Done));
    let (name, what) = ("x".into(), New::File);
    let made = f.run(Request::Make { dir, name, what, mode: 0, open: false });
    assert_eq!(made, Err(Errno::NoEnt));
    let listed = f.run(Request::List { handle, cookie: 0, most_bytes: 4096 });
    assert_eq!(listed, Ok(Answer::Entries(Vec::new())));
}

#[test]
fn a_file_that_shrinks_and_grows_reads_zeros() {
    let mut f = Fixture::new();
    let file = f.make(ROOT, "f", New::File);
    let handle = f.open(file);
    f.write(handle, 4090, b"0123456789");
    for size in [4095, 4100] {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        assert!(f.run(Request::SetAttr { ino: file, set }).is_ok());
    }
    let read = f.run(Request::Read { handle, at: 4090, length: 100 });
    assert_eq!(read, Ok(Answer::Bytes(Bytes::from(&b"01234\0\0\0\0\0"[..]))));
    let set = SetAttr { size: Some((1 << 20) + 1), ..SetAttr::default() };
    assert_eq!(f.run(Request::SetAttr { ino: file, set }), Err(Errno::FBig));
}

#[test]
fn changes_end_set_id_bits() {
    let mut f = Fixture::new();
    let file = f.make(ROOT, "f", New::File);
    let mode = |f: &mut Fixture, mode: u16| {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        assert!(f.run(Request::SetAttr { ino: file, set }).is_ok());
    };
    let handle = f.open(file);
    mode(&mut f, 0o6755);
    f.write(handle, 0, b"x");
    assert_eq!(f.model.at("f").map(|attr| attr.mode), Some(0o755));
    mode(&mut f, 0o6644);
    let set = SetAttr { gid: Some(9), ..SetAttr::default() };
    assert!(f.run(Request::SetAttr { ino: file, set }).is_ok());
    assert_eq!(f.model.at("f").map(|attr| attr.mode), Some(0o2644));
}

#[test]
fn a_new_owner_ends_set_id_bits_of_all_but_directories() {
    for (what, left) in [(New::File, 0o711), (New::Fifo, 0o711), (New::Directory, 0o6711)] {
        let mut f = Fixture::new();
        let ino = f.make(ROOT, "x", what.clone());
        for set in [
            SetAttr { mode: Some(0o6711), ..SetAttr::default() },
            SetAttr { uid: Some(9), ..SetAttr::default() },
        ] {
            assert!(f.run(Request::SetAttr { ino, set }).is_ok());
        }
        assert_eq!(f.model.at("x").map(|attr| attr.mode), Some(left), "{what:?}");
    }
}

#[test]
fn lists_go_on_behind_a_cookie() {
    let mut f = Fixture::new();
    for name in ["one", "two", "three", "four"] {
        f.make(ROOT, name, New::File);
    }
    let handle = f.open(ROOT);
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let Ok(Answer::Entries(found)) = f.run(Request::List { handle, cookie, most_bytes: 70 })
        else {
            panic!("the directory is listed");
        };
        let Some(last) = found.last() else { break };
        assert!(found.len() <= 2, "{found:?}");
        cookie = last.cookie;
        names.extend(found.into_iter().map(|entry| (entry.name, entry.kind)));
    }
    let dots = [(".", FileKind::Directory), ("..", FileKind::Directory)];
    let files = ["one", "two", "three", "four"].map(|name| (name, FileKind::File));
    let expected: Vec<(Bytes, FileKind)> =
        dots.into_iter().chain(files).map(|(name, kind)| (name.into(), kind)).collect();
    assert_eq!(names, expected);
}
