//! What tests have: images of file systems, pools, and a look at what the machine has left over.

use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::replay::check::{Checked, Checker as _};
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::sandbox::process::Isolation;
use seekless_crashtest::sandbox::{SandboxOptions, Workers, enter_private_namespace};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A variable that marks the processes of this test. Its value is the number of this process.
const MARK: &str = "SEEKLESS_SANDBOX_TEST";

pub struct Machine {
    dir: tempfile::TempDir,
    next: AtomicU32,
}

impl Machine {
    /// The reason if tests cannot run here.
    pub fn new() -> Result<Machine, String> {
        enter_private_namespace().map_err(|error| format!("no mount namespace: {error}"))?;
        if !Path::new("/dev/loop-control").exists() {
            return Err("no loop devices".to_owned());
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var(MARK, std::process::id().to_string()) };
        let machine = Machine { dir, next: AtomicU32::new(0) };
        machine.try_image(FileSystem::Ext4).map(|_| machine)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A new path in the directory of this test.
    pub fn new_path(&self) -> PathBuf {
        self.dir.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// An image with a file system; the reason if there is no `mkfs` or no such file system.
    pub fn try_image(&self, fs: FileSystem) -> Result<PathBuf, String> {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if fs != FileSystem::Raw && !known.lines().any(|line| line.trim() == fs.name()) {
            return Err(format!("the kernel has no {fs}"));
        }
        let path = self.new_path();
        let file = File::create(&path).map_err(|error| error.to_string())?;
        file.set_len(fs.smallest()).map_err(|error| error.to_string())?;
        fs.make(&path).map_err(|error| error.to_string())?;
        Ok(path)
    }

    pub fn image(&self) -> PathBuf {
        self.try_image(FileSystem::Ext4).expect("an image, as before")
    }

    pub fn options(&self, fs: FileSystem, command: &str, timeout: Duration) -> SandboxOptions {
        let dir = self.new_path();
        std::fs::create_dir(&dir).expect("a directory");
        SandboxOptions {
            program: "/proc/self/exe".into(),
            command: command.to_owned(),
            mount: fs.for_checks(),
            isolation: Isolation::Machine,
            timeout,
            stop: Arc::new(Stop::new().expect("a descriptor")),
            dir,
            copies: None,
        }
    }

    /// Runs one check on a new ext4 image.
    pub fn check(&self, command: &str, timeout: Duration) -> Checked {
        let options = self.options(FileSystem::Ext4, command, timeout);
        let workers = Workers::new(options, 1).expect("a pool");
        workers.check(&self.image(), &[("SEEKLESS_ACKED", "7".into())]).expect("a check")
    }

    /// The mounts that this process sees.
    pub fn mounts(&self) -> Vec<String> {
        let text = std::fs::read_to_string("/proc/self/mountinfo").expect("it can be read");
        // Without the options, which other programs of the machine may change.
        let place = |line: &str| line.split(' ').take(5).collect::<Vec<_>>().join(" ");
        text.lines().map(place).collect()
    }

    /// Files of this test that loop devices use.
    pub fn loops(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/sys/block").expect("it can be read").flatten() {
            let file = entry.path().join("loop/backing_file");
            let file = std::fs::read_to_string(file).unwrap_or_default();
            if file.starts_with(&*self.path().to_string_lossy()) {
                found.push(file.trim().to_owned());
            }
        }
        found
    }

    /// Processes that are workers of this test, or were started by one.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", std::process::id()).into_bytes();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("it can be read").flatten() {
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if variables.split(|&byte| byte == 0).any(|one| one == mark) {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        found
    }

    /// Fails if anything of a test is left.
    pub fn nothing_is_left(&self, name: &str, mounts: &[String]) {
        // The kernel detaches a loop device a moment after its last user has gone.
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && !self.loops().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.mounts(), mounts, "{name}: mounts");
        assert_eq!(self.loops(), [""; 0], "{name}: loop devices");
        assert_eq!(self.processes(), [""; 0], "{name}: processes");
    }
}
