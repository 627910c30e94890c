//! Making a new image.

use super::{Headers, Image, ImageError, open};
use crate::device::raw::{self, ZeroWay};
use rustix::io::Errno;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::dcd::{self, Shape};
use seekless_engine::layout::loge::{Heuristic, TableForm, sparse_device_blocks};
use seekless_engine::layout::{self, FormatOptions, Kind, LayoutError};
use seekless_engine::superblock::{Superblock, SuperblockError};
use seekless_engine::units::BLOCK_BYTES;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The largest volume: 2⁴⁸ bytes, what common file systems can hold in one sparse file.
const MOST_BLOCKS: u64 = 1 << 36;
/// Blocks looked at, at both ends of a device, for signs that it holds something: partition
/// tables, boot sectors, the superblocks of file systems, ours.
const SIGN_BLOCKS: u32 = 32;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct CreateOptions {
    /// Layout of the volume.
    pub kind: Kind,
    /// Size of the volume in blocks of 4 KiB as clients see it; `None` means the largest that
    /// fits on the block device.
    pub blocks: Option<u64>,
    /// Addresses of a [`Kind::Loge`] volume that has more of them than blocks; not in a device of
    /// which the size is to be found out.
    pub addresses: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
    /// How [`Kind::Loge`] chooses places.
    pub heuristic: Heuristic,
    /// Form of the table of a `loge` volume.
    pub table: TableForm,
    /// Blocks in a segment of a log-structured layout.
    pub segment: Option<u32>,
    /// Give each block a label that costs no time, as the headers of sectors do: for images that
    /// stand for a disk. In files only.
    pub headers: bool,
    /// How the log of [`Kind::Dcd`] is cut.
    pub shape: Shape,
}

/// Makes a volume in a new sparse file or on a block device, and returns it open and locked.
///
/// # Errors
/// Refuses an existing file, a device that is not empty, and an image in use; a size that the
/// layout or the device does not have; and what the operating system says. Nothing is left behind
/// in a new file's place.
pub fn create(path: &Path, options: &CreateOptions) -> Result<Image, ImageError> {
    let found = std::fs::metadata(path);
    match found {
        Ok(found) if found.file_type().is_block_device() => on_device(path, options),
        Ok(found) if !found.is_file() => Err(ImageError::NotBlocks(path.to_owned())),
        Ok(_) if !options.force => Err(ImageError::Exists(path.to_owned())),
        Ok(_) => {
            let blocks = file_blocks(path, options)?;
            fill_file(open(path, false)?, options, blocks)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_new_file(path, options),
        Err(error) => Err(ImageError::os("create", path, error)),
    }
}

fn file_blocks(path: &Path, options: &CreateOptions) -> Result<u64, ImageError> {
    let bad = |reason: &str| ImageError::BadSize { path: path.to_owned(), reason: reason.into() };
    match options.blocks {
        None => Err(bad("a volume in a file needs a size")),
        Some(0) => Err(bad("a volume needs at least one block of 4 KiB")),
        Some(blocks) if blocks > MOST_BLOCKS => Err(bad("a volume has at most 256 TiB")),
        Some(blocks) => Ok(blocks),
    }
}

fn in_new_file(path: &Path, options: &CreateOptions) -> Result<Image, ImageError> {
    let blocks = file_blocks(path, options)?;
    let file = match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(ImageError::Exists(path.to_owned()));
        }
        Err(error) => return Err(ImageError::os("create", path, error)),
    };
    let made = Image::adopt(file, path, false, false)
        .and_then(|image| fill_file(image, options, blocks))
        .and_then(|image| sync_directory(path).map(|()| image));
    if made.is_err() {
        // The first error is the one worth reporting.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn fill_file(mut image: Image, options: &CreateOptions, blocks: u64) -> Result<Image, ImageError> {
    let device_blocks = match options.addresses {
        Some(addresses) => sparse_device_blocks(blocks, addresses),
        None => options.kind.device_blocks_for(blocks, options.segment),
    };
    let headers = options.headers.then_some(Headers { blocks: device_blocks });
    let file_blocks = headers.map_or(device_blocks, Headers::file_blocks);
    let bytes = file_blocks * BLOCK_BYTES as u64;
    try_out(&image, options, device_blocks, blocks)?;
    // Shortened to nothing first, so that no byte of an earlier content survives.
    image
        .file
        .set_len(0)
        .and_then(|()| image.file.set_len(bytes))
        .map_err(|error| ImageError::os("set the size of", &image.path, error))?;
    (image.blocks, image.headers) = (device_blocks, headers);
    if let Some(headers) = headers {
        let written = headers.write_descriptor(&image.file);
        written.map_err(|error| image.blame(LayoutError::Io(error)))?;
    }
    format(&mut image, options, blocks)?;
    image.file.sync_all().map_err(|error| ImageError::os("write to", &image.path, error))?;
    Ok(image)
}

/// An image of zeros that is going to be the member of an array; `blocks` may be left out for a
/// block device.
pub(super) fn blank_member(
    path: &Path,
    blocks: Option<u64>,
    force: bool,
) -> Result<Image, ImageError> {
    let bad = |reason: &str| ImageError::BadSize { path: path.to_owned(), reason: reason.into() };
    let found = std::fs::metadata(path);
    let image = match &found {
        Ok(found) if found.file_type().is_block_device() => {
            let mut image = open(path, false)?;
            if !force && let Some(what) = signs(&mut image)? {
                return Err(ImageError::Occupied { path: path.to_owned(), what });
            }
            if blocks.is_some_and(|blocks| blocks > image.blocks) {
                return Err(bad("the device is too small for its part of the array"));
            }
            // Parity and copies are in step if everything is zero.
            erase(&image, Kind::Inplace)?;
            return Ok(image);
        }
        Ok(found) if !found.is_file() => return Err(ImageError::NotBlocks(path.to_owned())),
        Ok(_) if !force => return Err(ImageError::Exists(path.to_owned())),
        Ok(_) => open(path, false)?,
        Err(_) => {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
            let file = file.map_err(|error| ImageError::os("create", path, error))?;
            Image::adopt(file, path, false, false)?
        }
    };
    let blocks = blocks.ok_or_else(|| bad("a volume in a file needs a size"))?;
    let set = image.file.set_len(0);
    set.and_then(|()| image.file.set_len(blocks * BLOCK_BYTES as u64))
        .map_err(|error| ImageError::os("set the size of", path, error))?;
    sync_directory(path)?;
    Ok(Image { blocks, ..image })
}

/// A log that is put in front of an origin.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// Size of a new origin in blocks; `None` takes what is there.
    pub blocks: Option<u64>,
    /// Size of the log's file in blocks; by default a sixteenth of the origin, at most 1 GiB. A
    /// block device is taken whole.
    pub log_blocks: Option<u64>,
    /// How the log is cut.
    pub shape: Shape,
    /// Overwrite what is where the log is to be.
    pub force: bool,
}

/// Puts a log in front of an origin, whose content stays.
///
/// # Errors
/// As for [`create`]; an origin that is attached already or too small.
pub fn attach(origin: &Path, log: &Path, options: &AttachOptions) -> Result<(), ImageError> {
    let mut origin = match std::fs::metadata(origin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.blocks.is_some() => {
            let blocks = options.blocks.unwrap_or_default();
            new_file(origin, blocks)?
        }
        _ => open(origin, false)?,
    };
    let default = (origin.blocks / 16).clamp(512, 1 << 18);
    let exists = std::fs::metadata(log).is_ok();
    let mut log = match exists {
        false => new_file(log, options.log_blocks.unwrap_or(default))?,
        true => open(log, false)?,
    };
    if exists
        && !options.force
        && let Some(what) = signs(&mut log)?
    {
        return Err(ImageError::Occupied { path: log.path.clone(), what });
    }
    let id =
        fresh_id().map_err(|errno| ImageError::os("draw an identity for", &log.path, errno))?;
    let format = FormatOptions { shape: options.shape, ..FormatOptions::new(Kind::Dcd, 0, id) };
    dcd::attach(&mut origin, &mut log, &format).map_err(|error| origin.blame(error))?;
    sync_directory(&log.path)
}

/// A new sparse file of that size.
fn new_file(path: &Path, blocks: u64) -> Result<Image, ImageError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|file| file.set_len(blocks * BLOCK_BYTES as u64).map(|()| file))
        .map_err(|error| ImageError::os("create", path, error))?;
    Image::adopt(file, path, false, false)
}

/// A new file is durable only when the directory that names it is.
fn sync_directory(path: &Path) -> Result<(), ImageError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| ImageError::os("write to the directory of", path, error))
}

fn on_device(path: &Path, options: &CreateOptions) -> Result<Image, ImageError> {
    if options.headers {
        let reason = "sector headers are for images in files; leave out --headers".into();
        return Err(ImageError::BadSize { path: path.to_owned(), reason });
    }
    let mut image = open(path, false)?;
    if !options.force
        && let Some(what) = signs(&mut image)?
    {
        return Err(ImageError::Occupied { path: path.to_owned(), what });
    }
    let blocks = options.blocks.unwrap_or_else(|| options.kind.usual_volume(image.blocks));
    if blocks == 0 || blocks > options.kind.largest_volume(image.blocks) {
        let reason = format!(
            "the device has {} blocks of 4 KiB, room for a volume of at most {}",
            image.blocks,
            options.kind.largest_volume(image.blocks)
        );
        return Err(ImageError::BadSize { path: path.to_owned(), reason });
    }
    try_out(&image, options, image.blocks, blocks)?;
    erase(&image, options.kind)?;
    format(&mut image, options, blocks)?;
    Ok(image)
}

/// What a device seems to hold, if it is not empty.
fn signs(image: &mut Image) -> Result<Option<String>, ImageError> {
    match Superblock::read(image) {
        Ok(found) => return Ok(Some(format!("a Seekless volume ({found})"))),
        Err(LayoutError::Superblock(SuperblockError::Foreign)) => {}
        Err(error) => return Ok(Some(format!("a Seekless volume ({error})"))),
    }
    let count = u64::from(SIGN_BLOCKS).min(image.blocks);
    for at in [0, image.blocks - count] {
        let data = raw::read_blocks(&image.file, at, count as u32)
            .map_err(|error| image.blame(LayoutError::Io(error)))?;
        let bytes = data.to_bytes();
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(Some("data that Seekless did not write".into()));
        }
    }
    Ok(None)
}

/// A device may hold anything between its ends. A layout without a map would serve it as the
/// content of blocks never written, so there every block is zeroed, however long that takes;
/// the others never show it, so for them giving the space back is all that is tried.
fn erase(image: &Image, kind: Kind) -> Result<(), ImageError> {
    const STEP: u64 = 1 << 30;
    let bytes = raw::offset_of(image.blocks);
    let mut way = ZeroWay::Punch;
    for offset in (0..bytes).step_by(STEP as usize) {
        let here = STEP.min(bytes - offset);
        let done = match (kind, way.flags()) {
            (Kind::Inplace | Kind::Dcd, _) => raw::zero_full(&image.file, offset, here, &mut way),
            (_, Some(flags)) => rustix::fs::fallocate(&image.file, flags, offset, here),
            (_, None) => return Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(errno) if !matches!(kind, Kind::Inplace | Kind::Dcd) && way.unsupported(errno) => {
                return Ok(());
            }
            Err(errno) => return Err(ImageError::os("erase", &image.path, errno)),
        }
    }
    Ok(())
}

/// Writes the empty volume under a fresh identity.
fn format(image: &mut Image, options: &CreateOptions, blocks: u64) -> Result<(), ImageError> {
    let id =
        fresh_id().map_err(|errno| ImageError::os("draw an identity for", &image.path, errno))?;
    let options = options.of_format(blocks, id);
    layout::format(image, &options).map_err(|error| image.blame(error))
}

/// Makes the volume in memory first: sizes that the layout cannot have come to light before what
/// is there is gone.
fn try_out(
    image: &Image,
    options: &CreateOptions,
    device_blocks: u64,
    blocks: u64,
) -> Result<(), ImageError> {
    let cells = Cells::new(device_blocks);
    let mut cells = if options.headers { cells.with_labels() } else { cells };
    let options = options.of_format(blocks, 0);
    layout::format(&mut MediumDisk(&mut cells), &options).map_err(|error| image.blame(error))
}

impl CreateOptions {
    fn of_format(&self, blocks: u64, id: u128) -> FormatOptions {
        let &CreateOptions { kind, heuristic, table, shape, segment, addresses, .. } = self;
        let like = FormatOptions::new(kind, blocks, id);
        FormatOptions { heuristic, table, shape, segment, addresses, ..like }
    }
}

/// A volume identity that no other volume has.
pub(crate) fn fresh_id() -> Result<u128, Errno> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(u128::from_le_bytes(bytes))
}
