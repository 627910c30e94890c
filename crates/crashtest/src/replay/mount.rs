//! Where states become files: a file system in user space where the machine has FUSE
//! ([`seekless_serve::fuse`]), so that a state costs its differences and what a check reads; copies
//! of the whole elsewhere.

use super::copy::Copies;
use super::image::Image;
use super::stop::Stop;
use seekless_serve::fuse::disks::{Bytes, DiskDirectory};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// How states become files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// By FUSE where there is one, else by copies.
    #[default]
    Auto,
    /// By FUSE.
    Fuse,
    /// By copies.
    Copy,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Way, String> {
        match name {
            "auto" => Ok(Way::Auto),
            "fuse" => Ok(Way::Fuse),
            "copy" => Ok(Way::Copy),
            _ => Err(format!("unknown way `{name}`: known are auto, fuse, copy")),
        }
    }
}

/// A place for states.
#[derive(Debug)]
pub enum Place {
    /// A file system in user space.
    Mounted(DiskDirectory<Image>),
    /// A directory for copies.
    Copies(Copies),
}

/// A state that is a file until it is dropped.
#[derive(Debug)]
pub struct Placed<'p> {
    place: &'p Place,
    number: u64,
    path: PathBuf,
}

impl Place {
    /// A place in a directory of its own under `dir`.
    ///
    /// # Errors
    /// If FUSE was asked for and there is none, or the directory cannot be made.
    pub fn new(way: Way, dir: &Path) -> io::Result<Place> {
        match way {
            Way::Fuse => mount(dir).map(Place::Mounted),
            Way::Copy => Copies::new(dir).map(Place::Copies),
            Way::Auto => match mount(dir) {
                Ok(mounted) => Ok(Place::Mounted(mounted)),
                Err(_) => Copies::new(dir).map(Place::Copies),
            },
        }
    }

    /// In one word, for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Mounted(_) => "fuse",
            Place::Copies(_) => "copy",
        }
    }

    /// Makes a state a file.
    ///
    /// # Errors
    /// If a copy cannot be made, or everything is to end before it is.
    pub fn put(&self, image: Arc<Image>, stop: &Stop) -> io::Result<Placed<'_>> {
        let (number, path) = match self {
            Place::Mounted(mounted) => mounted.insert(image),
            Place::Copies(copies) => copies.put(&image, stop)?,
        };
        Ok(Placed { place: self, number, path })
    }
}

impl Placed<'_> {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        match self.place {
            Place::Mounted(mounted) => mounted.remove(self.number),
            Place::Copies(copies) => copies.remove(&self.path),
        }
    }
}

/// Mounts a directory of states, which needs its place under `dir` for a moment only.
fn mount(dir: &Path) -> io::Result<DiskDirectory<Image>> {
    let point = own_directory(dir)?;
    let mounted = DiskDirectory::mount(&point);
    // The file system is detached, or there is none: the directory is not needed.
    let _ = std::fs::remove_dir(&point);
    mounted
}

impl Bytes for Image {
    fn size(&self) -> u64 {
        self.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read(offset, out)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)
    }
}

/// Makes a directory that no other process uses.
pub(super) fn own_directory(dir: &Path) -> io::Result<PathBuf> {
    let process = std::process::id();
    for attempt in 0..100 {
        let path = dir.join(format!("seekless-states-{process}-{attempt}"));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let shown = path.display();
                return Err(io::Error::new(error.kind(), format!("{shown}: {error}")));
            }
            Ok(()) => return Ok(path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tape::Payload;
    use crate::replay::extents::Extents;
    use crate::replay::image::Source;
    use std::fs::File;
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    const SIZE: usize = 300_000;

    fn image() -> Arc<Image> {
        let mut tape = tempfile::tempfile().expect("a file");
        tape.write_all(&[7; 5000]).expect("written");
        let mut survived = Extents::default();
        survived.insert(100_000, 105_000, Payload::At(0));
        let source = Source::new(None, tape, SIZE as u64);
        Arc::new(Image::new(Arc::new(source), Arc::default(), survived))
    }

    /// What every way of placing must do.
    fn states_are_files(place: &Place) {
        let stop = Stop::new().expect("a descriptor");
        let first = place.put(image(), &stop).expect("a place");
        let second = place.put(image(), &stop).expect("a place");
        let mut expected = vec![0; SIZE];
        expected[100_000..105_000].fill(7);
        assert!(std::fs::read(first.path()).expect("read") == expected);
        let file = File::options().read(true).write(true).open(first.path()).expect("opens");
        file.write_all_at(&[9; 10_000], 99_000).expect("written");
        file.sync_all().expect("synced");
        drop(file);
        assert!(std::fs::read(second.path()).expect("read") == expected, "states are apart");
        expected[99_000..109_000].fill(9);
        assert!(std::fs::read(first.path()).expect("read") == expected);
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn copies_are_files_and_go_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::new(Way::Copy, dir.path()).expect("a place");
        states_are_files(&place);
        drop(place);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_mounted_state_is_a_file_of_fixed_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = match Place::new(Way::Fuse, dir.path()) {
            Ok(place) => place,
            Err(error) => return eprintln!("skipped: no FUSE here: {error}"),
        };
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
        states_are_files(&place);
        let stop = Stop::new().expect("a descriptor");
        let placed = place.put(image(), &stop).expect("a place");
        let file = File::options().write(true).open(placed.path()).expect("opens");
        file.set_len(1).expect("ignored: a disk keeps its size");
        assert!(file.write_all_at(&[1], SIZE as u64).is_err(), "and has an end");
        assert_eq!(file.metadata().expect("metadata").len(), SIZE as u64);
    }
}
