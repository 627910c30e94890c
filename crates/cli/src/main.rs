//! `seekless`: a programmable disk on the command line.
//!
//! This crate only reads arguments, calls the other crates and prints. One file per subcommand.

mod args;
mod caching;
mod commands;
mod failure;
mod idling;
mod nbd;
mod rebuild;
mod size;
mod span;
mod spec;
mod term;
mod volume;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
