//! Large clients on a mount: `pjdfstest`, `fsx`, a build, and PostgreSQL under load.

use crate::harness::{command, eventually, run, succeed};
use crate::mount::{Disk, Mounted, VLFS, policies, possible, runs_on};
use crate::require;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `pjdfstest` may expect beyond its defaults. Files have no BSD flags; the kernel has no
/// `fspacectl`. Under `--writeback` the kernel sets times, by a clock that moves every 4 ms.
const PJDFSTEST: &str = "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\n\
    utime_now = {}\nstat_st_birthtime = {}\n[settings]\nnaptime = 0.02\nallow_remount = false\n\
    [dummy_auth]\nentries = [[\"sys\", \"sys\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";

/// Why it skips tests: `mount -o remount` does not reach a file system in user space, and the
/// kernel knows no limit of links of one.
const SKIPS: [(&str, usize); 2] =
    [("Remounts (allow_remount) are not allowed", 13), ("Cannot get value for LINK_MAX", 1)];

#[test]
fn calls_do_what_posix_says() {
    require!("pjdfstest");
    if !possible() {
        return;
    }
    let other = Disk::new("raw", "16M", &[]);
    let elsewhere = other.mount(&[]);
    let inodes = &["--bytes-per-inode", "4k"][..];
    for (layout, more) in [("vlog", inodes), (VLFS, &[])] {
        for policy in policies().filter(|policy| runs_on(policy, layout)) {
            for how in [&[][..], &["--writeback"]] {
                let disk = Disk::with_policy(policy, layout, "128M", more);
                let mounted = disk.mount(&[&["--policy", policy], how].concat());
                pjdfstest(&disk, &mounted, &elsewhere);
                mounted.unmount();
                disk.is_clean();
            }
        }
    }
    elsewhere.unmount();
}

fn pjdfstest(disk: &Disk, mounted: &Mounted, elsewhere: &Mounted) {
    let config = disk.dir.path().join("pjdfstest.toml");
    fs::write(&config, PJDFSTEST).expect("write");
    let mut suite = command("pjdfstest");
    suite.arg("-c").arg(&config).arg("-p").arg(&mounted.point).arg("-s").arg(&elsewhere.point);
    let ended = run(suite.current_dir(&mounted.point));
    let told = || format!("{}{}", ended.out, ended.err);
    let summary = ended.out.lines().rev().find(|line| line.starts_with("Summary"));
    assert!(summary.is_some_and(|line| line.contains(" 0 failed")), "{}", told());
    let text = ended.out.as_str();
    for (reason, most) in SKIPS {
        assert!(text.matches(reason).count() <= most, "{}", told());
    }
    let explained: usize = SKIPS.iter().map(|(reason, _)| text.matches(reason).count()).sum();
    let skipped = text.lines().filter(|line| line.ends_with(" skipped")).count();
    assert_eq!(skipped, explained, "{}", told());
}

/// What `fsx` does: everything that it can on Linux, with files that are closed and opened again.
/// Its seeds are some with which it never allocates a range of no bytes, which POSIX forbids.
const FSX: &str = "[opsize]\nmax = 65536\n[weights]\nclose_open = 1.0\nread = 10.0\n\
    write = 10.0\nmapread = 10.0\nmapwrite = 10.0\ntruncate = 5.0\ninvalidate = 1.0\n\
    fsync = 1.0\nfdatasync = 1.0\nposix_fallocate = 2.0\npunch_hole = 2.0\nsendfile = 1.0\n\
    posix_fadvise = 1.0\ncopy_file_range = 1.0\n";

#[test]
fn fsx_finds_no_wrong_byte() {
    require!("fsx");
    if !possible() {
        return;
    }
    for (layout, seed) in [("raw", "1"), ("inplace", "3"), ("vlog", "4"), ("lfs", "1"), (VLFS, "5")]
    {
        let disk = Disk::new(layout, "64M", &[]);
        let config = disk.dir.path().join("fsx.toml");
        fs::write(&config, FSX).expect("write");
        let mounted = disk.mount(&[]);
        let mut fsx = command("fsx");
        fsx.arg("-f").arg(&config).args(["-N", "3000", "-q", "-S", seed]);
        succeed(fsx.arg("-P").arg(disk.dir.path()).arg(mounted.path("file")));
        mounted.unmount();
        disk.is_clean();
    }
}

/// Sources of the project that is built.
const SOURCES: usize = 60;

/// A project in C: each source is a function, and the program prints what all of them give.
fn plant_project(dir: &Path) {
    fs::create_dir(dir).expect("mkdir");
    let write = |name: &str, text: String| fs::write(dir.join(name), text).expect("write");
    let mut head = String::from("#include <stdio.h>\n");
    let mut sum = String::new();
    for n in 0..SOURCES {
        write(&format!("f{n}.c"), format!("int f{n}(int x) {{ return x * {n}; }}\n"));
        head += &format!("int f{n}(int);\n");
        sum += &format!(" + f{n}({n})");
    }
    write("main.c", format!("{head}int main(void) {{ printf(\"%d\\n\", 0{sum}); return 0; }}\n"));
    let rules = "O = $(patsubst %.c,%.o,$(filter-out main.c,$(wildcard *.c)))\n\
        program: main.o all.a\n\tcc -o $@ $^\n\
        all.a: $(O)\n\tar rcs $@ $^\n\
        %.o: %.c\n\tcc -c -o $@ $<\n";
    write("Makefile", rules.to_owned());
}

#[test]
fn a_project_builds_on_it() {
    require!("make", "cc", "ar");
    if !possible() {
        return;
    }
    for layout in ["vlog", VLFS] {
        builds_a_project(&Disk::new(layout, "64M", &[]));
    }
}

fn builds_a_project(disk: &Disk) {
    let mounted = disk.mount(&[]);
    let project = mounted.path("project");
    plant_project(&project);
    let make = |mounted: &Mounted| {
        succeed(command("make").args(["-j2", "-C"]).arg(mounted.path("project")))
    };
    make(&mounted);
    let sum: usize = (0..SOURCES).map(|n| n * n).sum();
    assert_eq!(succeed(&mut command(project.join("program"))), format!("{sum}\n"));
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    // Times are kept: nothing is out of date.
    assert!(make(&mounted).contains("up to date"));
    assert_eq!(succeed(&mut command(project.join("program"))), format!("{sum}\n"));
    mounted.unmount();
    disk.is_clean();
}

/// Programs of PostgreSQL are in a directory of their version.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let dirs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    dirs.filter(|dir| {
        ["initdb", "pgbench", "pg_amcheck"].iter().all(|name| dir.join(name).is_file())
    })
    .max()
}

/// A cluster on a mount. The server stops with its test.
struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    owner: (u32, u32),
}

impl Cluster {
    fn program(&self, name: &str) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut program = command(self.programs.join(name));
        program.uid(self.owner.0).gid(self.owner.1).current_dir("/");
        program
    }

    fn client(&self, name: &str, arguments: &[&str]) -> String {
        succeed(self.program(name).arg("-h").arg(&self.sockets).args(arguments))
    }

    fn control(&self, arguments: &[&str]) {
        let log = self.sockets.join("log");
        let mut control = self.program("pg_ctl");
        succeed(control.arg("-D").arg(&self.data).arg("-l").arg(log).arg("-w").args(arguments));
    }

    fn start(&self) {
        let options = format!("-c listen_addresses='' -k {}", self.sockets.display());
        self.control(&["start", "-o", &options]);
    }

    fn has_right_checksums(&self) {
        succeed(self.program("pg_checksums").arg("-D").arg(&self.data));
    }

    /// The balance that transactions left in accounts, and that their history says.
    fn balances(&self) -> (String, String) {
        let query = "SELECT sum(abalance) FROM pgbench_accounts; \
            SELECT coalesce(sum(delta), 0) FROM pgbench_history";
        let said = self.client("psql", &["-At", "-c", query, "postgres"]);
        let (accounts, history) = said.trim().split_once('\n').expect("two numbers");
        (accounts.to_owned(), history.to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a test that ended well no server runs.
        let mut stop = self.program("pg_ctl");
        let _ = run(stop.arg("-D").arg(&self.data).args(["-m", "immediate", "stop"]));
    }
}

/// User and group of PostgreSQL.
fn postgres_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?.to_owned();
    let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

#[test]
fn postgres_works_on_it() {
    let (Some(programs), Some(owner)) = (postgres_programs(), postgres_user()) else {
        return crate::harness::skip("PostgreSQL is not installed");
    };
    if !possible() {
        return;
    }
    for layout in ["vlog", VLFS] {
        let disk = Disk::new(layout, "512M", &[]);
        takes_a_cluster(&disk, (programs.clone(), owner));
    }
}

fn takes_a_cluster(disk: &Disk, (programs, owner): (PathBuf, (u32, u32))) {
    fs::set_permissions(disk.dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let mounted = disk.mount(&[]);
    let (data, sockets) = (mounted.path("data"), disk.dir.path().join("sockets"));
    for dir in [&data, &sockets] {
        fs::create_dir(dir).expect("mkdir");
        chown(dir, Some(owner.0), Some(owner.1)).expect("chown");
    }
    let cluster = Cluster { programs, data, sockets, owner };
    succeed(cluster.program("initdb").arg("-k").arg("-D").arg(&cluster.data));
    cluster.start();
    cluster.client("pgbench", &["-i", "-q", "-s", "1", "postgres"]);
    cluster.client("pgbench", &["-c", "2", "-T", "5", "postgres"]);
    cluster.client("psql", &["-c", "CREATE EXTENSION amcheck", "postgres"]);
    cluster.client("pg_amcheck", &["postgres"]);
    let before = cluster.balances();
    assert_eq!(before.0, before.1, "each transaction is there as a whole");
    cluster.control(&["-m", "fast", "stop"]);
    cluster.has_right_checksums();
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    cluster.has_right_checksums();
    cluster.start();
    cluster.client("pg_amcheck", &["postgres"]);
    assert_eq!(cluster.balances(), before);
    cluster.control(&["-m", "fast", "stop"]);
    drop(cluster);
    mounted.unmount();
    eventually("a clean end", || disk.fsck(&[]).0 == 0);
}
