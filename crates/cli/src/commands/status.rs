//! `seekless status`: how processes that serve are.

mod find;
pub mod text;

use super::info;
use crate::failure::Outcome;
pub use find::find;
use seekless_serve::control::registry::{self, Found};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `seekless status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless status                              # all that you serve or have mounted
  seekless status disk.img
  seekless status /tmp/disk.sock --json | jq .requests.write.latency
  seekless status /mnt                         # a mounted file system
  kill -USR1 PID                               # a line of it into the log of a server

Of an image that is not served it says what `seekless info` does. Counts go on from the start of
the process; `seekless top` shows rates. Processes of other users are not found.")]
pub struct Args {
    /// An image, the socket of a server, or the directory of a mount; all of yours if left out.
    #[arg(value_name = "IMAGE|SOCKET|DIR")]
    what: Option<PathBuf>,
    /// Print JSON: an object, or an array of them without an argument.
    #[arg(long)]
    json: bool,
}

/// Prints how a process is, or all of them.
///
/// # Errors
/// If there is no such thing.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Some(what) = &args.what else { return all(args.json, out) };
    match find(what)? {
        Some(found) => one(&found, args.json, out),
        None => {
            if !args.json {
                writeln!(out, "{}: not served", what.display())?;
            }
            info::run(&info::Args::of_image(what, args.json), out)
        }
    }
}

fn all(json: bool, out: &mut dyn Write) -> Outcome {
    let found = registry::all();
    if json {
        let reports: Vec<_> = found.iter().map(|one| &one.report).collect();
        return Ok(writeln!(out, "{}", serde_json::to_string(&reports).map_err(io::Error::from)?)?);
    }
    if found.is_empty() {
        writeln!(out, "nothing is served or mounted by you")?;
    }
    for (index, one) in found.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", text::text(&one.report))?;
    }
    Ok(())
}

fn one(found: &Found, json: bool, out: &mut dyn Write) -> Outcome {
    match json {
        true => {
            writeln!(out, "{}", serde_json::to_string(&found.report).map_err(io::Error::from)?)?
        }
        false => write!(out, "{}", text::text(&found.report))?,
    }
    Ok(())
}
