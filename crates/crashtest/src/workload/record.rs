//! Running `--run` on a recorded disk.
//!
//! The disk is a file of a file system in this process, which a loop device makes a block device.
//! It begins with the content of the base, and what is written goes to a copy of it. Nothing of
//! this outlives the process: the mounts are in a namespace of its own.

use super::{Disk, Ran, Running, mount_point, second_mount_point};
use crate::file_system::FileSystem;
use crate::own;
use crate::record::disk::{Node, RecordedDisk};
use crate::record::marks::MarkFile;
use crate::record::recorder::Recorder;
use crate::record::{RecordError, Recorded};
use crate::replay::extents::Extents;
use crate::replay::image::{Image, Source};
use crate::replay::stop::Stop;
use crate::sandbox::LoopDevice;
use seekless_serve::fuse::disks::DiskDirectory;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The variable that names the file for acknowledgements.
pub const ACKS: &str = "SEEKLESS_ACKS";

/// Why a workload was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file or mount.
    #[error("{what}: {error}; see that this process is root and the directory has space")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// The recording.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A workload to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The file system of the base.
    pub fs: FileSystem,
    /// Content of the disk at the start.
    pub base: &'a Path,
    /// Where the second of two disks begins in the base, which holds them one behind the other.
    pub second: Option<u64>,
    /// The recording, a new file.
    pub tape: &'a Path,
    /// A directory for the copy of the disk and the mount points.
    pub dir: &'a Path,
    /// More options of the mount.
    pub mount_options: &'a str,
    /// The command.
    pub command: &'a str,
    /// Time limit of the command.
    pub timeout: Duration,
    /// Ends the command.
    pub stop: &'a Stop,
    /// Where its output goes.
    pub log: &'a Path,
}

impl Run<'_> {
    /// The recording of a disk of this size, or of two disks that have this size together.
    ///
    /// # Errors
    /// As for [`Recorder::create`].
    pub(crate) fn recorder(&self, size: u64) -> Result<Arc<Recorder>, RecordError> {
        match self.second {
            Some(second) => Recorder::of_two(self.tape, second, size - second),
            None => Recorder::create(self.tape, size, false),
        }
    }
}

/// What recording a workload came to.
#[derive(Clone, Debug)]
pub struct Tested {
    /// What is on the recording.
    pub recorded: Recorded,
    /// How the command ended.
    pub ran: Ran,
    /// Writes that the command caused. The mount and the unmount have some of their own.
    pub writes: u64,
}

/// Mounts a recorded copy of the base, runs the command, and unmounts. The recording says where the
/// command began.
///
/// # Errors
/// If the disk cannot be made or mounted, or the recording not be written. How the command ended
/// is no error of this function.
pub fn record(run: Run<'_>) -> Result<Tested, RunError> {
    if let Some(policy) = run.fs.policy() {
        return own::run::record(run, policy);
    }
    let told = |what: &Path| {
        let what = what.display().to_string();
        move |error| RunError::System { what, error }
    };
    let copy = run.dir.join("disk.img");
    let size = copy_of(run.base, &copy, run.stop).map_err(told(&copy))?;
    let file = File::options().read(true).write(true).open(&copy).map_err(told(&copy))?;
    let recorder = run.recorder(size)?;
    let served = Served::new(&recorder, file, size, run.second, run.dir).map_err(told(run.dir))?;
    let open = |path: &PathBuf| File::options().read(true).write(true).open(path);
    let disks: io::Result<Vec<File>> = served.disks.iter().map(open).collect();
    let disks = disks.map_err(told(&copy))?;
    let variables = [(ACKS, served.acks.display().to_string())];
    let running = |place, second| Running {
        command: run.command,
        place,
        second,
        variables: &variables,
        timeout: run.timeout,
        stop: run.stop,
        log: run.log,
    };
    let (mut before, mut after) = (0, 0);
    let mut begin = || {
        before = served.writes();
        recorder.begin()
    };
    let mut written = || after = served.writes();
    let failed = told(Path::new("--run"));
    let ran = match run.fs.for_workload().map(|one| one.with_options(run.mount_options)) {
        // Not mounted by this process, which serves the disk: if it is killed while it mounts,
        // unmounts or writes back, it would wait for itself.
        Some(mounting) => {
            let point = mount_point(run.dir).map_err(told(run.dir))?;
            let second = run.second.map(|_| second_mount_point(run.dir)).transpose();
            let second = second.map_err(told(run.dir))?;
            let disk = |file| Disk { file, mounting: mounting.clone() };
            let disks = disks.into_iter().map(disk).collect();
            let running = running(&point, second.as_deref());
            running.run(disks, &mut begin, &mut written).map_err(failed)?
        }
        None => {
            let device = LoopDevice::attach(&disks[0], false).map_err(told(&copy))?;
            begin().map_err(told(run.tape))?;
            let running = running(device.path(), None);
            running.run(Vec::new(), &mut || Ok(()), &mut written).map_err(failed)?
        }
    };
    let writes = after - before;
    drop(served);
    let output = |source| RecordError::Output { path: run.tape.to_owned(), source };
    let recorded = recorder.finish().map_err(output)?;
    // The recording and the base say all that it does.
    let _ = std::fs::remove_file(&copy);
    Ok(Tested { recorded, ran, writes })
}

/// Copies a file, sparse where it is zero; gives its size.
fn copy_of(base: &Path, copy: &Path, stop: &Stop) -> io::Result<u64> {
    let file = File::open(base)?;
    let size = file.metadata()?.len();
    let source = Source::new(Some(file.try_clone()?), file, size);
    match std::fs::remove_file(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Image::new(Arc::new(source), Arc::default(), Extents::default()).save(copy, stop)?;
    Ok(size)
}

/// A directory in which a workload finds files that this process serves.
#[derive(Debug)]
struct ServedDirectory {
    directory: DiskDirectory<Node>,
    point: PathBuf,
}

impl ServedDirectory {
    fn new(dir: &Path) -> io::Result<ServedDirectory> {
        let point = std::path::absolute(dir)?.join("disks");
        match std::fs::create_dir(&point) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let directory = DiskDirectory::mount_at(&point)?;
        Ok(ServedDirectory { directory, point })
    }

    fn insert(&self, name: &str, node: Arc<Node>) -> io::Result<PathBuf> {
        Ok(self.directory.insert_named(name, node)?.1)
    }
}

impl Drop for ServedDirectory {
    fn drop(&mut self) {
        // Fails as long as it is mounted, which ends with the process at the latest.
        let _ = std::fs::remove_dir(&self.point);
    }
}

/// The disks of a workload and the file for its acknowledgements.
struct Served {
    /// Keeps the directory mounted.
    _directory: ServedDirectory,
    nodes: Vec<Arc<Node>>,
    disks: Vec<PathBuf>,
    acks: PathBuf,
}

impl Served {
    fn new(
        recorder: &Arc<Recorder>,
        file: File,
        size: u64,
        second: Option<u64>,
        dir: &Path,
    ) -> io::Result<Served> {
        let directory = ServedDirectory::new(dir)?;
        let mut nodes = Vec::new();
        if let Some(begin) = second {
            let (recorder, file) = (Arc::clone(recorder), file.try_clone()?);
            nodes.push(RecordedDisk::second(recorder, file, begin, size - begin)?);
        }
        nodes.insert(0, RecordedDisk::new(Arc::clone(recorder), file, second.unwrap_or(size))?);
        let nodes: Vec<Arc<Node>> =
            nodes.into_iter().map(|disk| Arc::new(Node::Disk(disk))).collect();
        let insert = |(name, node)| directory.insert(name, Arc::clone(node));
        let disks: io::Result<Vec<PathBuf>> =
            ["disk", "disk2"].into_iter().zip(&nodes).map(insert).collect();
        let disks = disks?;
        let acks = Node::Acks(MarkFile::new(Arc::clone(recorder)));
        let acks = directory.insert("acks", Arc::new(acks))?;
        Ok(Served { _directory: directory, nodes, disks, acks })
    }

    fn writes(&self) -> u64 {
        self.nodes.iter().map(|node| node.writes()).sum()
    }
}

/// The file for the acknowledgements of a workload that has no disk.
#[derive(Debug)]
pub(crate) struct AckDirectory {
    /// Keeps the directory mounted.
    _directory: ServedDirectory,
    acks: PathBuf,
}

impl AckDirectory {
    pub(crate) fn new(marks: MarkFile, dir: &Path) -> io::Result<AckDirectory> {
        let directory = ServedDirectory::new(dir)?;
        let acks = directory.insert("acks", Arc::new(Node::Acks(marks)))?;
        Ok(AckDirectory { _directory: directory, acks })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.acks
    }
}
