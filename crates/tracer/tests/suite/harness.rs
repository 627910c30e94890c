//! A directory, a command that works in it, and what was recorded.

use seekless_calls::{Entry, Foreign, word};
use seekless_tracer::{Exit, Options, Recorder, Recording, selfcheck};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// A directory of a run, below one that is not recorded.
pub struct Place {
    outer: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place::below(&std::env::temp_dir())
    }

    /// The same below a directory.
    pub fn below(dir: &Path) -> Place {
        let outer = TempDir::new_in(dir).unwrap();
        std::fs::create_dir(outer.path().join("run")).unwrap();
        Place { outer }
    }

    /// The directory that is recorded.
    pub fn run(&self) -> std::path::PathBuf {
        self.outer.path().join("run")
    }

    /// Its parent, which is not.
    pub fn outer(&self) -> &Path {
        self.outer.path()
    }

    /// Gives both directories to a user.
    pub fn give_to(&self, user: u32) {
        for path in [self.outer(), &self.run()] {
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
    }

    pub fn options(&self) -> Options {
        Options::new(self.run())
    }

    /// Records a script of the shell that works in the directory.
    pub fn sh(&self, script: &str) -> Recording {
        self.record(self.options(), shell(script, &self.run()))
    }

    pub fn record(&self, options: Options, command: Command) -> Recording {
        Recorder::new(options).run(command, &AtomicBool::new(false)).unwrap()
    }
}

/// A mounted XFS, which goes with this.
pub struct Xfs {
    dir: TempDir,
}

impl Xfs {
    /// `None`, with a line that says so, if this process cannot mount one.
    pub fn new() -> Option<Xfs> {
        let dir = TempDir::new().unwrap();
        let image = dir.path().join("image");
        std::fs::create_dir(dir.path().join("mnt")).unwrap();
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let script = "mkfs.xfs -q image && mount -o loop image mnt";
        let mut command = shell(script, dir.path());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        if !command.output().unwrap().status.success() {
            eprintln!("skipped: this process cannot make and mount an XFS");
            return None;
        }
        Some(Xfs { dir })
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("mnt")
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let _ = shell("umount mnt", self.dir.path()).status();
    }
}

/// A user without rights.
pub const PLAIN_USER: u32 = 65534;

pub fn is_root() -> bool {
    // A process has the rights of its own directory.
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Python with these arguments; `None`, with a line that says so, if there is none.
pub fn python(args: &[&str]) -> Option<Command> {
    if !Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: there is no /usr/bin/python3");
        return None;
    }
    let mut command = Command::new("/usr/bin/python3");
    command.args(args).stdin(Stdio::null());
    Some(command)
}

/// A script of the shell, in a directory.
pub fn shell(script: &str, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg("-ec").arg(script).current_dir(dir).stdin(Stdio::null());
    command
}

/// The operations behind `Begin`, each in one word; marks as `=value`.
pub fn words(recording: &Recording) -> Vec<String> {
    let begin = recording.entries.iter().position(|entry| *entry == Entry::Begin).unwrap();
    let words = recording.entries[begin + 1..].iter().filter_map(|entry| match entry {
        Entry::Call { call, .. } => Some(word(&call.request).to_owned()),
        Entry::Mark(value) => Some(format!("={value}")),
        Entry::Foreign { change: Foreign::SyncedRange { .. }, .. } => None,
        Entry::Foreign { .. } => Some("foreign".to_owned()),
        Entry::Reply { .. } | Entry::Begin => None,
    });
    words.collect()
}

/// That a run went as it should, and is on record as a whole.
pub fn assert_complete(recording: &Recording, place: &Place) {
    assert_sound(recording);
    let mut file = Vec::new();
    seekless_calls::file::write_to(&mut file, 0, &recording.entries).unwrap();
    let (_, read) = seekless_calls::file::read(file.into()).unwrap();
    assert_eq!(read.len(), recording.entries.len());
    assert!(read == recording.entries, "the file of the record says something else");
    if let Err(difference) = selfcheck::compare(&recording.entries, &place.run()) {
        panic!("{difference}\n{:?}", words(recording));
    }
}

/// That a run went as it should.
pub fn assert_sound(recording: &Recording) {
    assert_eq!(recording.exit, Exit::Code(0), "{:?}", recording.troubles);
    assert_eq!(recording.troubles, Vec::<String>::new());
    assert_eq!(recording.outlived, Vec::<String>::new());
}

/// Copies a program. Another process writes the copy: a child that a test beside this one is
/// starting would hold it open, and what is open for writing cannot be executed.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}
