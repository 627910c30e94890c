//! `seekless mount`: mounts a file system and serves it until it is unmounted.

use crate::commands::serve::salvaging;
use crate::failure::{Failure, Outcome};
use crate::filesystem::{
    JournalArgs, VolumeArgs, WriteAge, absolute, blame, data_modes, names, on_or_off, policies,
    wall_clock, warn_of_damage,
};
use crate::in_background::BackgroundFlags;
use crate::log::LogFlags;
use crate::mount_options::KERNEL;
use crate::spec;
use clap::builder::PossibleValuesParser;
use seekless_engine::layout::LayoutError;
use seekless_engine::size::Size;
use seekless_formats::{self as formats, FsError, Kind, MountedFs};
use seekless_fs::core::{CoreOptions, Ordering};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::{DataMode, JournalOptions};
use seekless_layouts::shared::NO_PUNCH;
use seekless_serve::crash::plan::Fault;
use seekless_serve::files::{self, MountOptions, Volume};
use seekless_serve::server::CrashOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless mount`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo seekless mount disk.img /mnt
  sudo seekless mount disk.img /mnt --read-only
  sudo seekless mount disk.img /mnt --salvage              # what is left of a damaged volume
  sudo seekless mount disk.img /mnt --disk cheetah9lp      # at the pace of a disk
  sudo seekless mount a.img b.img c.img /mnt               # on an array
  sudo seekless mount disk.img /mnt --control /tmp/disk.ctl    # a disk whose power you can cut
  seekless mount disk.img ~/mnt --foreground               # for your own use, through fusermount3
  fusermount3 -u ~/mnt                                     # unmounts; root may use umount
  sudo mount -t seekless -o policy=soft disk.img /mnt      # as /sbin/mount.seekless

One line says that the file system is mounted. The process then goes into the background. There its
messages go to --messages, else to the log of the kernel (dmesg) if root mounts, else nowhere.
--foreground keeps the process, and its messages, where they are. SIGTERM unmounts, too: programs
with open files have 5 seconds to close them.

With --faults or --control the disk below the layout can crash, as that of `seekless serve` does.
After a power cut all requests fail with EIO: unmount, run `seekless fsck`, and mount again.")]
pub struct Args {
    /// The image, file or block device (of an array all members), and the directory to mount at.
    #[arg(required = true, num_args = 2.., value_names = ["IMAGE", "DIR"])]
    paths: Vec<PathBuf>,
    /// How writes of metadata are ordered, if not as `mkfs` was told.
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    policy: Option<PolicyKind>,
    /// Take completed writes for durable and send no flush, as kernels of 1999 did. A power cut
    /// then may break every promise of the policy, that of fsync too, unless the volume keeps what
    /// it has completed.
    #[arg(long, conflicts_with = "read_only")]
    trust_completions: bool,
    /// Emulate the speed of this disk: a built-in name or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    journal: JournalArgs,
    /// Memory for cached blocks; the kernel has a cache of its own.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    cache: Size,
    #[command(flatten)]
    write_age: WriteAge,
    /// Refuse changes, and write nothing.
    #[arg(long)]
    read_only: bool,
    /// Mount what is certain of a damaged volume, read-only; reading anything else is EIO.
    #[arg(long, conflicts_with_all = ["log", "trust_completions", "kernel_cache"])]
    salvage: bool,
    /// Where the newest content is not certain, read the newest that is found.
    #[arg(long, requires = "salvage")]
    allow_stale: bool,
    /// Bypass the page cache below the volume (O_DIRECT).
    #[arg(long, conflicts_with = "disk")]
    direct: bool,
    /// Do not give space that the volume does not use back to the file system or the device below.
    #[arg(long)]
    no_punch: bool,
    /// Let the kernel keep what programs write and hand it on later: faster, but `close` no longer
    /// reports errors of writes, and figures measure the kernel.
    #[arg(long, alias = "writeback", conflicts_with = "read_only")]
    kernel_cache: bool,
    /// On a file system with a log: write content of files before the metadata that leads to it
    /// (ordered), or at any time (writeback): then a crash may show old content of reused space.
    #[arg(long, value_name = "MODE", default_value = "ordered")]
    #[arg(value_parser = data_modes(), conflicts_with = "read_only")]
    data: DataMode,
    /// On a file system with a log, or under `atomic`: let calls that wait share a write of the
    /// log, or a transaction.
    #[arg(long, value_name = "on|off", default_value = "on")]
    #[arg(value_parser = on_or_off(), conflicts_with = "read_only")]
    group_commit: bool,
    /// Faults to inject below the layout, as for `serve`.
    #[arg(long, value_name = "FAULTS", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["disk", "direct", "log"])]
    faults: Vec<Fault>,
    /// Take commands on this Unix socket: cut, arm, …; see `seekless control`.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["disk", "direct", "log"])]
    control: Option<PathBuf>,
    /// Answer questions of Prometheus (GET /metrics) on this address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Options as in fstab: `ro`, options of every mount such as `noatime` and `noexec`, and the
    /// options of this command without their hyphens (`policy=soft`, `cache=256M`, `kernel-cache`).
    // They are rewritten before the command line is parsed.
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    _options: Option<String>,
    /// An option of the kernel.
    #[arg(long, hide = true, value_parser = PossibleValuesParser::new(KERNEL))]
    kernel_option: Vec<String>,
    #[command(flatten)]
    log_flags: LogFlags,
    #[command(flatten)]
    background: BackgroundFlags,
}

impl Args {
    /// All that the mount has open: one that finds an image in use looks for its mount.
    fn devices(&self, images: &[PathBuf]) -> Vec<PathBuf> {
        let apart = [&self.volume.log, &self.journal.journal];
        images.iter().chain(apart.into_iter().flatten()).cloned().collect()
    }

    fn is_read_only(&self) -> bool {
        self.read_only || self.salvage
    }
}

/// Mounts, and unless it stays in the foreground, returns when that is done.
///
/// # Errors
/// If the image or the directory is unusable or in use, or the backing store fails.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Some((point, images)) = args.paths.split_last() else {
        return Err(Failure::usage("an image and a directory are needed"));
    };
    args.background.run(out, |out| serve(args, images, point, out))
}

fn serve(args: &Args, images: &[PathBuf], point: &Path, out: &mut dyn Write) -> Outcome {
    files::check_point(point)?;
    let mut options = args.volume.options(images, args.is_read_only());
    options.options = salvaging(&options.options, args.salvage, args.allow_stale);
    options.disk = args.disk.as_deref().map(spec::find).transpose()?;
    if let Some(disk) = options.disk.as_ref().filter(|disk| disk.zoned.is_some()) {
        let writer = "a file system".to_owned();
        return Err(LayoutError::InOrder { disk: disk.name.clone(), writer }.into());
    }
    options.direct = args.direct;
    options.options.set(&NO_PUNCH, args.no_punch);
    options.metrics = args.metrics.clone();
    options.crash = (!args.faults.is_empty() || args.control.is_some()).then(|| CrashOptions {
        faults: args.faults.clone(),
        control: args.control.clone(),
        ..CrashOptions::default()
    });
    let ready = args.background.ready()?;
    let mut volume = args.journal.open(&options)?;
    let mounted = Kind::of(&mut volume)
        .and_then(|kind| Ok((kind, policy(args, kind, &mut volume)?)))
        .map_err(|error| blame(images, &error))
        .and_then(|(kind, policy)| {
            let gives_up = args.trust_completions && volume.is_volatile();
            give_up(gives_up, images, policy)?;
            refuse_journal(args, images, policy)?;
            let mounted = mount(args, (kind, policy), &mut volume);
            Ok((kind, mounted.map_err(|error| blame(images, &error))?))
        });
    let (kind, fs) = match mounted {
        Ok(mounted) => mounted,
        Err(failure) => {
            // The volume is left as it was found.
            let _ = volume.close();
            return Err(failure);
        }
    };
    warn_of_damage(images, &*fs);
    if let Some(recovered) = fs.recovered() {
        crate::term::say(&format!("note: {}: {recovered}", names(images)));
    }
    let options = MountOptions {
        point: absolute(point),
        images: args.devices(images),
        read_only: args.is_read_only(),
        writeback: args.kernel_cache,
        kernel: args.kernel_option.clone(),
        policy: fs.policy().name().to_owned(),
    };
    let how = if args.is_read_only() { ", read-only" } else { "" };
    let line =
        format!("{}: {} mounted at {}{how}", names(images), kind.title, options.point.display());
    if !args.is_read_only() {
        crate::term::say(&format!(
            "note: `sync` does not reach this mount; `seekless fs sync {}` does",
            point.display()
        ));
    }
    let mut said = Ok(());
    files::serve(fs, volume, &options, &mut || {
        said = ready.say(out, &line);
    })?;
    Ok(said?)
}

/// The policy of the mount.
fn policy(args: &Args, kind: Kind, volume: &mut Volume) -> Result<PolicyKind, FsError> {
    Ok(match args.policy {
        Some(policy) => policy,
        None => (kind.advice)(volume)?,
    })
}

/// Says what a mount gives up that sends no flush to a volume that reports early, and refuses the
/// policy that could not keep anything there.
fn give_up(gives_up: bool, images: &[PathBuf], policy: PolicyKind) -> Outcome {
    if !gives_up {
        return Ok(());
    }
    if policy.answers_when_durable() {
        let cause = format!(
            "{}: --policy {} says that what is acknowledged is durable; this volume reports \
             writes before they are durable, and --trust-completions sends no flush",
            names(images),
            policy.name()
        );
        let hint = "leave out --trust-completions, or choose a disk that reports no write early";
        return Err(Failure::usage(cause).hint(hint));
    }
    crate::term::say(&format!(
        "warning: {}: --trust-completions: the volume reports writes before they are durable; a \
         power cut may lose what fsync has promised and damage the file system",
        names(images)
    ));
    Ok(())
}

/// Refuses a log beside a policy that writes transactions: two devices together have none.
fn refuse_journal(args: &Args, images: &[PathBuf], policy: PolicyKind) -> Outcome {
    if args.journal.journal.is_none() || !policy.wants_transactions() {
        return Ok(());
    }
    let cause = format!("{}: --policy {} keeps no log", names(images), policy.name());
    Err(Failure::usage(cause).hint("leave out --journal"))
}

/// Mounts the file system, in use from then on until its clean end.
fn mount(
    args: &Args,
    (kind, policy): (Kind, PolicyKind),
    volume: &mut Volume,
) -> Result<Box<dyn MountedFs>, FsError> {
    let core = CoreOptions {
        cache_bytes: args.cache.bytes(),
        write_age_s: args.write_age.seconds(),
        read_only: args.is_read_only(),
        ordering: match args.trust_completions {
            true => Ordering::Trusted,
            false => Ordering::Flush,
        },
        ..CoreOptions::default()
    };
    let journal = JournalOptions {
        data: args.data,
        group_commit: args.group_commit,
        ..JournalOptions::default()
    };
    let options = formats::MountOptions { core, policy, journal, now: wall_clock() };
    (kind.mount)(volume, &options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn sync_is_refused_where_nothing_is_flushed_and_reports_come_early() {
        let images = [PathBuf::from("disk.img")];
        let refused = give_up(true, &images, PolicyKind::Sync).expect_err("it cannot be kept");
        let said = format!("{refused:?}");
        assert_eq!(refused.exit, Exit::Usage);
        assert!(said.contains("disk.img: --policy sync says that"), "{said}");
        assert!(said.contains("leave out --trust-completions, or choose a disk"), "{said}");
        assert!(give_up(false, &images, PolicyKind::Sync).is_ok(), "the volume keeps writes");
        assert!(give_up(true, &images, PolicyKind::Async).is_ok(), "with a warning");
    }
}
