//! The subcommands, a file each.

pub mod abandon_log;
pub mod ack;
pub mod attach;
pub mod check;
pub mod completions;
pub mod control;
pub mod crash_test;
pub mod create;
pub mod demo;
pub mod detach;
pub mod disk;
pub mod disks;
pub mod drain;
pub mod dump;
pub mod fs;
pub mod fsck;
pub mod info;
pub mod layouts;
pub mod man;
pub mod merge;
pub mod mkfs;
pub mod model;
pub mod mount;
pub mod prove;
pub mod record;
pub mod replace;
pub mod replay_crashes;
pub mod reproduce;
pub mod salvage;
pub mod scrub;
pub mod serve;
pub mod sim;
pub mod sim_fs;
pub mod status;
pub mod top;

use crate::args::Command;
use crate::effect::Given;
use crate::failure::{Failure, Outcome};
use std::io::{self, Write};

/// Runs a command and flushes its output.
///
/// # Errors
/// The failure of the command, or else of the flush.
pub fn run(command: Command, given: &Given) -> Outcome {
    let stdout = io::stdout();
    let out = &mut io::BufWriter::new(stdout.lock());
    let outcome = match command {
        Command::Create(args) => create::run(&args, given, out),
        Command::Serve(args) => serve::run(&args, given, out),
        Command::Info(args) => info::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Dump(args) => dump::run(&args, out),
        Command::Salvage(args) => salvage::run(&args, out),
        Command::Fs(args) => fs::run(&args, out),
        Command::Replace(args) => replace::run(&args, out),
        Command::Scrub(args) => scrub::run(&args, out),
        Command::Drain(args) => drain::run(&args, out),
        Command::AbandonLog(args) => abandon_log::run(&args, out),
        Command::Attach(args) => attach::run(&args, out),
        Command::Detach(args) => detach::run(&args, out),
        Command::Sim(args) => sim::run(&args, given, out),
        Command::SimFs(args) => sim_fs::run(&args, given, out),
        Command::Reproduce(args) => reproduce::run(&args, out),
        Command::Model(args) => model::run(&args, out),
        Command::Prove(args) => prove::run(&args, out),
        Command::Merge(args) => merge::run(&args, out),
        Command::Record(args) => record::run(&args, out),
        Command::Ack(args) => ack::run(&args),
        Command::ReplayCrashes(args) => replay_crashes::run(&args, out),
        Command::CrashTest(args) => crash_test::run(&args, out),
        Command::CrashWorker { .. } => seekless_crashtest::sandbox::worker::run(),
        Command::Disk(args) => disk::run(&args, out),
        Command::Disks(args) => disks::run(&args, out),
        Command::Fsck(args) => fsck::run(&args, out),
        Command::Mount(args) => mount::run(&args, out),
        Command::Mkfs(args) => mkfs::run(&args, out),
        Command::Layouts(args) => layouts::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Status(args) => status::run(&args, out),
        Command::Top(args) => top::run(&args, out),
        Command::Control(args) => control::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
    };
    // The output before a failure is flushed too. The failure takes precedence over a failed flush.
    let flushed = out.flush().map_err(Failure::from);
    outcome.and(flushed)
}
