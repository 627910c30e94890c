//! File systems of the program through the kernel: made, mounted, used by other programs,
//! unmounted, checked, and mounted again.

use crate::harness::{
    Helper, command, eventually, installed, pattern, run, seekless, skip, succeed, temp_dir,
};
use crate::require;
use crate::tree::Tree;
use seekless_fs::policy::PolicyKind;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;
use tempfile::TempDir;

/// Where file systems cannot be mounted the tests say so and pass.
pub fn possible() -> bool {
    let lacking = if !rustix::process::geteuid().is_root() {
        "root rights"
    } else if !Path::new("/dev/fuse").exists() {
        "/dev/fuse"
    } else if !installed("fusermount3") {
        "fusermount3"
    } else {
        return true;
    };
    skip(&format!("mounting needs {lacking}"));
    false
}

/// The names of all policies.
pub fn policies() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().map(PolicyKind::name)
}

/// True if a policy writes transactions of the volume.
pub fn has_transactions(policy: &str) -> bool {
    PolicyKind::ALL.iter().any(|one| one.name() == policy && one.wants_transactions())
}

/// The name that stands for VLFS in place of a layout with FFS on it.
pub const VLFS: &str = "vlfs";

/// True if a policy runs on FFS on this layout, or on [`VLFS`].
pub fn runs_on(policy: &str, layout: &str) -> bool {
    layout != VLFS || ["async", "sync"].contains(&policy)
}

/// The names of those that need one device: a disk that crashes on demand is one.
pub fn policies_of_one_device() -> impl Iterator<Item = &'static str> {
    PolicyKind::ALL.into_iter().filter(|one| !one.has_own_log_volume()).map(PolicyKind::name)
}

/// A file system in an image, and a directory to mount it at.
pub struct Disk {
    pub dir: TempDir,
    image: PathBuf,
    /// The device of its log, if that has one.
    journal: Option<PathBuf>,
}

impl Disk {
    /// On a volume of this layout; `raw` means on a file as it is, and [`VLFS`] that file system.
    pub fn new(layout: &str, size: &str, more: &[&str]) -> Disk {
        Disk::with_policy("async", layout, size, more)
    }

    /// One that is made for a policy, on a volume of this layout.
    pub fn with_policy(policy: &str, layout: &str, size: &str, more: &[&str]) -> Disk {
        let dir = temp_dir();
        // A small volume of other layouts has no transactions, or too small ones.
        let layout = if has_transactions(policy) { "loge" } else { layout };
        let journal = policy.starts_with("wafs-2").then(|| dir.path().join("log.img"));
        let disk = Disk { image: dir.path().join("disk.img"), journal, dir };
        let mut mkfs = seekless();
        mkfs.arg("mkfs").arg(disk.image()).args(["--size", size]).args(more);
        match layout {
            VLFS => mkfs.args(["--fs", VLFS]),
            _ => mkfs.args(["--fs", "ffs", "--policy", policy]).args(disk.journal()),
        };
        if disk.journal.is_some() {
            mkfs.args(["--journal-size", "4M"]);
        }
        if !["raw", VLFS].contains(&layout) {
            mkfs.args(["--layout", layout]);
        }
        succeed(&mut mkfs);
        fs::create_dir(disk.point()).expect("mkdir");
        disk
    }

    /// One that is there.
    pub fn at(image: &Path) -> Disk {
        let disk = Disk { image: image.to_owned(), journal: None, dir: temp_dir() };
        fs::create_dir(disk.point()).expect("mkdir");
        disk
    }

    pub fn image(&self) -> PathBuf {
        self.image.clone()
    }

    /// The options that name the device of the log.
    pub fn journal(&self) -> Vec<OsString> {
        let name = |path: &PathBuf| [OsString::from("--journal"), path.into()];
        self.journal.iter().flat_map(name).collect()
    }

    pub fn point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub fn mount(&self, more: &[&str]) -> Mounted {
        self.mount_as(&self.point(), more)
    }

    pub fn mount_at(&self, point: &Path) -> Mounted {
        self.mount_as(point, &[])
    }

    fn mount_as(&self, point: &Path, more: &[&str]) -> Mounted {
        let mut mount = seekless();
        mount.arg("mount").arg(self.image()).arg(point).args(self.journal()).args(more);
        let line = succeed(&mut mount);
        assert!(line.contains("mounted at"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        Mounted { point: point.to_owned() }
    }

    pub fn fsck(&self, more: &[&str]) -> (i32, String) {
        let ended = run(seekless().arg("fsck").arg(self.image()).args(self.journal()).args(more));
        (ended.code(), ended.out + &ended.err)
    }

    #[track_caller]
    pub fn is_clean(&self) {
        let (code, said) = self.fsck(&[]);
        assert_eq!(code, 0, "{said}");
    }
}

/// A mount that ends with its test.
pub struct Mounted {
    pub point: PathBuf,
}

impl Mounted {
    pub fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    /// A process that another test starts holds what this one has closed, until it runs its
    /// program. So a mount may be in use for a moment.
    pub fn unmount(self) {
        eventually("the unmount", || {
            let ended = run(command("fusermount3").arg("-u").arg(&self.point));
            assert!(ended.status.success() || ended.err.contains("busy"), "{}", ended.err);
            ended.status.success()
        });
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a test that ended well nothing is mounted.
        let _ = command("umount").arg("-l").arg(&self.point).stderr(Stdio::null()).status();
    }
}

#[test]
fn files_survive_an_unmount() {
    if !possible() {
        return;
    }
    for (layout, more) in [
        ("raw", &["--fragment", "1k"][..]),
        ("inplace", &[]),
        ("vlog", &[]),
        ("dcd", &["--block", "4k"]),
        ("loge", &["--fragment", "2k"]),
        ("lfs", &["--block", "4k", "--fragment", "1k"]),
        ("wolf", &[]),
        ("hylog", &[]),
        (VLFS, &[]),
    ] {
        let disk = Disk::new(layout, "64M", more);
        let mounted = disk.mount(&[]);
        write_some(&mounted);
        has_some(&mounted, layout != VLFS);
        mounted.unmount();
        disk.is_clean();
        let mounted = disk.mount(&[]);
        has_some(&mounted, layout != VLFS);
        fs::remove_dir_all(mounted.path("a")).expect("remove");
        mounted.unmount();
        disk.is_clean();
    }
}

/// Makes one object of each kind.
fn write_some(mounted: &Mounted) {
    let at = |name| mounted.path(name);
    fs::create_dir_all(at("a/b/c")).expect("mkdir");
    fs::write(at("a/small"), "small").expect("write");
    fs::write(at("a/b/large"), pattern(1, 5_000_000)).expect("write");
    fs::rename(at("a/small"), at("a/b/c/moved")).expect("rename");
    fs::hard_link(at("a/b/large"), at("linked")).expect("link");
    symlink("a/b/c/moved", at("short")).expect("symlink");
    let long = "x/".repeat(1000);
    symlink(&long, at("long")).expect("symlink");
    let sparse = File::create(at("sparse")).expect("create");
    sparse.write_all_at(b"end", 300_000_000).expect("write");
    sparse.write_all_at(b"middle", 5_000_000).expect("write");
    fs::write(at("gone"), "gone").expect("write");
    fs::remove_file(at("gone")).expect("unlink");
    fs::set_permissions(at("linked"), fs::Permissions::from_mode(0o640)).expect("chmod");
}

/// `shows_holes`: a file of holes takes little space.
fn has_some(mounted: &Mounted, shows_holes: bool) {
    let at = |name| mounted.path(name);
    assert_eq!(fs::read(at("a/b/c/moved")).expect("read"), b"small");
    assert_eq!(fs::read(at("short")).expect("read"), b"small");
    assert!(fs::read(at("a/b/large")).expect("read") == pattern(1, 5_000_000));
    let linked = fs::metadata(at("linked")).expect("stat");
    assert_eq!((linked.nlink(), linked.mode() & 0o7777), (2, 0o640));
    assert_eq!(linked.ino(), fs::metadata(at("a/b/large")).expect("stat").ino());
    let long = fs::read_link(at("long")).expect("readlink");
    assert_eq!(long.as_os_str().len(), 2000);
    let sparse = File::open(at("sparse")).expect("open");
    let found = sparse.metadata().expect("stat");
    assert_eq!(found.size(), 300_000_003);
    assert!(found.blocks() < 2000 || !shows_holes, "{} sectors", found.blocks());
    let mut bytes = [9; 8];
    sparse.read_exact_at(&mut bytes, 4_999_999).expect("read");
    assert_eq!(&bytes, b"\0middle\0");
    sparse.read_exact_at(&mut bytes[..3], 300_000_000).expect("read");
    assert_eq!(&bytes[..3], b"end");
    assert!(!at("gone").exists());
    let mut names: Vec<_> = fs::read_dir(&mounted.point)
        .expect("list")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["a", "linked", "long", "short", "sparse"]);
}

#[test]
fn ten_thousand_files_in_one_directory() {
    if !possible() {
        return;
    }
    takes_ten_thousand(&Disk::new("inplace", "256M", &["--bytes-per-inode", "8k"]));
    takes_ten_thousand(&Disk::new(VLFS, "256M", &[]));
}

fn takes_ten_thousand(disk: &Disk) {
    const FILES: usize = 10_000;
    let mounted = disk.mount(&[]);
    let begin = Instant::now();
    fs::create_dir(mounted.path("many")).expect("mkdir");
    let name = |n: usize| format!("many/file number {n}");
    for n in 0..FILES {
        fs::write(mounted.path(&name(n)), n.to_string()).expect("write");
    }
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    assert_eq!(fs::read_dir(mounted.path("many")).expect("list").count(), FILES);
    for n in 0..FILES {
        assert_eq!(fs::read_to_string(mounted.path(&name(n))).expect("read"), n.to_string());
    }
    for n in (0..FILES).filter(|n| n % 3 != 0) {
        fs::remove_file(mounted.path(&name(n))).expect("unlink");
    }
    assert_eq!(fs::read_dir(mounted.path("many")).expect("list").count(), FILES.div_ceil(3));
    fs::remove_dir_all(mounted.path("many")).expect("remove");
    mounted.unmount();
    disk.is_clean();
    eprintln!("{FILES} files took {:?}", begin.elapsed());
}

#[test]
fn a_full_file_system_says_so_and_recovers() {
    if !possible() {
        return;
    }
    for layout in ["vlog", VLFS] {
        let disk = Disk::new(layout, "16M", &[]);
        let mounted = disk.mount(&[]);
        let file = File::create(mounted.path("full")).expect("create");
        let block = pattern(2, 1 << 20);
        let full = (0..64).find_map(|n| file.write_all_at(&block, n << 20).err());
        assert_eq!(full.expect("an error").raw_os_error(), Some(28));
        drop(file);
        fs::remove_file(mounted.path("full")).expect("unlink");
        // The kernel lets go of the removed file some time after the call.
        eventually("space", || fs::write(mounted.path("again"), &block[..]).is_ok());
        mounted.unmount();
        disk.is_clean();
    }
}

#[test]
fn trees_of_files_survive_tar() {
    require!("tar", "diff");
    if !possible() {
        return;
    }
    let disk = Disk::new("lfs", "2G", &["--bytes-per-inode", "8k"]);
    let source = Tree::find_or_plant(disk.dir.path());
    let archive = disk.dir.path().join("tree.tar");
    succeed(command("tar").arg("-C").arg(&source.root).arg("-cf").arg(&archive).arg("."));
    let mounted = disk.mount(&[]);
    let copy = mounted.path("tree");
    fs::create_dir(&copy).expect("mkdir");
    succeed(command("tar").arg("-C").arg(&copy).arg("-xf").arg(&archive));
    source.compare(&copy, None);
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&["--read-only"]);
    source.compare(&mounted.path("tree"), None);
    let back = disk.dir.path().join("back.tar");
    succeed(command("tar").arg("-C").arg(mounted.path("tree")).arg("-cf").arg(&back).arg("."));
    mounted.unmount();
    disk.is_clean();
}

#[test]
fn git_works_on_it() {
    require!("git");
    if !possible() {
        return;
    }
    for layout in ["vlog", VLFS] {
        takes_a_project_in_git(&Disk::new(layout, "128M", &[]));
    }
}

fn takes_a_project_in_git(disk: &Disk) {
    let mounted = disk.mount(&[]);
    let root = mounted.path("project");
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        succeed(command("git").arg("-C").arg(&mounted.point).args(who).args(arguments))
    };
    git(&["init", "-q", "project"]);
    for n in 0..200 {
        fs::write(root.join(format!("file {n}")), pattern(n, 3000)).expect("write");
    }
    git(&["-C", "project", "add", "."]);
    git(&["-C", "project", "commit", "-q", "-m", "all"]);
    git(&["clone", "-q", "project", "clone"]);
    git(&["-C", "clone", "gc", "-q"]);
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    for dir in ["project", "clone"] {
        let git = |arguments: &[&str]| {
            let mut command = command("git");
            succeed(command.arg("-C").arg(mounted.path(dir)).args(arguments))
        };
        git(&["fsck", "--strict"]);
        assert_eq!(git(&["status", "--porcelain"]), "");
    }
    mounted.unmount();
    disk.is_clean();
}

#[test]
fn sqlite_works_on_it() {
    require!("sqlite3");
    if !possible() {
        return;
    }
    for layout in ["loge", VLFS] {
        takes_a_database(&Disk::new(layout, "64M", &[]));
    }
}

fn takes_a_database(disk: &Disk) {
    let mounted = disk.mount(&[]);
    let sql = |mounted: &Mounted, text: &str| {
        succeed(command("sqlite3").arg(mounted.path("a.db")).arg(text))
    };
    let rows = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i < 20000)";
    sql(
        &mounted,
        &format!("CREATE TABLE t(i, text); {rows} INSERT INTO t SELECT i, hex(i) FROM n"),
    );
    sql(&mounted, "PRAGMA journal_mode = WAL; DELETE FROM t WHERE i % 3 = 0; VACUUM;");
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    assert_eq!(sql(&mounted, "PRAGMA integrity_check; SELECT count(*) FROM t"), "ok\n13334\n");
    mounted.unmount();
}

#[test]
fn a_signal_unmounts() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mut daemon = Foreground::new(&disk);
    fs::write(disk.point().join("a"), "written").expect("write");
    rustix::process::kill_process(daemon.pid(), rustix::process::Signal::TERM).expect("kill");
    assert_eq!(daemon.ended(), Some(0));
    assert!(!disk.point().join("a").exists(), "it is unmounted");
    disk.is_clean();
    let mounted = disk.mount(&[]);
    assert_eq!(fs::read(mounted.path("a")).expect("read"), b"written");
    mounted.unmount();
}

#[test]
fn an_unmount_ends_the_process() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "32M", &[]);
    let mut daemon = Foreground::new(&disk);
    fs::write(disk.point().join("a"), "written").expect("write");
    succeed(command("fusermount3").arg("-u").arg(disk.point()));
    assert_eq!(daemon.ended(), Some(0));
    disk.is_clean();
}

#[test]
fn a_killed_process_leaves_what_can_be_repaired() {
    if !possible() {
        return;
    }
    for layout in ["raw", "vlog", VLFS] {
        let disk = Disk::new(layout, "32M", &[]);
        let mut daemon = Foreground::new(&disk);
        fs::create_dir(disk.point().join("dir")).expect("mkdir");
        for n in 0..200 {
            fs::write(disk.point().join(format!("dir/{n}")), pattern(n, 9000)).expect("write");
        }
        let kept = File::open(disk.point().join("dir")).expect("open");
        kept.sync_all().expect("fsync");
        drop(kept);
        daemon.kill();
        let refused = fs::read_dir(disk.point()).expect_err("no process answers");
        assert_eq!(refused.raw_os_error(), Some(107), "{refused}");
        // Nor can another one be mounted over it.
        let again = run(seekless().arg("mount").arg(disk.image()).arg(disk.point()));
        assert_eq!(again.code(), 4, "{}", again.err);
        assert!(again.err.contains("fusermount3 -u"), "{}", again.err);
        succeed(command("fusermount3").arg("-u").arg(disk.point()));
        // The operations of VLFS are atomic: it needs no check.
        if layout != VLFS {
            let refused = run(seekless().arg("mount").arg(disk.image()).arg(disk.point()));
            assert_eq!(refused.code(), 3, "{}", refused.err);
            assert!(refused.err.contains("fsck"), "{}", refused.err);
            disk.repair();
        }
        let mounted = disk.mount(&[]);
        assert_eq!(fs::read_dir(mounted.path("dir")).expect("list").count(), 200);
        fs::write(mounted.path("new"), "new").expect("write");
        mounted.unmount();
        disk.is_clean();
    }
}

#[test]
fn an_image_is_mounted_once() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount(&[]);
    let other = disk.dir.path().join("other");
    fs::create_dir(&other).expect("mkdir");
    for arguments in [&["mount"][..], &["mount", "--read-only"]] {
        let refused = run(seekless().args(arguments).arg(disk.image()).arg(&other));
        assert_eq!(refused.code(), 4, "{}", refused.err);
        assert!(refused.err.contains("in use"), "{}", refused.err);
    }
    let (code, said) = disk.fsck(&[]);
    assert_eq!(code, 8, "{said}");
    mounted.unmount();
    disk.is_clean();
}

#[test]
fn a_read_only_mount_writes_nothing() {
    if !possible() {
        return;
    }
    let disk = Disk::new("raw", "32M", &[]);
    let mounted = disk.mount(&[]);
    fs::write(mounted.path("a"), "written").expect("write");
    mounted.unmount();
    disk.is_clean();
    let before = fs::read(disk.image()).expect("read");
    let mounted = disk.mount(&["--read-only"]);
    assert_eq!(fs::read(mounted.path("a")).expect("read"), b"written");
    let refused = fs::write(mounted.path("b"), "b").expect_err("read-only");
    assert_eq!(refused.raw_os_error(), Some(30));
    mounted.unmount();
    disk.is_clean();
    assert!(fs::read(disk.image()).expect("read") == before);
}

#[test]
fn wrong_places_are_refused() {
    let dir = temp_dir();
    let image = dir.path().join("a.img");
    succeed(seekless().arg("mkfs").arg(&image).args(["--size", "16M"]));
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let ended = run(seekless().args(arguments).current_dir(dir.path()));
        assert_eq!(ended.code(), code, "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(word), "{arguments:?}: {}", ended.err);
    };
    refused(&["mount", "a.img", "nowhere"], 2, "does not exist");
    refused(&["mount", "a.img", "a.img"], 2, "not a directory");
    refused(&["mount", "none.img", "."], 3, "does not exist");
    refused(&["mkfs", "a.img"], 1, "--force");
    refused(&["mkfs", "a.img", "--size", "16M"], 2, "exists");
    refused(&["mkfs", "new.img", "--size", "16M", "--fragment", "3k"], 2, "fragment");
    assert!(!dir.path().join("new.img").exists(), "nothing is left behind");
    refused(&["fsck", "none.img"], 8, "does not exist");
    fs::write(dir.path().join("foreign.img"), pattern(3, 1 << 20)).expect("write");
    refused(&["fsck", "foreign.img"], 8, "no file system was found");
    refused(&["mkfs", "foreign.img"], 1, "--force");
    refused(&["mount", "foreign.img", "."], 3, "no file system was found");
    // Codes of fsck(8), also for what the parser of the command line refuses.
    refused(&["fsck"], 16, "Usage");
    refused(&["fsck", "a.img", "--frobnicate"], 16, "--frobnicate");
    refused(&["fsck", "a.img", "--degraded", "--log", "b.img"], 16, "cannot be used with");
    refused(&["mount", "--frobnicate"], 2, "--frobnicate");
    assert_eq!(run(seekless().args(["fsck", "--help"])).code(), 0);
    let clean = run(seekless().args(["fsck", "a.img", "--json"]).current_dir(dir.path()));
    assert_eq!(clean.code(), 0, "{}", clean.err);
    let report: serde_json::Value = serde_json::from_str(&clean.out).expect("JSON");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0));
}

/// The file of the errors of a mount in the foreground, beside its mount point.
const ERRORS: &str = "errors";

/// A mount in the foreground, whose process the test sees.
pub struct Foreground(Helper, PathBuf);

impl Foreground {
    fn new(disk: &Disk) -> Foreground {
        Foreground::with(disk, &[])
    }

    pub fn with(disk: &Disk, more: &[&str]) -> Foreground {
        let mut command = seekless();
        command.args(["mount", "--foreground"]).arg(disk.image()).arg(disk.point());
        command.args(disk.journal()).args(more);
        let errors = File::create(disk.dir.path().join(ERRORS)).expect("create");
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        assert!(line.contains("mounted at"), "{line}");
        Foreground(Helper(child), disk.point())
    }

    /// What it has said on standard error.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.1.with_file_name(ERRORS)).expect("read")
    }

    /// Kills it, as a crash of the process would.
    pub fn kill(&mut self) {
        self.0.0.kill().expect("kill");
        self.0.0.wait().expect("wait");
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.0.0)
    }

    pub fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the end of the mount", || {
            status = self.0.0.try_wait().expect("waitpid");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = command("umount").arg("-l").arg(&self.1).stderr(Stdio::null()).status();
    }
}
