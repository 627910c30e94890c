//! A served volume as a block device of the kernel: nbdfuse makes it a file, a loop device makes
//! the file a disk. A database runs on top of it.

use crate::each_layout;
use crate::harness::{
    Helper, Server, check_is_clean, command, create, eventually, installed, run, skip, succeed,
    temp_dir,
};
use crate::require;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

each_layout!(sqlite_keeps_every_acknowledged_transaction);

/// nbdfuse, a loop device over its file, and where it is mounted. Dismantled when dropped, in any
/// state.
#[derive(Debug)]
pub struct Stack {
    fuse_dir: PathBuf,
    mount_dir: PathBuf,
    device: PathBuf,
    fuse: Option<Helper>,
    mounted: bool,
}

impl Stack {
    /// True if this machine allows it; else prints the reason.
    pub fn possible() -> bool {
        for program in ["nbdfuse", "losetup", "fusermount3", "mount", "umount"] {
            if !installed(program) {
                skip(&format!("{program} is not installed"));
                return false;
            }
        }
        if !rustix::process::geteuid().is_root() {
            skip("loop devices need root rights");
            return false;
        }
        if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
            skip("no FUSE here");
            return false;
        }
        if !run(command("losetup").arg("--find")).status.success() {
            skip("no loop devices here");
            return false;
        }
        true
    }

    /// Attaches the export to a loop device.
    pub fn new(dir: &Path, uri: &str) -> Stack {
        let fuse_dir = dir.join("fuse");
        let mount_dir = dir.join("mnt");
        fs::create_dir_all(&fuse_dir).expect("directory");
        fs::create_dir_all(&mount_dir).expect("directory");
        let mut nbdfuse = command("nbdfuse");
        nbdfuse.arg(&fuse_dir).arg(uri).stdout(Stdio::null()).stderr(Stdio::null());
        let fuse = Helper(nbdfuse.spawn().expect("nbdfuse starts"));
        let mut stack = Stack {
            fuse_dir: fuse_dir.clone(),
            mount_dir,
            device: PathBuf::new(),
            fuse: Some(fuse),
            mounted: false,
        };
        let file = fuse_dir.join("nbd");
        eventually("nbdfuse", || file.exists());
        let device = succeed(command("losetup").args(["--find", "--show"]).arg(&file));
        stack.device = PathBuf::from(device.trim());
        stack
    }

    /// The loop device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Where [`Stack::mount`] mounts it.
    pub fn root(&self) -> &Path {
        &self.mount_dir
    }

    /// Mounts the file system on the device.
    pub fn mount(&mut self) {
        succeed(command("mount").arg(&self.device).arg(&self.mount_dir));
        self.mounted = true;
    }

    /// Unmounts it.
    pub fn unmount(&mut self) {
        succeed(command("umount").arg(&self.mount_dir));
        self.mounted = false;
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.mounted {
            run(command("umount").arg("--lazy").arg(&self.mount_dir));
        }
        if !self.device.as_os_str().is_empty() {
            run(command("losetup").arg("--detach").arg(&self.device));
        }
        run(command("fusermount3").args(["-u", "-z"]).arg(&self.fuse_dir));
        self.fuse = None;
    }
}

fn sqlite(database: &Path, statement: &str) -> crate::harness::Ended {
    run(command("sqlite3").args(["-batch", "-bail"]).arg(database).arg(statement))
}

/// Modes of commit that promise durability. With a journal that is deleted, `FULL` is not enough:
/// it does not wait for the directory.
const COMMITS: [&str; 3] = [
    "PRAGMA journal_mode=DELETE; PRAGMA synchronous=EXTRA;",
    "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL;",
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
];

/// The server dies while SQLite commits, again and again. Every transaction that SQLite reported
/// as committed must be there afterwards.
fn sqlite_keeps_every_acknowledged_transaction(layout: &str) {
    require!("sqlite3", "mkfs.ext4");
    if !Stack::possible() {
        return;
    }
    let dir = temp_dir();
    let image = create(dir.path(), layout, "64M");
    let mut acknowledged = 0;
    for (round, pragmas) in COMMITS.into_iter().enumerate() {
        let server = Server::image(&image);
        let mut stack = Stack::new(dir.path(), server.uri());
        if round == 0 {
            succeed(command("mkfs.ext4").args(["-q", "-F"]).arg(stack.device()));
        }
        stack.mount();
        let database = stack.root().join("test.db");
        if round == 0 {
            let made = sqlite(&database, "CREATE TABLE t (n INTEGER PRIMARY KEY, v TEXT);");
            assert!(made.status.success(), "{made:?}");
        }
        verify(&database, acknowledged);
        let pid = server.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(700 + 300 * round as u64));
            server.kill();
        });
        acknowledged += commit_until_it_fails(&database, pragmas, acknowledged);
        killer.join().expect("the killer ends");
        assert!(acknowledged > 0, "server {pid} was killed before anything was committed");
    }
    let server = Server::image(&image);
    let mut stack = Stack::new(dir.path(), server.uri());
    stack.mount();
    verify(&stack.root().join("test.db"), acknowledged);
    stack.unmount();
    succeed(command("e2fsck").args(["-f", "-n"]).arg(stack.device()));
    drop(stack);
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

/// Commits numbered rows until SQLite reports an error; returns the number that it acknowledged.
fn commit_until_it_fails(database: &Path, pragmas: &str, first: u64) -> u64 {
    for number in 0.. {
        let statement = format!(
            "{pragmas} INSERT OR REPLACE INTO t VALUES ({}, hex(randomblob(500)));",
            first + number
        );
        if !sqlite(database, &statement).status.success() {
            return number;
        }
    }
    unreachable!("the server is killed sooner or later")
}

fn verify(database: &Path, acknowledged: u64) {
    let whole = sqlite(database, "PRAGMA integrity_check;");
    assert_eq!(whole.out.trim(), "ok", "{whole:?}");
    let count = format!("SELECT count(*) FROM t WHERE n < {acknowledged};");
    let found = sqlite(database, &count);
    assert_eq!(found.out.trim(), acknowledged.to_string(), "{found:?}");
}
