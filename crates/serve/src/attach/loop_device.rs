//! Loop devices: a file as a block device, through the ioctls of the kernel.
//!
//! A device detaches itself (`LO_FLAGS_AUTOCLEAR`) when its last user closes it: a mount or a
//! descriptor. So it is not left behind when a process is killed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

// From <linux/loop.h>.
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Block devices of loop devices have this major number.
const MAJOR: u32 = 7;
/// Other processes may take the device that was free: each attempt asks for another.
const ATTEMPTS: u32 = 500;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    /// 0: the kernel's choice.
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Config>() == 304, "the layout of the kernel");

/// A file as a block device, until this and every mount of it is gone.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    /// Keeps the device attached.
    device: File,
}

impl LoopDevice {
    /// Attaches a free loop device to `file`, which must be open for writing unless `read_only`.
    /// Its sectors are as the kernel chooses.
    ///
    /// # Errors
    /// If there are no loop devices here, or none can be had.
    pub fn attach(file: &File, read_only: bool) -> io::Result<LoopDevice> {
        LoopDevice::with_sectors(file, read_only, None)
    }

    /// The same with logical sectors of so many bytes.
    ///
    /// # Errors
    /// As for [`LoopDevice::attach`], and sectors that the kernel does not have.
    pub fn with_sectors(
        file: &File,
        read_only: bool,
        sector_bytes: Option<u32>,
    ) -> io::Result<LoopDevice> {
        let control = File::options().read(true).write(true).open("/dev/loop-control");
        let control = control.map_err(|error| told("/dev/loop-control", &error))?;
        for attempt in 0..ATTEMPTS {
            // SAFETY: this ioctl takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            let number = u32::try_from(number).map_err(|_| io::Error::last_os_error())?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open_node(&path, number, read_only)?;
            match configure(&device, file, read_only, sector_bytes) {
                Ok(()) => return Ok(LoopDevice { path, device }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(told(&path.to_string_lossy(), &error)),
            }
            // Those that lost the race spread out.
            std::thread::sleep(Duration::from_micros(u64::from(attempt.min(20)) * 50));
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "other processes took every free loop device; run fewer checks at once",
        ))
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open device.
    pub fn file(&self) -> &File {
        &self.device
    }

    /// Tells, when this is gone, whether others still use the device.
    pub fn in_use(&self) -> InUse {
        let name = self.path.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        InUse { attached_to: std::fs::read(&backing).ok(), backing }
    }
}

/// Whether a loop device is still attached to what it was attached to.
#[derive(Clone, Debug)]
pub struct InUse {
    backing: PathBuf,
    attached_to: Option<Vec<u8>>,
}

impl InUse {
    /// True while it is.
    pub fn lasts(&self) -> bool {
        self.attached_to.is_some() && std::fs::read(&self.backing).ok() == self.attached_to
    }
}

/// Opens the node of a loop device. In a container the kernel makes new devices without nodes.
fn open_node(path: &Path, number: u32, read_only: bool) -> io::Result<File> {
    let open = || {
        let mut options = File::options();
        options.read(true).write(!read_only).custom_flags(libc::O_CLOEXEC).open(path)
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let kind = rustix::fs::FileType::BlockDevice;
            let device = rustix::fs::makedev(MAJOR, number);
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            match rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => open(),
                Err(errno) => Err(errno.into()),
            }
        }
        opened => opened,
    }
    .map_err(|error| told(&path.to_string_lossy(), &error))
}

fn configure(
    device: &File,
    file: &File,
    read_only: bool,
    sector_bytes: Option<u32>,
) -> io::Result<()> {
    // SAFETY: all zeros are a valid value of these structures of numbers.
    let mut config: Config = unsafe { std::mem::zeroed() };
    config.fd = file.as_raw_fd().cast_unsigned();
    config.block_size = sector_bytes.unwrap_or(0);
    // Direct I/O keeps no second copy of the bytes in memory. Where the file cannot do it, the
    // kernel goes without.
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if read_only {
        config.info.flags |= LO_FLAGS_READ_ONLY;
    }
    // SAFETY: the structure has the layout that the kernel reads, and lives through the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The error, with the file it is about.
fn told(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}
