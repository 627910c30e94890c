//! States as copies, for machines without FUSE: each one costs what the base holds.

use super::image::Image;
use super::mount::own_directory;
use super::stop::Stop;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of copies, removed when dropped.
#[derive(Debug)]
pub struct Copies {
    dir: PathBuf,
    next: AtomicU64,
}

impl Copies {
    /// An empty directory under `dir`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(dir: &Path) -> io::Result<Copies> {
        Ok(Copies { dir: own_directory(dir)?, next: AtomicU64::new(0) })
    }

    pub(super) fn put(&self, image: &Image, stop: &Stop) -> io::Result<(u64, PathBuf)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{number}.img"));
        image.save(&path, stop)?;
        Ok((number, path))
    }

    pub(super) fn remove(&self, path: &Path) {
        // A check may have removed it itself.
        let _ = std::fs::remove_file(path);
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
