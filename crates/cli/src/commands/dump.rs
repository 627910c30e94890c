//! `seekless dump`: the on-disk structures as text.

use crate::failure::{Failure, Outcome};
use seekless_engine::layout::{self, dcd};
use seekless_serve::image::{self, Image};
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
    /// The image.
    image: PathBuf,
    /// The log of a disk caching disk, if it is apart.
    #[arg(long, value_name = "LOG")]
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
    let mut image = image::open(&args.image, true)?;
    let mut log = args.log.as_deref().map(|log| image::open(log, true)).transpose()?;
    let mut dump = |image: &mut Image, out: &mut dyn fmt::Write| match &mut log {
        None => layout::dump(image, out),
        Some(log) => dcd::dump(image, log, out),
    };
    if args.json {
        let mut text = String::new();
        dump(&mut image, &mut text).map_err(|error| image.blame(error))?;
        let lines: Vec<_> = text.lines().collect();
        writeln!(out, "{}", json!({ "image": args.image, "lines": lines }))?;
        return Ok(());
    }
    let mut stream = Stream { out, error: None };
    let result = dump(&mut image, &mut stream);
    // If the output failed, whatever the layout made of that is beside the point.
    match stream.error {
        Some(error) => Err(Failure::from(error)),
        None => Ok(result.map_err(|error| image.blame(error))?),
    }
}

/// Text as it comes, to an output whose errors carry a reason.
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
