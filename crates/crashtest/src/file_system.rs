//! File systems that `crash-test` can make: the command that makes each, its mount options, the
//! smallest disk, and the Debian package that brings its programs.
//!
//! A recipe holds what would otherwise be a trap. ext4 gets blocks of 4096 bytes on small disks
//! too, and no work that goes on after `mkfs`. XFS is mounted with `nouuid`, because all states of
//! a sweep have one UUID.

use crate::own;
use crate::own::policy::OwnPolicy;
use crate::sandbox::Mounting;
use seekless_formats::Kind;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// Bytes of a block. A disk is a whole number of them.
pub const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
/// `MS_NOATIME`: a check that only reads causes no writes of access times.
const NO_ACCESS_TIMES: u32 = 1024;

/// What the disk under test holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// ext4, with blocks of 4096 bytes.
    #[default]
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
    /// None: the workload uses the block device itself.
    Raw,
    /// A format of Seekless under this policy, served by this process.
    Own(Kind, OwnPolicy),
}

/// A program that a file system needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name, to be found in `PATH` or in `/sbin` and `/usr/sbin`.
    pub name: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
}

/// Why there is no file system.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The disk is too small.
    #[error(
        "a disk of {size} bytes is too small for {fs}; give --size {least}M or more",
        least = fs.smallest() / MIB
    )]
    TooSmall {
        /// For what.
        fs: FileSystem,
        /// Bytes.
        size: u64,
    },
    /// The disk is no whole number of blocks.
    #[error("a disk of {size} bytes is not a multiple of 4096; give --size {}", round_up(*.size))]
    Uneven {
        /// Bytes.
        size: u64,
    },
    /// The program is not there.
    #[error("{} was not found; install the package {}", .0.name, .0.package)]
    NoProgram(Program),
    /// The program failed.
    #[error("{command} failed ({status}): {output}; check the free space where the image is")]
    Failed {
        /// What ran.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// Our own file system cannot be made.
    #[error("cannot make a file system in {path}: {error}")]
    Own {
        /// Which.
        path: String,
        /// Why.
        error: String,
    },
    /// The image cannot be used.
    #[error("{path}: {error}; give a directory that can be written")]
    Image {
        /// Which.
        path: String,
        /// Why.
        error: io::Error,
    },
}

/// The formats that a crash test runs programs on: those that lie on blocks.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::all().filter(|kind| !kind.needs_objects)
}

/// The next multiple of a block.
fn round_up(size: u64) -> u64 {
    size.next_multiple_of(BLOCK)
}

impl FromStr for FileSystem {
    type Err = String;

    fn from_str(name: &str) -> Result<FileSystem, String> {
        let own =
            |kind: Kind| OwnPolicy::of(kind).into_iter().map(move |one| FileSystem::Own(kind, one));
        let all = FileSystem::ALL.into_iter().chain(kinds().flat_map(own));
        all.into_iter().find(|fs| fs.to_string() == name).ok_or_else(|| {
            let ours = |kind: Kind| {
                let policies = OwnPolicy::of(kind);
                let policies: Vec<String> = policies.iter().map(OwnPolicy::to_string).collect();
                format!("{}:{}", kind.qualified, policies.join("|"))
            };
            let ours: Vec<String> = kinds().map(ours).collect();
            format!(
                "unknown file system `{name}`; known are ext4, xfs, btrfs, f2fs, raw and {}",
                ours.join(", ")
            )
        })
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileSystem::Own(kind, policy) => f.pad(&format!("{}:{policy}", kind.qualified)),
            fs => f.pad(fs.name()),
        }
    }
}

/// What `--fs` of a crash test names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One file system.
    One(FileSystem),
    /// A format of Seekless under each policy, from one run of the workload.
    EveryPolicy(Kind),
}

impl Default for Choice {
    /// The file system that most programs run on.
    fn default() -> Choice {
        Choice::One(FileSystem::Ext4)
    }
}

impl Choice {
    /// The file system that the workload runs on.
    pub fn for_workload(self) -> FileSystem {
        match self {
            Choice::One(fs) => fs,
            Choice::EveryPolicy(kind) => FileSystem::Own(kind, OwnPolicy::default()),
        }
    }

    /// The file system to make. A clean one with a log takes every policy, one without a log not
    /// those that need it.
    pub fn to_make(self) -> FileSystem {
        match self {
            Choice::One(fs) => fs,
            Choice::EveryPolicy(kind) => {
                let every = OwnPolicy::of(kind).into_iter();
                let logged = every.clone().find(|policy| policy.kind.is_logged());
                FileSystem::Own(kind, logged.unwrap_or_default())
            }
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Choice, String> {
        let kind =
            name.strip_suffix(":all").and_then(|name| kinds().find(|kind| kind.qualified == name));
        match kind {
            Some(kind) => Ok(Choice::EveryPolicy(kind)),
            None => name.parse().map(Choice::One),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::One(fs) => fs.fmt(f),
            Choice::EveryPolicy(kind) => f.pad(&format!("{}:all", kind.qualified)),
        }
    }
}

impl FileSystem {
    /// All but those of Seekless.
    pub const ALL: [FileSystem; 5] =
        [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs, FileSystem::Raw];

    /// The name that `mount` and `/proc/filesystems` use; for one of Seekless that of its kind.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
            FileSystem::F2fs => "f2fs",
            FileSystem::Raw => "raw",
            FileSystem::Own(kind, _) => kind.qualified,
        }
    }

    /// The policy, if this is a file system of Seekless.
    pub fn policy(self) -> Option<OwnPolicy> {
        match self {
            FileSystem::Own(_, policy) => Some(policy),
            _ => None,
        }
    }

    /// Bytes of the smallest disk. Below it `mkfs` refuses, or leaves out the journal.
    pub fn smallest(self) -> u64 {
        match self {
            FileSystem::Ext4 => 16 * MIB,
            FileSystem::Xfs => 300 * MIB,
            FileSystem::Btrfs => 109 * MIB,
            FileSystem::F2fs => 64 * MIB,
            FileSystem::Raw => BLOCK,
            FileSystem::Own(..) => 4 * MIB,
        }
    }

    /// Programs that [`FileSystem::make`] starts.
    pub fn programs(self) -> &'static [Program] {
        match self {
            FileSystem::Ext4 => &[Program { name: "mkfs.ext4", package: "e2fsprogs" }],
            FileSystem::Xfs => &[Program { name: "mkfs.xfs", package: "xfsprogs" }],
            FileSystem::Btrfs => &[Program { name: "mkfs.btrfs", package: "btrfs-progs" }],
            FileSystem::F2fs => &[Program { name: "mkfs.f2fs", package: "f2fs-tools" }],
            FileSystem::Raw | FileSystem::Own(..) => &[],
        }
    }

    /// The command that makes the file system, without the path of the image. Empty if there is
    /// none to make.
    pub fn mkfs(self) -> &'static [&'static str] {
        match self {
            // Lazy initialisation would write to the disk long after the mount.
            FileSystem::Ext4 => &[
                "mkfs.ext4",
                "-q",
                "-F",
                "-b",
                "4096",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            ],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-f", "-K"],
            FileSystem::Btrfs => &["mkfs.btrfs", "-q", "-f", "-K"],
            FileSystem::F2fs => &["mkfs.f2fs", "-q", "-f", "-t", "0"],
            FileSystem::Raw | FileSystem::Own(..) => &[],
        }
    }

    /// How the workload mounts it; `None` with [`FileSystem::Raw`]. A workload that only reads
    /// writes nothing.
    pub fn for_workload(self) -> Option<Mounting> {
        self.mounting(NO_ACCESS_TIMES, "")
    }

    /// How a check mounts a state; `None` with [`FileSystem::Raw`].
    pub fn for_checks(self) -> Option<Mounting> {
        // All states have the UUID of the disk they come from; XFS mounts one of them at a time
        // unless told otherwise.
        let options = if self == FileSystem::Xfs { "nouuid" } else { "" };
        self.mounting(NO_ACCESS_TIMES, options)
    }

    fn mounting(self, flags: u32, options: &str) -> Option<Mounting> {
        if self.policy().is_some() {
            return Some(own::mounting());
        }
        let how = Mounting { kind: self.name().to_owned(), flags, options: options.to_owned() };
        Some(how).filter(|_| self != FileSystem::Raw)
    }

    /// Whether a disk has a size that this file system can use.
    ///
    /// # Errors
    /// With the size to give instead.
    pub fn fits(self, size: u64) -> Result<(), MakeError> {
        if size < self.smallest() {
            return Err(MakeError::TooSmall { fs: self, size });
        }
        if !size.is_multiple_of(BLOCK) {
            return Err(MakeError::Uneven { size });
        }
        Ok(())
    }

    /// Makes the file system in an image, a file of the size of the disk. What the file holds is
    /// lost, except with [`FileSystem::Raw`].
    ///
    /// # Errors
    /// If the size does not fit, the program is missing, or it fails.
    pub fn make(self, image: &Path) -> Result<(), MakeError> {
        self.make_with(image, &[])
    }

    /// The same with more arguments for the program. Those of Seekless take none.
    ///
    /// # Errors
    /// As for [`FileSystem::make`].
    pub fn make_with(self, image: &Path, more: &[&str]) -> Result<(), MakeError> {
        let failed = |error| MakeError::Image { path: image.display().to_string(), error };
        self.fits(std::fs::metadata(image).map_err(failed)?.len())?;
        if let FileSystem::Own(kind, policy) = self {
            return own::make(kind, policy, image);
        }
        let (Some(program), [_, arguments @ ..]) = (self.programs().first(), self.mkfs()) else {
            return Ok(());
        };
        let path = program.find().ok_or(MakeError::NoProgram(*program))?;
        let mut command = Command::new(path);
        command.args(arguments).args(more).arg(image).stdin(Stdio::null());
        let output = command.output().map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(MakeError::Failed {
            command: [self.mkfs(), more].concat().join(" "),
            status: output.status.to_string(),
            output: String::from_utf8_lossy(&said).trim().replace('\n', ", "),
        })
    }
}

impl Program {
    /// Its path, in `PATH` or where system programs are: the `PATH` of users often lacks `/sbin`.
    pub fn find(&self) -> Option<std::path::PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into);
        let mut places = std::env::split_paths(&path).chain(system);
        places.find_map(|dir| Some(dir.join(self.name)).filter(|path| path.is_file()))
    }
}

#[cfg(test)]
mod tests;
