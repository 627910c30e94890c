//! `seekless dump`: the on-disk structures as text.

use crate::failure::{Failure, Outcome};
use crate::volume::Volume;
use serde_json::json;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `seekless dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless dump disk.img | less
  seekless dump disk.img --json | jq -r '.lines[]' | head

SPEC.md describes every structure to the byte.")]
pub struct Args {
    /// The image; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    image: Vec<PathBuf>,
    /// Go on without members of an array that should be there.
    #[arg(long)]
    degraded: bool,
    /// The log of a disk caching disk, if it is on a device of its own.
    #[arg(long, value_name = "LOG", conflicts_with = "degraded")]
    log: Option<PathBuf>,
    /// Print one JSON object with the lines.
    #[arg(long)]
    json: bool,
}

/// Prints the structures.
///
/// # Errors
/// If the image is unusable or in use, or the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut volume = Volume::open(&args.image, args.degraded, args.log.as_deref())?;
    if args.json {
        let mut text = String::new();
        volume.dump(&mut text)?;
        let lines: Vec<_> = text.lines().collect();
        writeln!(
            out,
            "{}",
            json!({ "image": crate::volume::json_names(&args.image), "lines": lines })
        )?;
        return Ok(());
    }
    let mut stream = Stream { out, error: None };
    volume.print_array(stream.out)?;
    let result = volume.dump(&mut stream);
    // A failed write to the output takes precedence: the layout's error only follows from it.
    match stream.error {
        Some(error) => Err(Failure::from(error)),
        None => Ok(result?),
    }
}

/// Passes text on to an output and keeps the error of a failed write.
struct Stream<'o> {
    out: &'o mut dyn Write,
    error: Option<io::Error>,
}

impl fmt::Write for Stream<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
