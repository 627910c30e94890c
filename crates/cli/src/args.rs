//! The command line: subcommands and the arguments that several of them share.

use crate::commands;
use crate::failure::EXIT_CODES;
use clap::{Parser, Subcommand};

/// A programmable disk: it shows what your storage will do, then proves it.
#[derive(Debug, Parser)]
#[command(name = "seekless", version, after_help = EXIT_CODES, propagate_version = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Every subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an image: a file that holds a volume.
    Create(commands::create::Args),
    /// Serve an image, or memory, as a network block device (NBD).
    Serve(commands::serve::Args),
    /// Show the layout, size and identity of an image or an array.
    Info(commands::info::Args),
    /// Read everything an image holds and verify it.
    Check(commands::check::Args),
    /// Print the on-disk structures of an image.
    Dump(commands::dump::Args),
    /// Copy what is certain of a damaged volume, with a map of the holes.
    Salvage(commands::salvage::Args),
    /// Make a file system on a volume.
    Mkfs(commands::mkfs::Args),
    /// Mount a file system.
    Mount(commands::mount::Args),
    /// Check a file system, and repair it.
    Fsck(commands::fsck::Args),
    /// List, copy, archive and remove files of a file system that is not mounted; sync one that is.
    Fs(commands::fs::Args),
    /// Give an array a new member in the place of one that is gone.
    Replace(commands::replace::Args),
    /// Compare copies and parity of an array while it is served.
    Scrub(commands::scrub::Args),
    /// Write what the log of a disk caching disk holds to its home location.
    Drain(commands::drain::Args),
    /// Make an origin usable alone whose log is lost.
    AbandonLog(commands::abandon_log::Args),
    /// Make a volume a block device of this machine.
    Attach(commands::attach::Args),
    /// Take the block device of a volume away, or the log of a disk caching disk.
    Detach(commands::detach::Args),
    /// Run a workload on a simulated disk, in virtual time.
    Sim(commands::sim::Args),
    /// Run programs over a file system on a simulated disk, in virtual time.
    SimFs(commands::sim_fs::Args),
    /// Measure a figure of the papers about file systems again, with a verdict for each claim.
    Reproduce(commands::reproduce::Args),
    /// Print what the analytic models predict for a disk.
    Model(commands::model::Args),
    /// Cut the power at every step and check what recovery finds.
    Prove(commands::prove::Args),
    /// Add up the reports of the shards of `prove`.
    Merge(commands::merge::Args),
    /// Crash-test software: record what it writes, and check every crash.
    CrashTest(commands::crash_test::Args),
    /// Say how processes that serve are.
    Status(commands::status::Args),
    /// Watch a process that serves.
    Top(commands::top::Args),
    /// Send a command to a served disk that crashes on demand.
    Control(commands::control::Args),
    /// Record the requests of an NBD export, to replay its crashes later.
    Record(commands::record::Args),
    /// Record what a program has acknowledged to its own clients.
    Ack(commands::ack::Args),
    /// Check every state in which a power cut could leave a recorded disk.
    ReplayCrashes(commands::replay_crashes::Args),
    /// Import models of drives, and compare them with recordings.
    Disk(commands::disk::Args),
    /// List the built-in disks, or describe one.
    Disks(commands::disks::Args),
    /// List the layouts.
    Layouts(commands::layouts::Args),
    /// Demonstrate the main commands on one screen.
    Demo(commands::demo::Args),
    /// Run checks for a crash test.
    #[command(hide = true)]
    CrashWorker {
        /// Where its process numbers begin, what it has to itself, where copies are. The worker
        /// reads them itself.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        how: Vec<std::ffi::OsString>,
    },
    /// Print a completion script for a shell.
    #[command(hide = true)]
    Completions(commands::completions::Args),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(commands::man::Args),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use seekless_engine::size::Size;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// clap applies the heading of an option group to all options after it, so each group sets its
    /// own.
    #[test]
    fn options_of_all_layouts_stand_under_no_heading() {
        for command in Cli::command().get_subcommands() {
            for id in ["json", "read_only", "faults", "control", "connections"] {
                let found = command.get_arguments().find(|arg| arg.get_id() == id);
                let heading = found.and_then(clap::Arg::get_help_heading);
                assert_eq!(heading, None, "{} --{id}", command.get_name());
            }
        }
    }

    #[test]
    fn the_old_name_of_chunk_is_accepted() {
        for line in [
            "seekless create --raid 0 --stripe 32k --layout lfs --size 8M a b",
            "seekless sim --raid 0 --stripe 32k --layout lfs --disk st19101",
        ] {
            let matches = Cli::command().try_get_matches_from(line.split(' ')).expect(line);
            let (_, own) = matches.subcommand().expect("a subcommand");
            assert_eq!(own.get_one::<Size>("chunk").map(|size| size.bytes()), Some(32 << 10));
        }
    }

    #[test]
    fn every_visible_subcommand_has_examples() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:"), "{} has none", command.get_name());
        }
    }
}
