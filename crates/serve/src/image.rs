//! Images: a volume in a regular file or on a block device.

pub mod array;
mod create;
mod headers;
mod lock;
mod prospect;
mod used;

pub use create::{AttachOptions, CreateOptions, attach, create, fresh_id};
pub(crate) use headers::Headers;

use crate::device::raw;
use rustix::fs::SeekFrom;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::{IoError, Label};
use seekless_engine::layout::LayoutError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why an image cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The path does not exist.
    #[error("{} does not exist; `seekless create` makes a volume", .0.display())]
    NotFound(PathBuf),
    /// The file to serve without a layout does not exist.
    #[error("{} does not exist; `truncate -s 1G FILE` makes an empty disk", .0.display())]
    NoRaw(PathBuf),
    /// The path of the log does not exist.
    #[error(
        "{} does not exist; name the log that the origin was attached to with `seekless create \
         --log` (if it is gone, all that was in it only is lost, and `seekless abandon-log` makes \
         the origin usable without it)",
        .0.display()
    )]
    NoLog(PathBuf),
    /// Symbolic links go round in a circle.
    #[error("{} is a symbolic link that leads back to itself; name the image", .0.display())]
    LeadsNowhere(PathBuf),
    /// The path exists.
    #[error("{} already exists; --force replaces it", .0.display())]
    Exists(PathBuf),
    /// Another process holds the lock.
    #[error(
        "{} is in use by another process{}; stop that one first",
        .path.display(),
        holder(*.pid)
    )]
    InUse {
        /// The image.
        path: PathBuf,
        /// The process that holds it, if the system says.
        pid: Option<u32>,
    },
    /// A process that was unmounted has it, and does not come to its end.
    #[error(
        "{} is in use by process {pid}, which was unmounted and has written nothing for {seconds} \
         s; look at its --messages, or end it and run `seekless fsck --repair`",
        .path.display()
    )]
    Stuck {
        /// The image.
        path: PathBuf,
        /// The process.
        pid: u32,
        /// How long it made no progress.
        seconds: u64,
    },
    /// A loop device stands on it.
    #[error(
        "{} is in use: the loop device {} stands on it{}; `umount` what is mounted and \
         `losetup --detach {}` first",
        .path.display(),
        .device.display(),
        mounted(.mounted_at),
        .device.display()
    )]
    UnderLoop {
        /// The image.
        path: PathBuf,
        /// The loop device.
        device: PathBuf,
        /// Where it is mounted, if it is.
        mounted_at: Option<PathBuf>,
    },
    /// The command names it twice.
    #[error(
        "{} is given twice; name two different files or devices",
        .0.display()
    )]
    Twice(PathBuf),
    /// The device is not empty.
    #[error("{} holds {what}; --force overwrites it", .path.display())]
    Occupied {
        /// The device.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Neither a file nor a block device.
    #[error("{} is neither a regular file nor a block device", .0.display())]
    NotBlocks(PathBuf),
    /// The volume cannot be made with this size.
    #[error("{}: {reason}", .path.display())]
    BadSize {
        /// The image.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The image has no such volume.
    #[error("{}: {source}", .path.display())]
    Layout {
        /// The image.
        path: PathBuf,
        /// Why.
        source: LayoutError,
    },
    /// The length is not a whole number of blocks: the rest could not be addressed.
    #[error(
        "{} has {bytes} bytes, no whole number of 4 KiB blocks; {}",
        .path.display(),
        lengthening(*.device)
    )]
    NotWhole {
        /// The file or device.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// It is a block device.
        device: bool,
    },
    /// A log cannot be attached to it.
    #[error("{} {why}", .path.display())]
    NoOrigin {
        /// The file or device.
        path: PathBuf,
        /// The reason and the remedy.
        why: &'static str,
    },
    /// The operating system refuses.
    #[error("cannot {action} {}: {source}", .path.display())]
    Os {
        /// The operation.
        action: &'static str,
        /// The image.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

fn mounted(at: &Option<PathBuf>) -> String {
    at.as_ref().map(|at| format!(", mounted at {}", at.display())).unwrap_or_default()
}

fn lengthening(device: bool) -> &'static str {
    match device {
        true => "use a partition that is one",
        false => "truncate -s %4096 lengthens it",
    }
}

impl ImageError {
    fn os(action: &'static str, path: &Path, source: impl Into<io::Error>) -> ImageError {
        ImageError::Os { action, path: path.to_owned(), source: source.into() }
    }
}

/// An open image, locked against other processes until it and every handle taken from it are
/// dropped. Blocking access through [`Disk`] is for code outside the event loop.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    blocks: u64,
    /// Place of the labels of its blocks, if it has any.
    headers: Option<Headers>,
    read_only: bool,
    block_device: bool,
    /// The file below a loop device, locked as well.
    below: Vec<File>,
}

/// Opens an image. A writer excludes all others, readers exclude writers.
///
/// # Errors
/// [`ImageError::NotFound`], [`ImageError::InUse`], [`ImageError::UnderLoop`],
/// [`ImageError::Twice`], [`ImageError::NotBlocks`], or what the operating system says.
pub fn open(path: &Path, read_only: bool) -> Result<Image, ImageError> {
    let (file, block_device) = open_file(path, read_only)?;
    Image::adopt(file, path, read_only, block_device)
}

/// Opens the log of an origin.
///
/// # Errors
/// As for [`open`], but [`ImageError::NoLog`] if there is none.
pub fn open_log(path: &Path, read_only: bool) -> Result<Image, ImageError> {
    open(path, read_only).map_err(|error| match error {
        ImageError::NotFound(path) => ImageError::NoLog(path),
        other => other,
    })
}

/// Names in an error of an attached volume the half that it concerns.
pub fn blame_half(origin: &Image, log: Option<&Image>, source: LayoutError) -> ImageError {
    match (source, log) {
        (LayoutError::OfLog(source), Some(log)) => log.blame(*source),
        (source, _) => origin.blame(source),
    }
}

/// Opens an image to read the superblock while another process may write: the content may change at
/// any time.
///
/// # Errors
/// As for [`open`], except [`ImageError::InUse`].
pub(crate) fn peek(path: &Path) -> Result<Image, ImageError> {
    let (file, block_device) = open_file(path, true)?;
    Image::measure(file, path, true, block_device)
}

fn open_file(path: &Path, read_only: bool) -> Result<(File, bool), ImageError> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ImageError::NotFound(path.to_owned()));
        }
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(ImageError::LeadsNowhere(path.to_owned()));
        }
        Err(error) => return Err(ImageError::os("open", path, error)),
    };
    let block_device = found.file_type().is_block_device();
    if !block_device && !found.is_file() {
        return Err(ImageError::NotBlocks(path.to_owned()));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    if block_device && !read_only {
        // On a block device this makes the kernel refuse a device that is mounted or otherwise in
        // use.
        options.custom_flags(libc::O_EXCL);
    }
    let mut patience = lock::Patience::default();
    loop {
        match options.open(path) {
            Ok(file) => return Ok((file, block_device)),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                lock::wait_for_device(&found, path, &mut patience)?;
            }
            Err(error) => return Err(ImageError::os("open", path, error)),
        }
    }
}

impl Image {
    /// Locks an open file and takes its size.
    fn adopt(
        file: File,
        path: &Path,
        read_only: bool,
        block_device: bool,
    ) -> Result<Image, ImageError> {
        if !read_only {
            used::refuse(&file, path)?;
        }
        let below = lock::take(&file, path, read_only)?;
        let image = Image::measure(file, path, read_only, block_device)?;
        Ok(Image { below, ..image })
    }

    fn measure(
        file: File,
        path: &Path,
        read_only: bool,
        block_device: bool,
    ) -> Result<Image, ImageError> {
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))
            .map_err(|errno| ImageError::os("find the size of", path, errno))?;
        let file_blocks = bytes / BLOCK_BYTES as u64;
        let headers = Headers::find(&file, file_blocks);
        let blocks = headers.map_or(file_blocks, |headers| headers.blocks);
        let path = path.to_owned();
        Ok(Image { file, path, blocks, headers, read_only, block_device, below: Vec::new() })
    }

    /// Makes a file one hole of so many bytes. Truncates it to zero first, so that no old content
    /// survives.
    fn set_blank(&self, bytes: u64) -> Result<(), ImageError> {
        let set = self.file.set_len(0).and_then(|()| self.file.set_len(bytes));
        set.map_err(|error| ImageError::os("set the size of", &self.path, error))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it was opened for reading only.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// True if it is a block device, not a regular file.
    pub fn is_block_device(&self) -> bool {
        self.block_device
    }

    /// Place of the labels of its blocks, if it has any.
    pub(crate) fn headers(&self) -> Option<Headers> {
        self.headers
    }

    /// True if it is the file or device at that path.
    pub fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(found)) = (self.file.metadata(), std::fs::metadata(path)) else {
            return false;
        };
        lock::is_same(&own, &found)
    }

    /// Another handle to the same open file; it shares the lock.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn handle(&self) -> Result<File, ImageError> {
        self.file.try_clone().map_err(|error| ImageError::os("open", &self.path, error))
    }

    /// The same image once more, with the same locks.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(crate) fn again(&self) -> Result<Image, ImageError> {
        let mut locks = self.locks()?;
        let below = locks.split_off(1);
        let [file] = <[File; 1]>::try_from(locks).expect("the first one is to the image");
        Ok(Image { file, path: self.path.clone(), below, ..*self })
    }

    /// Bytes that the file system of the image has for it; `None` if it does not say.
    pub(crate) fn room(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.file).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Handles that keep all locks of the image after it is dropped; the first is to the image
    /// itself.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn locks(&self) -> Result<Vec<File>, ImageError> {
        let all = [&self.file].into_iter().chain(&self.below);
        let all: io::Result<Vec<File>> = all.map(File::try_clone).collect();
        all.map_err(|error| ImageError::os("open", &self.path, error))
    }

    /// The same file, opened another time: write errors are reported once to each open file. It
    /// holds no lock and is for syncs only.
    ///
    /// # Errors
    /// If the system does not support that, or the process has no file descriptor left.
    pub(crate) fn opened_anew(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Refuses a file or device that ends with part of a block.
    ///
    /// # Errors
    /// [`ImageError::NotWhole`], and what the operating system says.
    pub fn check_whole(&self) -> Result<(), ImageError> {
        let bytes = rustix::fs::seek(&self.file, SeekFrom::End(0))
            .map_err(|errno| ImageError::os("find the size of", &self.path, errno))?;
        if bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Ok(());
        }
        let (path, device) = (self.path.clone(), self.block_device);
        Err(ImageError::NotWhole { path, bytes, device })
    }

    /// Adds the path of the image to an error of its volume.
    pub fn blame(&self, source: LayoutError) -> ImageError {
        ImageError::Layout { path: self.path.clone(), source }
    }

    fn check_range(&self, at: BlockNr, count: u32) -> Result<(), IoError> {
        let end = at.checked_add(u64::from(count));
        if end.is_none_or(|end| end > self.blocks) {
            return Err(IoError::OutOfRange { at, count });
        }
        Ok(())
    }
}

impl Disk for Image {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.check_range(at, count)?;
        raw::read_blocks(&self.file, at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.check_range(at, data.blocks())?;
        if self.read_only {
            return Err(IoError::ReadOnly);
        }
        raw::write_blocks(&self.file, at, &data)?;
        match self.headers {
            Some(headers) => headers.clear(&self.file, at, data.blocks()),
            None => Ok(()),
        }
    }

    fn has_labels(&self) -> bool {
        self.headers.is_some()
    }

    fn write_labelled(&mut self, at: BlockNr, data: Data, labels: &[Label]) -> Result<(), IoError> {
        self.write(at, data)?;
        match self.headers {
            Some(headers) => headers.write(&self.file, at, labels),
            None => Ok(()),
        }
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.check_range(at, count)?;
        match self.headers {
            Some(headers) => headers.read(&self.file, at, count),
            None => Ok(vec![Label::default(); count as usize]),
        }
    }

    fn flush(&mut self) -> Result<(), IoError> {
        raw::sync(&self.file).map_err(raw::sync_error)
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        raw::next_data(&self.file, at, self.blocks)
    }
}

#[cfg(test)]
mod tests;
