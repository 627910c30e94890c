//! How a file is opened.

use super::file::{Access, File};
use crate::disk::current;
use crate::volume::Opening;
use std::io;
use std::path::Path;

/// See [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    access: Access,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
}

impl File {
    /// See [`std::fs::File::open`].
    ///
    /// # Errors
    /// As `std::fs` has them.
    ///
    /// # Panics
    /// If the thread has no disk.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// See [`std::fs::File::create`].
    ///
    /// # Errors
    /// As `std::fs` has them.
    ///
    /// # Panics
    /// If the thread has no disk.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// See [`std::fs::File::create_new`].
    ///
    /// # Errors
    /// As `std::fs` has them.
    ///
    /// # Panics
    /// If the thread has no disk.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// See [`std::fs::File::options`].
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// All options are false.
    pub fn new() -> OpenOptions {
        let access = Access::default();
        OpenOptions { access, truncate: false, create: false, create_new: false, mode: 0o666 }
    }

    /// See [`std::fs::OpenOptions::read`].
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.access.read = read;
        self
    }

    /// See [`std::fs::OpenOptions::write`].
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.access.write = write;
        self
    }

    /// See [`std::fs::OpenOptions::append`].
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.access.append = append;
        self
    }

    /// See [`std::fs::OpenOptions::truncate`].
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// See [`std::fs::OpenOptions::create`].
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// See [`std::fs::OpenOptions::create_new`].
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// See `std::os::unix::fs::OpenOptionsExt::mode`. The umask is 022.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = mode;
        self
    }

    /// See [`std::fs::OpenOptions::open`].
    ///
    /// # Errors
    /// As `std::fs` has them.
    ///
    /// # Panics
    /// If the thread has no disk.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let opening = self.opening()?;
        let volume = current();
        let object = volume.lock().open(path.as_ref(), &opening)?;
        Ok(File::new(volume, object, self.access))
    }

    /// What `std` and Linux make of the options.
    fn opening(&self) -> io::Result<Opening> {
        let Access { read, write, append } = self.access;
        let writes = write || append;
        let makes = self.truncate || self.create || self.create_new;
        let text = match () {
            () if !read && !writes => "must specify at least one of read, write, or append access",
            () if makes && !writes => {
                "creating or truncating a file requires write or append access"
            }
            () if append && self.truncate && !self.create_new => {
                "creating or truncating a file requires write access without append"
            }
            () => {
                return Ok(Opening {
                    write: writes,
                    truncate: self.truncate && !self.create_new,
                    create: self.create,
                    exclusive: self.create_new,
                    mode: (self.mode & 0o7777 & !0o022) as u16,
                });
            }
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }
}
