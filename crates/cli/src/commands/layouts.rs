//! `seekless layouts`: lists the layouts.

use crate::failure::Outcome;
use seekless_layouts::Kind;
use serde_json::json;
use std::io::Write;

/// Arguments of `seekless layouts`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless layouts
  seekless layouts --json | jq -r '.layouts[].name'")]
pub struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the layouts.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.json {
        let layouts: Vec<_> = Kind::ALL
            .into_iter()
            .map(|kind| json!({ "name": kind.name(), "summary": kind.summary }))
            .collect();
        writeln!(out, "{}", json!({ "layouts": layouts }))?;
        return Ok(());
    }
    for kind in Kind::ALL {
        writeln!(out, "{:<9} {}", kind.name(), kind.summary)?;
    }
    Ok(())
}
