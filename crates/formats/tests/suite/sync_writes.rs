//! Device writes of each operation under `sync`, beside those of 4.4BSD.
//!
//! A call is counted on a quiet file system: everything before it is durable. *At once* are the
//! writes until its reply, *later* those that the syncer adds. The volume keeps completed writes,
//! so no flush comes between.

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::units::SECONDS;
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Handle, Ino, New, ROOT, RenameHow, Request, SetAttr, by_inode};
use seekless_fs::core::{CoreOptions, Ordering};
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem as _;

const BLOCK: u64 = 8192;
/// Size of a file of all direct blocks.
const DIRECT: u64 = 12 * BLOCK;
/// Longer than any age of a dirty block.
const QUIET: u64 = 100 * SECONDS;

/// A mounted file system.
struct Files(Blocking<Ffs>);

impl Files {
    /// On a volume of several groups, which new directories are spread over.
    fn new(policy: PolicyKind) -> Files {
        let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(40_000)))));
        let options = MkfsOptions { block: BLOCK as u32, fragment: 1024, ..MkfsOptions::default() };
        let mut now = 0;
        mkfs(&mut NodeDisk::new(&mut node, &mut now), &options).expect("it fits");
        let core = CoreOptions { ordering: Ordering::Completion, ..CoreOptions::default() };
        let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
        let mounted = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
        Files(mounted.expect("it is clean"))
    }

    fn run(&mut self, request: Request) -> Answer {
        self.0.run(request).expect("there is room, and memory does not fail")
    }

    fn make(&mut self, dir: Ino, name: &str, what: New) -> Ino {
        let name = Bytes::copy_from_slice(name.as_bytes());
        match self.run(Request::Make { dir, name, what, mode: 0o755, open: false }) {
            Answer::Object(attr, _) => attr.ino,
            other => panic!("{other:?}"),
        }
    }

    /// A file of so many bytes that no lookup keeps.
    fn file(&mut self, name: &str, size: u64) -> Ino {
        let ino = self.make(ROOT, name, New::File);
        for at in (0..size).step_by(BLOCK as usize) {
            self.write(ino, at, (size - at).min(BLOCK));
        }
        self.run(Request::Forget { ino, count: 1 });
        ino
    }

    fn directory(&mut self, name: &str) -> Ino {
        let ino = self.make(ROOT, name, New::Directory);
        self.run(Request::Forget { ino, count: 1 });
        ino
    }

    fn write(&mut self, ino: Ino, at: u64, length: u64) {
        let handle: Handle = by_inode(ino);
        let data = vec![7; length as usize].into();
        self.run(Request::Write { handle, at, data, append: false });
    }

    fn rename(&mut self, name: &str, to_dir: Ino, to_name: &str) {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (name, to_name) = (bytes(name), bytes(to_name));
        let how = RenameHow::Replace;
        self.run(Request::Rename { dir: ROOT, name, to_dir, to_name, how });
    }

    fn unlink(&mut self, name: &str) {
        let name = Bytes::copy_from_slice(name.as_bytes());
        self.run(Request::Unlink { dir: ROOT, name });
    }

    fn set(&mut self, ino: Ino, set: SetAttr) {
        self.run(Request::SetAttr { ino, set });
    }

    fn look_up(&mut self, name: &str) -> Ino {
        let name = Bytes::copy_from_slice(name.as_bytes());
        match self.run(Request::Lookup { dir: ROOT, name }) {
            Answer::Object(attr, _) => attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn writes(&self) -> u64 {
        let stats = self.0.fs().stats();
        stats.iter().find(|one| one.0 == "writes").expect("it is counted").1 as u64
    }

    /// Nothing is dirty afterwards.
    fn quiet(&mut self) {
        self.run(Request::Sync);
        self.0.idle(QUIET);
    }
}

/// An operation, what comes before it, and its writes.
struct Row {
    name: &'static str,
    /// Synchronous writes of 4.4BSD.
    bsd: u64,
    /// Ours until the reply.
    ours: u64,
    /// Why ours differ.
    because: &'static str,
    before: fn(&mut Files),
    call: fn(&mut Files),
}

fn nothing(_: &mut Files) {}

fn size(size: u64) -> SetAttr {
    SetAttr { size: Some(size), ..SetAttr::default() }
}

const ROWS: &[Row] = &[
    Row {
        name: "create",
        bsd: 2,
        ours: 2,
        because: "",
        before: nothing,
        call: |fs| _ = fs.make(ROOT, "new", New::File),
    },
    Row {
        name: "create, the directory grows",
        bsd: 3,
        ours: 3,
        because: "",
        // Names of 255 bytes: one in each sector.
        before: |fs| {
            let long = |n: usize| format!("{n:0>250}");
            (0..2).for_each(|n| _ = fs.file(&long(n), 0));
        },
        call: |fs| _ = fs.make(ROOT, &"x".repeat(250), New::File),
    },
    Row {
        name: "symlink, short",
        bsd: 2,
        ours: 2,
        because: "",
        before: nothing,
        call: |fs| _ = fs.make(ROOT, "new", New::Symlink(Bytes::from_static(b"there"))),
    },
    Row {
        name: "symlink, long",
        bsd: 2,
        ours: 3,
        because: "the text is written before the inode",
        before: nothing,
        call: |fs| _ = fs.make(ROOT, "new", New::Symlink(vec![b'x'; 2000].into())),
    },
    Row {
        name: "mkdir",
        bsd: 5,
        ours: 4,
        because: "the inode is written once, after the body",
        before: nothing,
        call: |fs| _ = fs.make(ROOT, "new", New::Directory),
    },
    Row {
        name: "link",
        bsd: 2,
        ours: 2,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.run(Request::Link { ino, dir: ROOT, name: Bytes::from_static(b"new") });
        },
    },
    Row {
        name: "unlink, a link remains",
        bsd: 1,
        ours: 1,
        because: "",
        before: |fs| {
            let ino = fs.file("old", 100);
            fs.run(Request::Link { ino, dir: ROOT, name: Bytes::from_static(b"other") });
            fs.run(Request::Forget { ino, count: 1 });
        },
        call: |fs| fs.unlink("old"),
    },
    Row {
        name: "unlink, empty file",
        bsd: 1,
        ours: 1,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| fs.unlink("old"),
    },
    Row {
        name: "unlink, direct blocks",
        bsd: 2,
        ours: 2,
        because: "",
        before: |fs| _ = fs.file("old", BLOCK),
        call: |fs| fs.unlink("old"),
    },
    Row {
        name: "unlink, an indirect block",
        bsd: 3,
        ours: 2,
        because: "the inode alone leads to the indirect block",
        before: |fs| _ = fs.file("old", DIRECT + BLOCK),
        call: |fs| fs.unlink("old"),
    },
    Row {
        name: "rmdir",
        bsd: 2,
        ours: 2,
        because: "",
        before: |fs| _ = fs.directory("old"),
        call: |fs| _ = fs.run(Request::RmDir { dir: ROOT, name: Bytes::from_static(b"old") }),
    },
    Row {
        name: "rename within a directory",
        bsd: 3,
        ours: 3,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| fs.rename("old", ROOT, "new"),
    },
    Row {
        name: "rename across directories",
        bsd: 3,
        ours: 3,
        because: "",
        before: |fs| {
            fs.file("old", 0);
            fs.directory("to");
        },
        call: |fs| {
            let to = fs.look_up("to");
            fs.rename("old", to, "new");
        },
    },
    Row {
        name: "rename over a file with content",
        bsd: 4,
        ours: 4,
        because: "",
        before: |fs| {
            fs.file("old", 0);
            fs.file("new", BLOCK);
        },
        call: |fs| fs.rename("old", ROOT, "new"),
    },
    Row {
        name: "rename a directory to another parent",
        bsd: 6,
        ours: 5,
        because: "`..` changes in place, without the inode",
        before: |fs| {
            fs.directory("old");
            fs.directory("to");
        },
        call: |fs| {
            let to = fs.look_up("to");
            fs.rename("old", to, "new");
        },
    },
    Row {
        name: "truncate, direct blocks",
        bsd: 1,
        ours: 1,
        because: "",
        before: |fs| _ = fs.file("old", 4 * BLOCK),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.set(ino, size(0));
        },
    },
    Row {
        name: "truncate to nothing, an indirect block",
        bsd: 2,
        ours: 1,
        because: "the inode alone leads to the indirect block",
        before: |fs| _ = fs.file("old", DIRECT + BLOCK),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.set(ino, size(0));
        },
    },
    Row {
        name: "truncate within an indirect block",
        bsd: 2,
        ours: 1,
        because: "the cleared addresses lie behind the size",
        before: |fs| _ = fs.file("old", DIRECT + 4 * BLOCK),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.set(ino, size(DIRECT + BLOCK));
        },
    },
    Row {
        name: "append, fragment",
        bsd: 0,
        ours: 0,
        because: "",
        before: |fs| _ = fs.file("old", 1024),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.write(ino, 1024, 1024);
        },
    },
    Row {
        name: "append, direct block",
        bsd: 0,
        ours: 0,
        because: "",
        before: |fs| _ = fs.file("old", BLOCK),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.write(ino, BLOCK, BLOCK);
        },
    },
    Row {
        name: "append, first indirect block",
        bsd: 1,
        ours: 1,
        because: "",
        before: |fs| _ = fs.file("old", DIRECT),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.write(ino, DIRECT, BLOCK);
        },
    },
    Row {
        name: "write, two new indirect blocks",
        bsd: 2,
        ours: 2,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.write(ino, DIRECT + BLOCK / 4 * BLOCK, BLOCK);
        },
    },
    Row {
        name: "append, later block of it",
        bsd: 0,
        ours: 0,
        because: "",
        before: |fs| _ = fs.file("old", DIRECT + BLOCK),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.write(ino, DIRECT + BLOCK, BLOCK);
        },
    },
    Row {
        name: "utimes",
        bsd: 1,
        ours: 1,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.set(ino, SetAttr { mtime: Some(5), ..SetAttr::default() });
        },
    },
    Row {
        name: "chmod",
        bsd: 0,
        ours: 0,
        because: "",
        before: |fs| _ = fs.file("old", 0),
        call: |fs| {
            let ino = fs.look_up("old");
            fs.set(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() });
        },
    },
];

/// Writes until the reply and after it.
fn count(row: &Row, policy: PolicyKind) -> (u64, u64) {
    let mut files = Files::new(policy);
    (row.before)(&mut files);
    files.quiet();
    let begin = files.writes();
    (row.call)(&mut files);
    let replied = files.writes();
    files.0.idle(QUIET);
    let end = files.writes();
    let mut now = files.0.now();
    let (mut node, stopped) = files.0.unmount();
    stopped.expect("memory does not fail");
    let found = check(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be read");
    assert!(found.list.is_empty(), "{}: {:?}", row.name, found.list);
    (replied - begin, end - replied)
}

/// Prints the table of decision 090.
#[test]
fn each_operation_writes_what_the_table_says() {
    let mut wrong = Vec::new();
    println!("| operation | 4.4BSD | at once | later | because |");
    for row in ROWS {
        let (at_once, later) = count(row, PolicyKind::Sync);
        println!("| {} | {} | {at_once} | {later} | {} |", row.name, row.bsd, row.because);
        if at_once != row.ours {
            wrong.push(format!("{}: {at_once}, not {}", row.name, row.ours));
        }
        assert_eq!(row.ours == row.bsd, row.because.is_empty(), "{}: say why", row.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

/// The control: without an order no call waits for a write, and the syncer has them all.
#[test]
fn without_order_no_call_writes() {
    for row in ROWS {
        let (at_once, later) = count(row, PolicyKind::Async);
        assert_eq!(at_once, 0, "{}", row.name);
        assert!(later > 0, "{}", row.name);
    }
}
