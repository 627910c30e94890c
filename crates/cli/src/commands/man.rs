//! `seekless man`: manual pages, made from the same definitions as `--help`.

use crate::args::Cli;
use crate::failure::{Failure, Outcome};
use clap::{Command, CommandFactory as _};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write a page per subcommand; without it the main page is printed.
    dir: Option<PathBuf>,
}

/// Writes the pages.
///
/// # Errors
/// If a page cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut command = without_help(Cli::command());
    command.build();
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        out.write_all(&page)?;
        return Ok(());
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|e| Failure::failed(format!("cannot write pages to {}: {e}", dir.display())))
}

/// The command without subcommands named `help`. Their pages would only repeat which subcommands
/// there are.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
