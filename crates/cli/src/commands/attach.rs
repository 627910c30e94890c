//! `seekless attach`: a volume as a block device of this machine.

use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{VolumeArgs, names};
use crate::in_background::BackgroundFlags;
use crate::log::LogFlags;
use crate::spec;
use seekless_engine::size::Size;
use seekless_layouts::shared::NO_PUNCH;
use seekless_serve::attach::{AttachError, Attached, attach};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// Arguments of `seekless attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo seekless attach disk.img                # prints /dev/loopN
  sudo mkfs.ext4 /dev/loop3; sudo mount /dev/loop3 /mnt
  sudo seekless attach a.img b.img c.img       # an array
  sudo seekless attach disk.raw --read-only    # a file as it is
  sudo umount /mnt; sudo seekless detach /dev/loop3

The device is a loop device over a file that the process serves through FUSE, which every kernel
has. The process goes into the background; its messages go to --messages, else to the log of the
kernel. `seekless detach`, or SIGTERM, ends it once the device is neither mounted nor open.
Partitions are not looked for: partprobe finds them.")]
pub struct Args {
    /// The image, file or block device; of an array all members.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Emulate the speed of this disk: a built-in name or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Bytes of a sector of the device: 512 or 4096. Without it 4096, and for a volume in place or
    /// a file as it is, 512. A file system with smaller blocks than a sector cannot be mounted.
    #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
    sector: Option<String>,
    /// Bypass the page cache below the volume (O_DIRECT).
    #[arg(long, conflicts_with = "disk")]
    direct: bool,
    /// Do not give space that the volume does not use back to the file system or the device below.
    #[arg(long)]
    no_punch: bool,
    /// Answer questions of Prometheus (GET /metrics) on this address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    #[command(flatten)]
    log_flags: LogFlags,
    #[command(flatten)]
    background: BackgroundFlags,
}

/// Attaches, and unless it stays in the foreground, returns when the device is there.
///
/// # Errors
/// If the volume is unusable or in use, or the machine has no FUSE or loop devices.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.background.run(out, |_| serve(args))
}

fn serve(args: &Args) -> Outcome {
    let mut options = args.volume.options(&args.images, args.read_only);
    options.disk = args.disk.as_deref().map(spec::find).transpose()?;
    options.direct = args.direct;
    options.options.set(&NO_PUNCH, args.no_punch);
    options.metrics = args.metrics.clone();
    let (images, ready) = (names(&args.images), args.background.ready()?);
    // The thread that makes the device writes while this one holds the lock of standard output.
    let mut out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let sector_bytes = args.sector.as_deref().and_then(|bytes| bytes.parse().ok());
    attach(&options, sector_bytes, move |attached| {
        let Attached { device, size_bytes } = attached;
        let size = Size::from_blocks(size_bytes / 4096);
        let (line, out) = (device.display().to_string(), &mut out);
        if let Err(error) = ready.say(out, &line) {
            tracing::warn!("the name of the device cannot be told: {error}");
        }
        tracing::info!("{images} attached as {}, {size}", device.display());
    })?;
    Ok(())
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        let exit = match error {
            AttachError::Serve(error) => return error.into(),
            AttachError::NoFuse | AttachError::NoLoop | AttachError::NotRoot => Exit::Lacking,
            AttachError::Device(_) => Exit::Failed,
        };
        Failure::from_message(exit, &error.to_string())
    }
}
