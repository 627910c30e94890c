//! Where states become files: a file system in user space where the machine has FUSE, so that a
//! state costs what it differs in and what a check reads; copies of the whole elsewhere.

use super::copy::Copies;
use super::fuse::{self, FIRST_FILE, Files};
use super::image::Image;
use super::stop::Stop;
use rustix::fs::{Mode, OFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// A mounted file system.
    Mounted(Mounted),
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
            Way::Fuse => Mounted::new(dir).map(Place::Mounted),
            Way::Copy => Copies::new(dir).map(Place::Copies),
            Way::Auto => match Mounted::new(dir) {
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
            Place::Mounted(mounted) => mounted.put(image),
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

/// A file system of states. It is taken out of the tree of directories as soon as it is there and
/// reached through this process, so nothing is left behind however this ends.
#[derive(Debug)]
pub struct Mounted {
    device: Arc<File>,
    files: Arc<Files>,
    /// The only thing that keeps the file system alive.
    root: OwnedFd,
    next: AtomicU64,
}

/// Threads that answer the kernel.
const THREADS: usize = 3;

impl Mounted {
    fn new(dir: &Path) -> io::Result<Mounted> {
        let point = own_directory(dir)?;
        let mounted = Mounted::at(&point);
        // The file system does not need its place any more, and if there is none, nobody does.
        let _ = std::fs::remove_dir(&point);
        mounted
    }

    fn at(point: &Path) -> io::Result<Mounted> {
        let privileged = rustix::process::geteuid().is_root();
        let device = match privileged {
            true => mount_as_root(point)?,
            false => mount_by_helper(point)?,
        };
        let (device, files) = (Arc::new(device), Arc::new(Files::default()));
        for index in 0..THREADS {
            let (device, files) = (Arc::clone(&device), Arc::clone(&files));
            let name = format!("states {index}");
            std::thread::Builder::new()
                .name(name)
                .spawn(move || fuse::answer_all(&device, &files))?;
        }
        let root = rustix::fs::open(
            point,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        match privileged {
            true => {
                let path = CString::new(point.as_os_str().as_bytes())?;
                // SAFETY: `path` is a string that ends in zero and lives through the call.
                if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            false => helper(&["-u", "-z"], point, Stdio::null())?,
        }
        Ok(Mounted { device, files, root: root?, next: AtomicU64::new(FIRST_FILE) })
    }

    fn put(&self, image: Arc<Image>) -> (u64, PathBuf) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.files.insert(number, image);
        let process = std::process::id();
        let root = self.root.as_raw_fd();
        (number, format!("/proc/{process}/fd/{root}/{}", fuse::file_name(number)).into())
    }

    fn remove(&self, number: u64) {
        self.files.remove(number);
        // Pages that stay are only memory that the kernel takes back when it wants it.
        let _ = fuse::forget(&self.device, number);
    }
}

/// Makes a directory that nobody else uses.
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

fn mount_as_root(point: &Path) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,max_read=1048576",
        device.as_raw_fd()
    );
    let (options, target) = (CString::new(options)?, CString::new(point.as_os_str().as_bytes())?);
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // SAFETY: the strings end in zero and live through the call.
    let result = unsafe {
        libc::mount(
            c"seekless".as_ptr(),
            target.as_ptr(),
            c"fuse".as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}

/// Lets the system's helper mount, which sends the open device back through a socket.
fn mount_by_helper(point: &Path) -> io::Result<File> {
    let (own, theirs) = UnixStream::pair()?;
    helper(&["-o", "rw,nosuid,nodev,fsname=seekless"], point, Stdio::from(OwnedFd::from(theirs)))?;
    let mut byte = [0; 1];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(&own, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(File::from(descriptor));
        }
    }
    Err(io::Error::other("fusermount3 sent no device"))
}

fn helper(arguments: &[&str], point: &Path, socket: Stdio) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    // The socket takes the place of standard input.
    command.args(arguments).arg("--").arg(point).stdin(socket).env("_FUSE_COMMFD", "0");
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tape::Payload;
    use crate::replay::extents::Extents;
    use crate::replay::image::Source;
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
