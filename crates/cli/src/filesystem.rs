//! What the commands for file systems share: the volume below, and how failures are reported.

use crate::failure::{Exit, Failure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_formats::{FsError, Kind, MountedFs};
use seekless_fs::core::{CoreOptions, WRITE_AGES_S};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use seekless_serve::files::{FilesError, Volume, VolumeOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The formats of file systems, by name.
pub fn formats() -> impl TypedValueParser<Value = Kind> {
    let values = Kind::all().map(|kind| PossibleValue::new(kind.name).help(kind.summary));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Kind>())
}

/// How writes of metadata may be ordered: the policies that are built.
pub fn policies() -> impl TypedValueParser<Value = PolicyKind> {
    let named = |name: &str| PolicyKind::ALL.into_iter().find(|policy| policy.name() == name);
    PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name))
        .try_map(move |name| named(&name).ok_or("no such policy"))
}

/// When content is written under a policy with a log, by name.
pub fn data_modes() -> impl TypedValueParser<Value = DataMode> {
    let named = |name: &str| DataMode::ALL.into_iter().find(|mode| mode.name() == name);
    PossibleValuesParser::new(DataMode::ALL.map(DataMode::name))
        .try_map(move |name| named(&name).ok_or("no such mode"))
}

/// `on` or `off`.
pub fn on_or_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|word| word == "on")
}

/// Where the volume is, apart from its images.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct VolumeArgs {
    /// Go on without members of an array that should be there.
    #[arg(long)]
    pub degraded: bool,
    /// The log of a disk caching disk, if it is on a device of its own.
    #[arg(long, value_name = "LOG", conflicts_with = "degraded")]
    pub log: Option<PathBuf>,
}

impl VolumeArgs {
    /// The options to open the volume with.
    pub fn options(&self, images: &[PathBuf], read_only: bool) -> VolumeOptions {
        let mut options = VolumeOptions::new(images.to_vec(), read_only);
        options.degraded = self.degraded;
        options.log.clone_from(&self.log);
        options
    }
}

/// When what was changed is written if nothing asks for it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WriteAge {
    /// Write the content of a file so many seconds after its first change; directories a second
    /// earlier, other metadata two. A crash may cost what is younger and was not synced.
    #[arg(long, value_name = "SECONDS", default_value_t = CoreOptions::default().write_age_s)]
    #[arg(value_parser = clap::value_parser!(u64).range(WRITE_AGES_S))]
    write_age: u64,
}

impl WriteAge {
    /// As [`CoreOptions::write_age_s`].
    pub fn seconds(self) -> u64 {
        self.write_age
    }
}

/// Where the log of a file system is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JournalArgs {
    /// The device with the log of the file system, if it has one of its own.
    #[arg(long, value_name = "IMAGE")]
    pub journal: Option<PathBuf>,
}

impl JournalArgs {
    /// Opens the volume of a file system with its log.
    ///
    /// # Errors
    /// If one of them is unusable or in use, and if the file system has no such log.
    pub fn open(&self, options: &VolumeOptions) -> Result<Volume, Failure> {
        let Some(path) = &self.journal else { return Ok(Volume::open(options)?) };
        let journal = Volume::open_journal(options, path)?;
        let mut volume = Volume::open(options)?;
        let at = Kind::of(&mut volume)
            .and_then(|kind| (kind.journal_at)(&mut volume))
            .map_err(|error| blame(&options.images, &error))
            .and_then(|at| at.ok_or_else(|| no_journal(&options.images, path)));
        match at {
            Ok(at) => Ok(volume.join(journal, at)?),
            Err(failure) => {
                // The volume is left as it was found.
                let _ = volume.close();
                Err(failure)
            }
        }
    }
}

fn no_journal(images: &[PathBuf], path: &Path) -> Failure {
    let (images, path) = (names(images), path.display());
    Failure::usage(format!("{images}: the file system has no log on another device such as {path}"))
        .hint("leave out --journal; `seekless mkfs --journal` puts the log of a new one there")
}

/// The images in one word, for messages.
pub fn names(images: &[PathBuf]) -> String {
    let names: Vec<String> = images.iter().map(|path| path.display().to_string()).collect();
    names.join(" ")
}

/// A failure of the file system on these images.
pub fn blame(images: &[PathBuf], error: &FsError) -> Failure {
    let exit = match error {
        FsError::BadOption(_) | FsError::TooSmall { .. } => Exit::Usage,
        FsError::Io(_) => Exit::Backing,
        FsError::NotRepaired { .. } => Exit::Failed,
        _ => Exit::Image,
    };
    Failure::from_message(exit, &format!("{}: {error}", names(images)))
}

/// Says what a mount has met that asks for a repair.
pub fn warn_of_damage(images: &[PathBuf], fs: &dyn MountedFs) {
    let Some(damage) = fs.damage() else { return };
    crate::term::say(&format!(
        "warning: {}: {damage}; run `seekless fsck --repair` after the unmount",
        names(images)
    ));
}

/// A failure of the device below.
pub fn blame_device(images: &[PathBuf], error: IoError) -> Failure {
    Failure::new(Exit::Backing, format!("{}: {error}", names(images)))
}

/// Blocks at both ends that must be empty: file systems and partition tables begin or end there.
const SIGN_BLOCKS: u64 = 32;

/// True if both ends of a range hold nothing.
pub fn ends_are_empty(disk: &mut dyn Disk, range: Range<BlockNr>) -> Result<bool, IoError> {
    let count = SIGN_BLOCKS.min(range.end - range.start);
    for at in [range.start, range.end - count] {
        let data = disk.read(at, count as u32)?;
        if data.to_bytes().iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Nanoseconds since the epoch.
pub fn wall_clock() -> i64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// An absolute path without symbolic links, where that can be told.
pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Failure {
        let exit = match &error {
            FilesError::NoDirectory(_) | FilesError::NotDirectory(_) => Exit::Usage,
            FilesError::Abandoned(_) => Exit::Busy,
            FilesError::NoFuse
            | FilesError::NoHelper
            | FilesError::NoRight
            | FilesError::Detached(_) => Exit::Lacking,
            FilesError::Mount { .. } | FilesError::Os(_) => Exit::Failed,
            FilesError::Failed { .. } => Exit::Backing,
        };
        let failure = Failure::from_message(exit, &error.to_string());
        match exit {
            Exit::Backing => failure.hint("repair or replace it, then run `seekless fsck`"),
            _ => failure,
        }
    }
}
