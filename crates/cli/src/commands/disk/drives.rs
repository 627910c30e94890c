//! The drives that are measured: a block device in real time, or a simulated drive in virtual time.

use crate::failure::{Exit, Failure};
use crate::spec;
use rustix::fs::OFlags;
use rustix::io::Errno;
use seekless_disk::Drive;
use seekless_disk::drive::Request;
use seekless_disk::fit::Probe;
use seekless_engine::io::Op;
use seekless_engine::units::{SECTOR_BYTES, Time};
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most sectors of a request to a device. The kernel would split a larger one.
const LARGEST: u32 = 1024;

/// A drive of fewer sectors is too small to measure.
const LEAST: u64 = 4096;

/// Alignment of memory for direct reads, in bytes.
const ALIGNMENT: usize = 4096;

/// The last part of a pause is spent spinning, because sleeping is less exact.
const AWAKE: Duration = Duration::from_micros(150);

/// The drive that a command measures, and what it is called.
///
/// # Errors
/// If there is none, it cannot be opened, or it is too small to measure.
pub(super) fn open(
    device: Option<&Path>,
    disk: Option<&str>,
) -> Result<(Box<dyn Probe>, String), Failure> {
    let (probe, origin): (Box<dyn Probe>, String) = match (device, disk) {
        (_, Some(name)) => {
            let spec = spec::find(name)?;
            let drive = Drive::new(&spec)
                .map_err(|error| Failure::from_message(Exit::Usage, &format!("{name}: {error}")))?;
            (Box::new(Simulated::new(drive)), format!("the model {name}"))
        }
        (Some(path), None) => (Box::new(Device::open(path)?), path.display().to_string()),
        (None, None) => {
            return Err(Failure::usage("no drive is given").hint("name a device, or give --disk"));
        }
    };
    if probe.sectors() < LEAST {
        let cause = format!("{origin} has {} sectors", probe.sectors());
        return Err(Failure::usage(cause).hint(format!("at least {LEAST} are needed")));
    }
    Ok((probe, origin))
}

/// A simulated drive as a black box.
struct Simulated {
    drive: Drive,
    now: Time,
}

impl Simulated {
    /// An idle drive at time 0.
    fn new(drive: Drive) -> Simulated {
        Simulated { drive, now: 0 }
    }
}

impl Probe for Simulated {
    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn granule(&self) -> u32 {
        self.drive.granule()
    }

    fn now(&self) -> Time {
        self.now
    }

    fn pause(&mut self, ns: Time) {
        self.now += ns;
    }

    fn read(&mut self, lbn: u64, sectors: u32) -> Result<Time, String> {
        let request = Request { tag: 0, op: Op::Read, lbn, sectors, fua: false };
        let at = self.drive.serve_alone(self.now, request).map_err(|error| error.to_string())?;
        Ok(at - std::mem::replace(&mut self.now, at))
    }
}

/// A block device, or a file, past the page cache.
struct Device {
    file: File,
    path: PathBuf,
    sectors: u64,
    granule: u32,
    begun: Instant,
    memory: Vec<u8>,
}

impl Device {
    /// Opens a device for reading only.
    ///
    /// # Errors
    /// If it cannot be opened, or does not support reads past the page cache.
    fn open(path: &Path) -> Result<Device, Failure> {
        let shown = path.display();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(path);
        let mut file = opened.map_err(|error| {
            let failure = Failure::usage(format!("cannot read {shown}: {error}"));
            match Errno::from_io_error(&error) {
                Some(Errno::ACCESS | Errno::PERM) => {
                    failure.hint("reading a device directly needs root rights or the group `disk`")
                }
                Some(Errno::INVAL) => {
                    failure.hint("it cannot be read past the page cache; give a block device")
                }
                _ => failure,
            }
        })?;
        let kind = file.metadata()?.file_type();
        if !kind.is_block_device() && !kind.is_file() {
            return Err(Failure::usage(format!("{shown} is neither block device nor file")));
        }
        let granule = match kind.is_block_device() {
            true => {
                let logical = rustix::fs::ioctl_blksszget(&file).unwrap_or(4096);
                let physical = rustix::fs::ioctl_blkpbszget(&file).unwrap_or(logical);
                logical.max(physical).max(512) / SECTOR_BYTES as u32
            }
            false => 8,
        };
        let bytes = file.seek(SeekFrom::End(0))?;
        let sectors = bytes / SECTOR_BYTES as u64 / u64::from(granule) * u64::from(granule);
        Ok(Device {
            file,
            path: path.to_owned(),
            sectors,
            granule,
            begun: Instant::now(),
            memory: vec![0; LARGEST as usize * SECTOR_BYTES + ALIGNMENT],
        })
    }
}

impl Probe for Device {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn granule(&self) -> u32 {
        self.granule
    }

    fn largest(&self) -> u32 {
        LARGEST
    }

    fn now(&self) -> Time {
        self.begun.elapsed().as_nanos() as Time
    }

    fn pause(&mut self, ns: Time) {
        let until = Instant::now() + Duration::from_nanos(ns);
        if let Some(asleep) = Duration::from_nanos(ns).checked_sub(AWAKE) {
            std::thread::sleep(asleep);
        }
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    fn read(&mut self, lbn: u64, sectors: u32) -> Result<Time, String> {
        let begin = self.memory.as_ptr().align_offset(ALIGNMENT);
        let memory = &mut self.memory[begin..begin + sectors as usize * SECTOR_BYTES];
        let offset = lbn * SECTOR_BYTES as u64;
        let asked = self.begun.elapsed();
        let mut filled = 0;
        while filled < memory.len() {
            match rustix::io::pread(&self.file, &mut memory[filled..], offset + filled as u64) {
                Ok(0) => return Err(format!("{} has become shorter", self.path.display())),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => {
                    let path = self.path.display();
                    return Err(format!("cannot read sector {lbn} of {path}: {error}"));
                }
            }
        }
        Ok((self.begun.elapsed() - asked).as_nanos() as Time)
    }
}
