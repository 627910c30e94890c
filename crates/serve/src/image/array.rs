//! Images that are the members of an array.

use super::create::fresh_id;
use super::prospect::Prospect;
use super::{Image, ImageError, open, peek};
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::{
    ArrayDisk, AssembleOptions, Assembled, CreateArray, Level, VolumeError, assemble,
};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::layout::{FormatOptions, LayoutError};
use seekless_engine::options::Options;
use seekless_engine::superblock::Superblock;
use seekless_layouts::Kind;
use std::path::{Path, PathBuf};

/// The array to make.
#[derive(Clone, Debug)]
pub struct CreateArrayOptions {
    /// Level of the array.
    pub level: Level,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// Layout of the volume on it.
    pub kind: Kind,
    /// Size of the volume in blocks of 4 KiB; `None` means the largest that fits on the block
    /// devices.
    pub blocks: Option<u64>,
    /// Overwrite existing content.
    pub force: bool,
    /// Options of the layout.
    pub options: Options,
}

/// Open images in their places in an array.
#[derive(Debug)]
pub struct Members {
    images: Vec<Option<Image>>,
    /// Given images that are not part of it, with the reason.
    rejected: Vec<(PathBuf, Rejected)>,
    newest: MemberSuperblock,
}

/// Why an image that was given is left out of an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The path does not exist.
    #[error("it does not exist")]
    NotFound,
    /// It is not a valid member.
    #[error(transparent)]
    Unusable(VolumeError),
}

impl Rejected {
    fn into_error(self, path: &Path) -> ImageError {
        match self {
            Rejected::NotFound => ImageError::NotFound(path.to_owned()),
            Rejected::Unusable(error) => blame(path, error),
        }
    }
}

fn blame(path: &Path, source: VolumeError) -> ImageError {
    blame_layout(path, source.into())
}

fn blame_layout(path: &Path, source: LayoutError) -> ImageError {
    ImageError::Layout { path: path.to_owned(), source }
}

/// True if the superblock of the image is that of a member of an array, in use or not.
///
/// # Errors
/// As for [`open`].
pub fn is_member(path: &Path) -> Result<bool, ImageError> {
    let mut image = peek(path)?;
    Ok(!matches!(MemberSuperblock::read(&mut image), Err(VolumeError::NoMember)))
}

/// Makes an array in new files or on block devices, and a volume on it.
///
/// # Errors
/// As for [`super::create`]; numbers that make no array.
pub fn create_array(
    paths: &[PathBuf],
    options: &CreateArrayOptions,
) -> Result<(Members, Superblock), ImageError> {
    let &CreateArrayOptions { level, chunk, kind, blocks, force, .. } = options;
    let first = paths.first().ok_or_else(|| ImageError::NotFound(PathBuf::new()))?;
    let wanted = blocks.map(|blocks| kind.device_blocks(blocks));
    let each = match wanted {
        None => None,
        Some(wanted) => {
            let each = seekless_arrays::create::member_blocks(level, paths.len(), chunk, wanted);
            Some(each.map_err(|error| blame(first, error))?)
        }
    };
    let mut prospects: Vec<Prospect> = Vec::with_capacity(paths.len());
    for path in paths {
        if prospects.iter_mut().any(|other| other.image().is_at(path)) {
            return Err(ImageError::Twice(path.clone()));
        }
        prospects.push(Prospect::member(path, each, force)?);
    }
    let id = || fresh_id().map_err(|errno| ImageError::os("draw an identity for", first, errno));
    let plan = Plan { options, array: id()?, volume: id()? };
    // Make it in memory first, so that errors appear before existing content is overwritten.
    let blank = |prospect: &Prospect| Cells::new(prospect.blocks());
    let mut cells: Vec<Cells> = prospects.iter().map(blank).collect();
    let mut trial: Vec<_> = cells.iter_mut().map(|cells| MediumDisk(cells)).collect();
    let trial = trial.iter_mut().map(|disk| disk as _).collect();
    plan.carry_out(trial).map_err(|source| blame_layout(first, source))?;
    prospects.iter_mut().try_for_each(Prospect::blank)?;
    let images = prospects.iter_mut().map(|prospect| prospect.image() as _).collect();
    let made = plan.carry_out(images);
    let (newest, superblock) = made.map_err(|source| match source.below() {
        Some(&VolumeError::Io { member, .. }) => blame_layout(&paths[member], source),
        _ => blame_layout(first, source),
    })?;
    let images = prospects.into_iter().map(|prospect| Some(prospect.keep())).collect();
    Ok((Members { images, rejected: Vec::new(), newest }, superblock))
}

/// An array to make, with its identity and that of the volume on it.
struct Plan<'o> {
    options: &'o CreateArrayOptions,
    array: u128,
    volume: u128,
}

impl Plan<'_> {
    /// Makes it on disks of zeros.
    fn carry_out(
        &self,
        mut disks: Vec<&mut dyn Disk>,
    ) -> Result<(MemberSuperblock, Superblock), LayoutError> {
        let &CreateArrayOptions { level, chunk, kind, blocks, ref options, .. } = self.options;
        let array = CreateArray { level, chunk, id: self.array, blank: true };
        let newest = seekless_arrays::create(&mut disks, &array)?;
        let mut members: Vec<_> = disks.into_iter().map(Some).collect();
        let mut found = assemble(&mut members, &AssembleOptions::default())?;
        let mut disk = ArrayDisk::new(&mut found.array, &mut members);
        let blocks = blocks.unwrap_or_else(|| kind.usual_volume(disk.blocks()));
        let like = FormatOptions::new(kind, blocks, self.volume);
        seekless_layouts::format(&mut disk, &like.with(options.clone()))?;
        let superblock = seekless_layouts::read_superblock(&mut disk)?;
        disk.end()?;
        Ok((newest, superblock))
    }
}

/// Opens the members of an array, in any order. With `degraded`, invalid images are left out.
///
/// # Errors
/// As for [`open`]; images that are no members of one array.
pub fn open_members(
    paths: &[PathBuf],
    read_only: bool,
    degraded: bool,
) -> Result<Members, ImageError> {
    find_members(paths, degraded, |path| open(path, read_only))
}

/// Reads the superblocks of an array that another process may be serving. The result may be out of
/// date.
///
/// # Errors
/// As for [`open_members`], except [`ImageError::InUse`].
pub fn peek_members(paths: &[PathBuf], degraded: bool) -> Result<Members, ImageError> {
    find_members(paths, degraded, peek)
}

fn find_members(
    paths: &[PathBuf],
    degraded: bool,
    open: impl Fn(&Path) -> Result<Image, ImageError>,
) -> Result<Members, ImageError> {
    let (mut images, mut found, mut rejected) = (Vec::<Image>::new(), Vec::new(), Vec::new());
    for path in paths {
        if images.iter().any(|other| other.is_at(path)) {
            return Err(ImageError::Twice(path.clone()));
        }
        let mut image = match open(path) {
            Err(ImageError::NotFound(_)) if degraded => {
                rejected.push((path.clone(), Rejected::NotFound));
                continue;
            }
            other => other?,
        };
        match MemberSuperblock::read(&mut image) {
            Ok(superblock) => {
                images.push(image);
                found.push(Some(superblock));
            }
            Err(error) if degraded => rejected.push((path.clone(), Rejected::Unusable(error))),
            Err(error) => return Err(blame(path, error)),
        }
    }
    let places = seekless_arrays::assemble::arrange(&found).map_err(|error| match error {
        VolumeError::Foreign { device, .. } => blame(images[device - 1].path(), error),
        VolumeError::Twice { second, .. } => blame(images[second - 1].path(), error),
        _ => blame(&paths[0], error),
    });
    let newest = found.into_iter().flatten().max_by_key(|one| one.events);
    let Some(newest) = newest else {
        let (path, reason) = rejected.swap_remove(0);
        return Err(reason.into_error(&path));
    };
    let places = places?;
    let mut given: Vec<Option<Image>> = images.into_iter().map(Some).collect();
    let images = places.iter().map(|place| place.and_then(|at| given[at].take())).collect();
    Ok(Members { images, rejected, newest })
}

impl Members {
    /// The youngest superblock.
    pub fn superblock(&self) -> &MemberSuperblock {
        &self.newest
    }

    /// The images in their places.
    pub fn images(&self) -> &[Option<Image>] {
        &self.images
    }

    /// Images that were given and are left out, and why.
    pub fn rejected(&self) -> &[(PathBuf, Rejected)] {
        &self.rejected
    }

    /// The images, for the server.
    pub fn into_images(self) -> Vec<Option<Image>> {
        self.images
    }

    /// Adds the array to an error.
    pub fn blame(&self, source: LayoutError) -> ImageError {
        let named = match source.below() {
            Some(VolumeError::Io { member, .. }) => self.images[*member].as_ref(),
            _ => None,
        };
        let image = named.or_else(|| self.images.iter().flatten().next());
        let path = image.map(|image| image.path().to_owned()).unwrap_or_default();
        ImageError::Layout { path, source }
    }

    /// The members as disks.
    pub fn with_disks<T>(&mut self, act: impl FnOnce(&mut [Option<&mut dyn Disk>]) -> T) -> T {
        let mut disks: Vec<Option<&mut dyn Disk>> = self
            .images
            .iter_mut()
            .map(|image| image.as_mut().map(|image| image as &mut dyn Disk))
            .collect();
        act(&mut disks)
    }

    /// Assembles the array.
    ///
    /// # Errors
    /// See [`assemble()`].
    pub fn assemble(&mut self, options: &AssembleOptions) -> Result<Assembled, ImageError> {
        let found = self.with_disks(|disks| assemble(disks, options));
        found.map_err(|error| self.blame(error.into()))
    }

    /// Shuts down an array cleanly that no volume is mounted on.
    ///
    /// # Errors
    /// Errors of the members.
    pub fn end(&mut self, found: &mut Assembled) -> Result<(), IoError> {
        self.with_disks(|disks| ArrayDisk::new(&mut found.array, disks).end())
    }

    /// The array as one disk.
    pub fn with_disk<T>(
        &mut self,
        found: &mut Assembled,
        act: impl FnOnce(&mut dyn Disk) -> T,
    ) -> T {
        self.with_disks(|disks| act(&mut ArrayDisk::new(&mut found.array, disks)))
    }
}

/// An image of so many blocks for a member that is new, unchanged as yet. A file that does not
/// exist is made.
///
/// # Errors
/// If it exists and `force` is not given, is in use, or is too small, and what the system says.
pub(crate) fn new_member(path: &Path, blocks: u64, force: bool) -> Result<Prospect, ImageError> {
    Prospect::member(path, Some(blocks), force)
}

/// Puts a new image in the place of the first member that is missing or out of date; a file that
/// does not exist is made. Returns the place.
///
/// # Errors
/// All members there, one of them still to be filled, the new one among them, a level without
/// redundancy, and what the system says.
pub fn replace_member(members: &mut Members, new: &Path, force: bool) -> Result<usize, ImageError> {
    let newest = members.newest.clone();
    let bad = |reason: String| Err(blame(new, VolumeError::BadShape(reason)));
    if members.images.iter().flatten().any(|image| image.is_at(new)) {
        return bad(
            "it is also given as a remaining member; name another file or device, or leave \
             it out of the members and use --force to fill it again"
                .to_owned(),
        );
    }
    let filled = newest.replacement().filter(|&member| members.images[member].is_some());
    if let Some(member) = filled {
        return bad(format!(
            "member {member} is still being filled; serve the array until it is, or leave that \
             member out to replace it"
        ));
    }
    let missing = (0..newest.geometry.members).find(|&member| {
        newest.states[member] != MemberState::Active || members.images[member].is_none()
    });
    let Some(member) = missing else {
        return bad("all members are there; leave out the one to be replaced".to_owned());
    };
    let mut prospect = new_member(new, newest.device_blocks(), force)?;
    prospect.blank()?;
    let replaced =
        members.with_disks(|disks| seekless_arrays::replace(disks, member, prospect.image()));
    members.newest = replaced.map_err(|error| blame(new, error))?;
    members.images[member] = Some(prospect.keep());
    Ok(member)
}
