//! `seekless disk`: models of drives, where they come from and how good they are.

mod calibrate;
mod drives;
mod files;
mod fit;
mod gap;
mod import;
mod probe;
mod validate;

use crate::failure::Outcome;
use clap::Subcommand;
use std::io::Write;

/// Arguments of `seekless disk`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  seekless disk import drive.parv --output drive.toml
  seekless disk validate --disk drive.toml --recording drive.trace --gap before
  seekless disk calibrate --disk drive.toml --recording drive.trace --output better.toml
  seekless disk fit --device /dev/sdb --output mine.toml
  seekless disk probe /dev/sdb --output mine.csv

A specification is a TOML file; every option named --disk takes a built-in name or a path."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a specification from parameter files of the DiskSim simulator.
    Import(import::Args),
    /// Replay the recording of a real drive on a model and report the error of the model.
    Validate(validate::Args),
    /// Learn from the recording of a drive what its specification lacks or has wrong.
    Calibrate(calibrate::Args),
    /// Estimate the parameters of a drive from measurements or a recording.
    Fit(fit::Args),
    /// Read a drive for some minutes and record it for `disk calibrate`.
    Probe(probe::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// Those of the subcommand.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.command {
        Command::Import(args) => import::run(args, out),
        Command::Validate(args) => validate::run(args, out),
        Command::Calibrate(args) => calibrate::run(args, out),
        Command::Fit(args) => fit::run(args, out),
        Command::Probe(args) => probe::run(args, out),
    }
}
