//! A volume with the log of its file system on another device, end to end.

use super::attached::device;
use super::backing;
use super::{Mounted, ServeError, ServeOptions, fits, open_raw, outer};
use crate::device::file::FileDevice;
use crate::image::Image;
use seekless_engine::disk::Disk as _;
use seekless_engine::joined::join;
use seekless_engine::size::Size;
use seekless_engine::units::BlockNr;
use std::path::Path;

/// The device of a log, open and locked.
#[derive(Debug)]
pub struct Journal {
    image: Image,
    options: ServeOptions,
}

impl Journal {
    /// Opens it.
    ///
    /// # Errors
    /// If it is unusable, in use, or too large for the disk at whose pace it is to be; or if the
    /// disk of the volume is to crash, for that is one disk.
    pub(crate) fn open(path: &Path, options: ServeOptions) -> Result<Journal, ServeError> {
        if options.crash.is_some() {
            return Err(ServeError::LogApart);
        }
        let image = open_raw(path, options.read_only)?;
        match &options.disk {
            Some(spec) => drop(fits(&image, spec)?),
            None => FileDevice::try_out(&image, options.io, options.direct)?,
        }
        Ok(Journal { image, options })
    }

    /// Its blocks.
    pub fn blocks(&self) -> u64 {
        self.image.blocks()
    }

    /// Joins it to a volume that nothing was asked of since it was mounted. It begins at block
    /// `at`, or where the volume ends if that comes first.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn join(self, mounted: Mounted, at: BlockNr) -> Result<Mounted, ServeError> {
        let Journal { image, options } = self;
        let path = image.path().to_owned();
        let size = Size::from_blocks(image.blocks());
        let journal_files = backing::of(&image, None)?;
        let spec = options.disk.as_ref().map(|spec| outer(spec, image.blocks()));
        let (journal, fd) = device(&options, image, spec.as_ref())?;
        let Mounted { node, mut device_fds, mut files, mut images, description, .. } = mounted;
        let description = format!("{description} and a journal of {size} apart");
        device_fds.extend(fd);
        files.extend(journal_files);
        images.push(Some(path));
        let node = join(node, journal, [at, u64::MAX], 1);
        // After the host was full, only the volume could be mounted again.
        Ok(Mounted { node, description, device_fds, files, images, again: None, ..mounted })
    }
}
