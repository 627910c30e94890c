//! `seekless detach`: takes the block device of a volume away, or the log of a disk caching disk.

use super::status::find;
use crate::failure::{Exit, Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use seekless_layouts::dcd;
use seekless_serve::control::registry::Found;
use seekless_serve::image;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless detach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo seekless detach /dev/loop3              # undoes `seekless attach`
  sudo seekless detach disk.img                # the same, by the image
  seekless drain /dev/sdb --log /dev/nvme0n1p3
  seekless detach /dev/sdb --log /dev/nvme0n1p3

A device that is mounted or open is left alone. Only an empty log can be detached; that takes no
time. The origin is then a plain disk again.")]
pub struct Args {
    /// The block device that was attached, or its image; with --log the origin.
    what: PathBuf,
    /// Detach this log of a disk caching disk.
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
}

/// How long the process may take for a clean shutdown.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Detaches.
///
/// # Errors
/// If nothing is attached there or it is in use; if the log holds blocks that are not at their home
/// location, the two do not belong together, or one is in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.log {
        Some(log) => detach_log(&args.what, log, out),
        None => detach_device(&args.what, out),
    }
}

fn detach_log(origin: &Path, log: &Path, out: &mut dyn Write) -> Outcome {
    let (mut first, mut second) = (image::open(origin, false)?, image::open_log(log, false)?);
    let detached = dcd::detach(&mut first, &mut second);
    detached.map_err(|error| image::blame_half(&first, Some(&second), error))?;
    writeln!(out, "{}: a plain disk again", origin.display())?;
    Ok(())
}

fn detach_device(what: &Path, out: &mut dyn Write) -> Outcome {
    let attached = find(what)?.filter(|found| found.report.at.starts_with("/dev/"));
    let Some(Found { report, .. }) = attached else {
        let problem = format!("{}: no block device is made of it", what.display());
        return Err(Failure::failed(problem)
            .hint("`seekless status` lists what is attached; --log LOG detaches a log"));
    };
    let device = report.at;
    if let Some(point) = mounted_at(&device) {
        return Err(Failure::from_message(
            Exit::Busy,
            &format!("{device} is mounted at {point}; unmount it first: umount {point}"),
        ));
    }
    let pid = i32::try_from(report.pid).ok().and_then(Pid::from_raw);
    let ended = pid.map(|pid| {
        // The descriptor names the process even if its number is given to another one.
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        kill_process(pid, Signal::TERM)?;
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&PATIENCE))
    });
    match ended {
        Some(Ok(1)) => {}
        Some(Ok(_)) => {
            return Err(Failure::from_message(
                Exit::Busy,
                &format!("{device} is still in use; it is detached when its users close it"),
            ));
        }
        Some(Err(errno)) => {
            return Err(Failure::failed(format!("process {}: {errno}", report.pid)));
        }
        None => return Err(Failure::failed("its process has no number")),
    }
    writeln!(out, "{device}: detached")?;
    Ok(())
}

/// Where a device is mounted in the mount namespace of this process.
fn mounted_at(device: &str) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    let found = fields.find_map(|mut line| (line.next() == Some(device)).then(|| line.next()));
    found.flatten().map(|point| point.replace("\\040", " "))
}
