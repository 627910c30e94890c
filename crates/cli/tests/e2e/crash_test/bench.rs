//! A place for crash tests: a directory of the test's own that takes the temporary directories of
//! the command, and a search for what the command left behind.

use crate::harness::{Ended, eventually, run, seekless_of_terminal, skip, temp_dir, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Appends a row, makes it durable and acknowledges it, three times.
pub const DURABLE: &str = "for n in 1 2 3; do \
     echo row $n | dd of={dir}/log oflag=append conv=notrunc,fsync status=none || exit; \
     echo $n >> $SEEKLESS_ACKS; done";
/// The same without a flush.
pub const FORGETFUL: &str =
    "for n in 1 2 3; do echo row $n >> {dir}/log; echo $n >> $SEEKLESS_ACKS; done";
/// Every acknowledged row must be there. What came later may be there or not.
pub const ROWS: &str = "rows=$(cat {dir}/log 2>/dev/null | grep -c '^row [1-3]$'); \
     test $rows -ge ${SEEKLESS_ACKED:-0} || \
     { echo \"$rows rows of ${SEEKLESS_ACKED:-0}\"; exit 1; }";

/// A directory for crash tests.
#[derive(Debug)]
pub struct Bench {
    home: TempDir,
}

impl Bench {
    /// `None`, with the reason on standard error, where crash tests cannot run.
    pub fn new() -> Option<Bench> {
        if !rustix::process::geteuid().is_root() {
            skip("crash tests need root rights");
            return None;
        }
        for device in ["/dev/fuse", "/dev/loop-control"] {
            if fs::OpenOptions::new().read(true).write(true).open(device).is_err() {
                skip(&format!("{device} cannot be opened"));
                return None;
            }
        }
        if !crate::harness::installed("mkfs.ext4") {
            skip("mkfs.ext4 is not installed");
            return None;
        }
        let home = temp_dir();
        // Other users reach what is in it.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        fs::create_dir(home.path().join("tmp")).expect("directory");
        Some(Bench { home })
    }

    /// A path of this test, outside of every disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// The same, for a line of a shell.
    pub fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A command that makes its temporary directories here.
    pub fn command(&self, name: &str) -> Command {
        let mut command = seekless_of_terminal();
        command.arg(name).env("TMPDIR", self.path("tmp")).current_dir(self.home.path());
        command
    }

    /// A crash test on a disk of 16 MiB.
    pub fn thorough(&self, workload: &str, check: &str) -> Command {
        let mut command = self.command("crash-test");
        command.args(["--size", "16M", "--run", workload, "--check", check]);
        command
    }

    /// The same with few states.
    pub fn test(&self, workload: &str, check: &str) -> Command {
        let mut command = self.thorough(workload, check);
        command.args(["--samples", "2", "--exhaustive", "0"]);
        command
    }

    /// Sweeps the recording in a directory of a crash test again, with few states.
    pub fn replay(&self, dir: &Path, check: &str) -> Command {
        let mut command = self.command("replay-crashes");
        command.arg(dir.join("run.tape")).arg("--base").arg(dir.join("base.img"));
        command.args(["--fs", "ext4", "--samples", "2", "--exhaustive", "0", "--check", check]);
        command
    }

    /// The temporary directories that were not removed.
    pub fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).expect("directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// The one temporary directory.
    pub fn kept_one(&self) -> PathBuf {
        let kept = self.kept();
        assert_eq!(kept.len(), 1, "{kept:?}");
        kept[0].clone()
    }

    /// What runs, is mounted or is attached in the name of this test.
    pub fn leaks(&self) -> Vec<String> {
        let home = self.home.path().to_str().expect("text");
        let mut found = loop_devices(home);
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        for process in processes.map(|entry| entry.path()).filter(|path| is_process(path)) {
            let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
            let text = |name: &str| String::from_utf8_lossy(&read(name)).replace('\0', " ");
            let line = text("cmdline");
            if line.contains(home) {
                found.push(format!("{}: {line}", process.display()));
            }
            let mounts = text("mountinfo");
            let ours = mounts.lines().find(|mount| mount.contains(home));
            found.extend(ours.map(|mount| format!("{} has {mount}", process.display())));
        }
        found
    }

    /// Loop devices of the states that are mounted now. Their files are in no tree of directories,
    /// so [`Bench::leaks`] cannot tell whose they are.
    pub fn loops(&self) -> Vec<Loop> {
        let home = self.shown("");
        let mut found = Vec::new();
        for worker in self.workers() {
            let path = format!("/proc/{}/mountinfo", worker.as_raw_nonzero());
            let mounts = fs::read_to_string(path).unwrap_or_default();
            let ours = mounts.lines().filter(|mount| mount.contains(&home));
            found.extend(ours.filter_map(|mount| {
                let source = mount.split_once(" - ")?.1.split(' ').nth(1)?;
                Loop::of(source.strip_prefix("/dev/")?)
            }));
        }
        found
    }

    /// Workers that have something of this test mounted.
    pub fn workers(&self) -> Vec<rustix::process::Pid> {
        let home = self.shown("");
        let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|one| one.path());
        let is_ours = |path: &PathBuf| {
            let text = |name| fs::read(path.join(name)).unwrap_or_default();
            let has = |name, word: &str| String::from_utf8_lossy(&text(name)).contains(word);
            is_process(path) && has("cmdline", "crash-worker") && has("mountinfo", &home)
        };
        let number = |path: PathBuf| path.file_name()?.to_str()?.parse().ok();
        let numbers = processes.filter(is_ours).filter_map(number);
        numbers.filter_map(rustix::process::Pid::from_raw).collect()
    }

    /// Asserts that nothing runs, is mounted or is attached any longer. The kernel detaches loop
    /// devices shortly after their last user.
    pub fn assert_no_leak(&self) {
        let begin = std::time::Instant::now();
        while !self.leaks().is_empty() {
            let left = self.leaks();
            assert!(begin.elapsed() < Duration::from_secs(5), "left behind: {left:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asserts that there is no directory either.
    pub fn assert_nothing_left(&self) {
        self.assert_no_leak();
        assert_eq!(self.kept(), Vec::<PathBuf>::new());
    }

    /// Starts a command and waits until it, or what it runs, makes the file `name`.
    pub fn start(&self, mut command: Command, name: &str) -> Child {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let path = self.path(name);
        eventually(&format!("{command:?} making {name}"), || path.exists());
        child
    }

    /// Starts a command, sends it a signal as soon as the file `name` is there, and waits.
    pub fn interrupted(&self, command: Command, name: &str, signal: i32) -> Ended {
        let child = self.start(command, name);
        let leaks = self.leaks();
        assert!(!leaks.is_empty(), "a running test is not found");
        kill(&child, signal);
        finished(child)
    }

    /// The names in a directory of this test, in order.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Waits for a file of this test to hold a number of lines, and gives them.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// One attachment of a loop device.
#[derive(Debug)]
pub struct Loop {
    name: String,
    /// Another for each attachment.
    sequence: String,
}

impl Loop {
    fn of(name: &str) -> Option<Loop> {
        let sequence = fs::read_to_string(format!("/sys/block/{name}/diskseq")).ok()?;
        Some(Loop { name: name.to_owned(), sequence })
    }

    /// Whether it is the same file that is attached.
    pub fn is_attached(&self) -> bool {
        let is_there = Path::new(&format!("/sys/block/{}/loop", self.name)).exists();
        is_there && Loop::of(&self.name).is_some_and(|now| now.sequence == self.sequence)
    }
}

/// Sends a signal to a child that was not waited for.
pub fn kill(child: &Child, signal: i32) {
    let named = rustix::process::Signal::from_named_raw(signal).expect("a signal");
    rustix::process::kill_process(rustix::process::Pid::from_child(child), named).expect("sent");
}

/// Waits for a child with pipes.
pub fn finished(mut child: Child) -> Ended {
    let status = wait(&mut child, Duration::from_secs(60)).expect("it does not end");
    let read = |pipe: &mut dyn std::io::Read| {
        let mut text = String::new();
        let _ = pipe.read_to_string(&mut text);
        text
    };
    let out = read(child.stdout.as_mut().expect("piped"));
    let err = read(child.stderr.as_mut().expect("piped"));
    Ended { status, out, err }
}

/// Asserts on the exit code, with all output in the message.
pub fn expect_code(ended: &Ended, code: i32) {
    let Ended { status, out, err } = ended;
    assert_eq!(ended.code(), code, "{status}\n--- output\n{out}\n--- errors\n{err}");
}

/// Runs a command that must end with this exit code.
pub fn ends_with(command: &mut Command, code: i32) -> Ended {
    let ended = run(command);
    expect_code(&ended, code);
    ended
}

fn is_process(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Loop devices over files below `home`.
fn loop_devices(home: &str) -> Vec<String> {
    let devices = fs::read_dir("/sys/block").expect("/sys/block").flatten();
    let file = |device: &fs::DirEntry| {
        fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default()
    };
    let ours = devices.filter(|device| file(device).contains(home));
    ours.map(|device| format!("{}: {}", device.path().display(), file(&device))).collect()
}
