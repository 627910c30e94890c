//! Making a new image.

use super::prospect::Prospect;
use super::{Headers, Image, ImageError, blame_half, open};
use crate::device::raw::{self, ZeroWay};
use rustix::io::Errno;
use seekless_arrays::VolumeError;
use seekless_arrays::member::MemberSuperblock;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::{FormatOptions, LayoutError};
use seekless_engine::options::Options;
use seekless_engine::size::Size;
use seekless_engine::superblock::SuperblockError;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::Kind;
use seekless_layouts::dcd;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The largest volume: 2⁴⁸ bytes, what common file systems can hold in one sparse file.
const MOST_BLOCKS: u64 = 1 << 36;
/// Blocks checked at both ends of a device for signs of content: partition tables, boot sectors,
/// superblocks of file systems and our own.
const SIGN_BLOCKS: u32 = 32;

/// The volume to make.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Layout of the volume.
    pub kind: Kind,
    /// Size of the volume in blocks of 4 KiB as clients see it, for a layout of objects that of its
    /// device; `None` means the largest that fits on the block device.
    pub blocks: Option<u64>,
    /// Overwrite existing content.
    pub force: bool,
    /// Give each block a label that costs no time, as the headers of sectors do: for images of an
    /// emulated disk. In files only.
    pub headers: bool,
    /// Options of the layout.
    pub options: Options,
}

/// Makes a volume in a new sparse file or on a block device, and returns it open and locked.
///
/// # Errors
/// Refuses an existing file, a device that is not empty, and an image in use; a size that the
/// layout or the device does not have; and what the operating system says. A new file is removed.
pub fn create(path: &Path, options: &CreateOptions) -> Result<Image, ImageError> {
    let found = std::fs::metadata(path);
    match found {
        Ok(found) if found.file_type().is_block_device() => on_device(path, options),
        Ok(found) if !found.is_file() => Err(ImageError::NotBlocks(path.to_owned())),
        Ok(_) if !options.force => Err(ImageError::Exists(path.to_owned())),
        Ok(_) => {
            let blocks = file_blocks(path, options)?;
            let mut image = open(path, false)?;
            fill_file(&mut image, options, blocks)?;
            Ok(image)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_new_file(path, options),
        Err(error) => Err(ImageError::os("create", path, error)),
    }
}

fn file_blocks(path: &Path, options: &CreateOptions) -> Result<u64, ImageError> {
    let bad = |reason: &str| ImageError::BadSize { path: path.to_owned(), reason: reason.into() };
    match options.blocks {
        None => Err(bad("a volume in a file needs a size; give one with --size")),
        Some(0) => Err(bad("a volume needs at least one block of 4 KiB")),
        Some(blocks) if blocks > MOST_BLOCKS => Err(bad("a volume has at most 256 TiB")),
        Some(blocks) => Ok(blocks),
    }
}

fn in_new_file(path: &Path, options: &CreateOptions) -> Result<Image, ImageError> {
    let blocks = file_blocks(path, options)?;
    let mut prospect = Prospect::new_file(path, blocks)?;
    fill_file(prospect.image(), options, blocks)?;
    sync_directory(path)?;
    Ok(prospect.keep())
}

fn fill_file(image: &mut Image, options: &CreateOptions, blocks: u64) -> Result<(), ImageError> {
    let (device_blocks, blocks) = match options.kind.has_objects() {
        true => (blocks, objects_on(image, options.kind, blocks)?),
        false => (options.kind.device_blocks_with(blocks, &options.options), blocks),
    };
    let headers = options.headers.then_some(Headers { blocks: device_blocks });
    let file_blocks = headers.map_or(device_blocks, Headers::file_blocks);
    let bytes = file_blocks * BLOCK_BYTES as u64;
    try_out(image, options, device_blocks, blocks)?;
    image.set_blank(bytes)?;
    (image.blocks, image.headers) = (device_blocks, headers);
    if let Some(headers) = headers {
        let written = headers.write_descriptor(&image.file);
        written.map_err(|error| image.blame(LayoutError::Io(error)))?;
    }
    format(image, options, blocks)?;
    image.file.sync_all().map_err(|error| ImageError::os("write to", &image.path, error))
}

/// The addresses of a volume of objects on a device of so many blocks.
fn objects_on(image: &Image, kind: Kind, device: u64) -> Result<u64, ImageError> {
    let least = kind.device_blocks(0);
    match kind.usual_volume(device) {
        0 => Err(ImageError::BadSize {
            path: image.path.clone(),
            reason: format!("a volume of {kind} needs at least {}", Size::from_blocks(least)),
        }),
        blocks => Ok(blocks),
    }
}

/// A log to attach to an origin.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Size of the origin in blocks, if it is new. An existing one must have this size.
    pub blocks: Option<u64>,
    /// Size of the log's file in blocks; by default a sixteenth of the origin, at most 1 GiB. A
    /// block device is used as a whole.
    pub log_blocks: Option<u64>,
    /// Options of the log; its size is that of its device.
    pub options: Options,
    /// Overwrite existing content at the path of the log.
    pub force: bool,
}

/// Attaches a log to an origin, whose content stays.
///
/// # Errors
/// As for [`create`]; an origin that is attached already or too small. New files are removed.
pub fn attach(origin: &Path, log: &Path, options: &AttachOptions) -> Result<(), ImageError> {
    let mut origin = find_origin(origin, options)?;
    origin.extend()?;
    let mut log = find_log(log, origin.image().blocks, options)?;
    log.extend()?;
    let (origin_image, log_image) = (origin.image(), log.image());
    let drawn = fresh_id();
    let id =
        drawn.map_err(|errno| ImageError::os("draw an identity for", &log_image.path, errno))?;
    let format = FormatOptions::new(Kind::DCD, 0, id).with(options.options.clone());
    let attached = dcd::attach(origin_image, log_image, &format);
    attached.map_err(|error| blame_half(origin_image, Some(log_image), error))?;
    sync_directory(&log_image.path)?;
    origin.keep();
    log.keep();
    Ok(())
}

/// The future origin: a new file, or an existing one without a log.
fn find_origin(path: &Path, options: &AttachOptions) -> Result<Prospect, ImageError> {
    let mut image = match (open(path, false), options.blocks) {
        (Err(ImageError::NotFound(_)), Some(blocks)) => return Prospect::new_file(path, blocks),
        (found, _) => found?,
    };
    let refused = |why| Err(ImageError::NoOrigin { path: path.to_owned(), why });
    if image.headers.is_some() {
        return refused(
            "keeps labels in sector headers, which writes past them would spoil; use a disk or an \
             image without --headers",
        );
    }
    if !matches!(MemberSuperblock::read(&mut image), Err(VolumeError::NoMember)) {
        return refused("is a member of an array; attach a log only to a disk outside an array");
    }
    image.check_whole()?;
    if options.blocks.is_some_and(|blocks| blocks != image.blocks) {
        let reason = format!(
            "it exists with {} blocks of 4 KiB and is used as a whole; leave out --size",
            image.blocks
        );
        return Err(ImageError::BadSize { path: path.to_owned(), reason });
    }
    Ok(Prospect::there(image))
}

/// The future log of an origin with so many blocks.
fn find_log(path: &Path, origin: u64, options: &AttachOptions) -> Result<Prospect, ImageError> {
    if std::fs::metadata(path).is_err() {
        let default = (origin / 16).clamp(512, 1 << 18);
        return Prospect::new_file(path, options.log_blocks.unwrap_or(default));
    }
    let mut image = open(path, false)?;
    if options.log_blocks.is_some_and(|blocks| blocks != image.blocks) {
        let reason = format!(
            "it exists with {} blocks of 4 KiB and is used as a whole; leave out --log-size",
            image.blocks
        );
        return Err(ImageError::BadSize { path: path.to_owned(), reason });
    }
    if !options.force
        && let Some(what) = signs(&mut image)?
    {
        return Err(ImageError::Occupied { path: path.to_owned(), what });
    }
    Ok(Prospect::there(image))
}

/// A new file is durable only when the directory that names it is.
pub(super) fn sync_directory(path: &Path) -> Result<(), ImageError> {
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
    let blocks = match options.blocks.filter(|_| !options.kind.has_objects()) {
        Some(blocks) => blocks,
        None => options.kind.usual_volume(image.blocks),
    };
    if blocks == 0 || blocks > options.kind.largest_volume(image.blocks) {
        let reason = format!(
            "the device has {} blocks of 4 KiB, room for a volume of at most {}; choose a smaller \
             --size",
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

/// The apparent content of a device, if it is not empty.
pub(super) fn signs(image: &mut Image) -> Result<Option<String>, ImageError> {
    match seekless_layouts::read_superblock(image) {
        Ok(found) => {
            return Ok(Some(format!(
                "a Seekless volume ({})",
                found.to_text(Kind::of(&found).name())
            )));
        }
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

/// A device may hold old content between its ends. A layout without a map would return it for
/// blocks that were never written, so every block is zeroed, even if that takes long. Other layouts
/// never return it, so the device is only trimmed.
pub(super) fn erase(image: &Image, kind: Kind) -> Result<(), ImageError> {
    const STEP: u64 = 1 << 30;
    let bytes = raw::offset_of(image.blocks);
    let mut way = ZeroWay::Punch;
    for offset in (0..bytes).step_by(STEP as usize) {
        let here = STEP.min(bytes - offset);
        let done = match (kind, way.flags()) {
            (Kind::INPLACE | Kind::DCD, _) => raw::zero_full(&image.file, offset, here, &mut way),
            (_, Some(flags)) => rustix::fs::fallocate(&image.file, flags, offset, here),
            (_, None) => return Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(errno) if !matches!(kind, Kind::INPLACE | Kind::DCD) && way.unsupported(errno) => {
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
    seekless_layouts::format(image, &options).map_err(|error| image.blame(error))
}

/// Makes the volume in memory first, so that an invalid size is an error before existing content is
/// overwritten.
fn try_out(
    image: &Image,
    options: &CreateOptions,
    device_blocks: u64,
    blocks: u64,
) -> Result<(), ImageError> {
    let cells = Cells::new(device_blocks);
    let mut cells = if options.headers { cells.with_labels() } else { cells };
    let options = options.of_format(blocks, 0);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options)
        .map_err(|error| image.blame(error))
}

impl CreateOptions {
    fn of_format(&self, blocks: u64, id: u128) -> FormatOptions {
        FormatOptions::new(self.kind, blocks, id).with(self.options.clone())
    }
}

/// An identity that no other volume or file system has.
///
/// # Errors
/// When the system has no randomness.
pub fn fresh_id() -> Result<u128, Errno> {
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
