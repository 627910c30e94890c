//! Files and devices for new volumes: open, locked, and unchanged until the whole command is known
//! to be valid.

use super::create::{erase, signs, sync_directory};
use super::{Image, ImageError, open};
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::Kind;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// A place for a new image. If it is dropped without [`Prospect::keep`], a file that did not exist
/// before is removed.
#[derive(Debug)]
pub(crate) struct Prospect {
    /// `None` once it is kept.
    image: Option<Image>,
    /// Its future size in blocks.
    blocks: u64,
    /// The file did not exist before.
    is_new: bool,
}

impl Prospect {
    /// A new file, empty as yet.
    ///
    /// # Errors
    /// [`ImageError::Exists`], and what the operating system says.
    pub(super) fn new_file(path: &Path, blocks: u64) -> Result<Prospect, ImageError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ImageError::Exists(path.to_owned()),
            _ => ImageError::os("create", path, error),
        })?;
        match Image::adopt(file, path, false, false) {
            Ok(image) => Ok(Prospect { image: Some(image), blocks, is_new: true }),
            Err(error) => {
                // Report the first error only.
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// An existing file or device, with its size.
    pub(super) fn there(image: Image) -> Prospect {
        let blocks = image.blocks;
        Prospect { image: Some(image), blocks, is_new: false }
    }

    /// A future member of an array, of `blocks` blocks; `None` means the whole block device. It is
    /// not overwritten yet.
    ///
    /// # Errors
    /// If it exists and `force` is not given, is in use, or is too small.
    pub(super) fn member(
        path: &Path,
        blocks: Option<u64>,
        force: bool,
    ) -> Result<Prospect, ImageError> {
        let bad =
            |reason: &str| ImageError::BadSize { path: path.to_owned(), reason: reason.into() };
        let found = std::fs::metadata(path);
        if let Ok(found) = &found
            && found.file_type().is_block_device()
        {
            let mut image = open(path, false)?;
            if !force && let Some(what) = signs(&mut image)? {
                return Err(ImageError::Occupied { path: path.to_owned(), what });
            }
            if blocks.is_some_and(|blocks| blocks > image.blocks) {
                return Err(bad(
                    "the device is too small for its part of the array; choose a smaller --size",
                ));
            }
            return Ok(Prospect::there(image));
        }
        let blocks =
            || blocks.ok_or_else(|| bad("a volume in a file needs a size; give one with --size"));
        match found {
            Ok(found) if !found.is_file() => Err(ImageError::NotBlocks(path.to_owned())),
            Ok(_) if !force => Err(ImageError::Exists(path.to_owned())),
            Ok(_) => {
                let (blocks, image) = (blocks()?, Some(open(path, false)?));
                Ok(Prospect { image, blocks, is_new: false })
            }
            Err(_) => Prospect::new_file(path, blocks()?),
        }
    }

    /// Its future size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The open image.
    pub(crate) fn image(&mut self) -> &mut Image {
        self.image.as_mut().expect("only `keep` takes it, and the rest with it")
    }

    /// Gives a new file its size.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(super) fn extend(&mut self) -> Result<(), ImageError> {
        if self.is_new { self.blank() } else { Ok(()) }
    }

    /// Overwrites everything with zeros, so that copies and parity agree.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub(crate) fn blank(&mut self) -> Result<(), ImageError> {
        let blocks = self.blocks;
        let image = self.image();
        if image.block_device {
            return erase(image, Kind::INPLACE);
        }
        image.set_blank(blocks * BLOCK_BYTES as u64)?;
        (image.blocks, image.headers) = (blocks, None);
        sync_directory(&image.path)
    }

    /// Keeps the file or device: an image was made there.
    pub(crate) fn keep(mut self) -> Image {
        self.image.take().expect("it is taken once, with the rest")
    }
}

impl Drop for Prospect {
    fn drop(&mut self) {
        if let Some(image) = self.image.take().filter(|_| self.is_new) {
            // The error that led here is reported, not this one.
            let _ = std::fs::remove_file(&image.path);
        }
    }
}
