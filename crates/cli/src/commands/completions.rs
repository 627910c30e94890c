//! `seekless completions`: scripts that complete the command line.

use crate::args::Cli;
use crate::failure::Outcome;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `seekless completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    // Generate in memory first: the generator panics if a write fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "seekless", &mut script);
    out.write_all(&script)?;
    Ok(())
}
