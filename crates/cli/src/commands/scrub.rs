//! `seekless scrub`: compares copies and parity of an array while it is served.

use super::status::find;
use super::status::text;
use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress;
use seekless_engine::size::Size;
use seekless_serve::control::{ask, registry};
use seekless_serve::status::ScrubReport;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a scrub is asked how far it is.
const STEP: Duration = Duration::from_millis(200);

/// Arguments of `seekless scrub`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless scrub a.img                       # the array that is served with this member
  seekless scrub /tmp/disk.sock --rate 20M --wait
  seekless scrub /mnt --stop
  seekless check --scrub a.img b.img c.img   # of an array that is not served

The scrub runs in the server, between requests of clients; `seekless status` and `seekless top` show
how far it is. A block that a member cannot read is written anew from the others. Where members
disagree nothing is written: a read by a client is answered with what has the right checksum, and
`seekless check --scrub --repair` repairs all when the array is not served. With --wait the exit
code is 1 if members disagree or a block could not be repaired.")]
pub struct Args {
    /// A member of the array, the socket of its server, or the directory of its mount.
    #[arg(value_name = "IMAGE|SOCKET|DIR")]
    what: PathBuf,
    /// Read at most this much of each member in a second.
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
    /// Give the scrub up.
    #[arg(long, conflicts_with_all = ["rate", "wait"])]
    stop: bool,
    /// Wait until it has ended, and print what it has found.
    #[arg(long)]
    wait: bool,
}

/// Begins a scrub, or ends one.
///
/// # Errors
/// If nothing is served there, or it cannot be scrubbed now; with `--wait`, if it finds something.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let name = args.what.display();
    let Some(found) = find(&args.what)? else {
        return Err(Failure::failed(format!("{name}: not served"))
            .hint("name all members to `seekless check --scrub` to compare them"));
    };
    let command = match args.stop {
        true => json!({ "command": "stop-scrub" }),
        false => json!({ "command": "scrub", "rate": args.rate.map(|rate| rate.bytes()) }),
    };
    let silent = |error| Failure::failed(format!("{name}: the server does not answer: {error}"));
    let answer = ask(&found.socket, &command).map_err(silent)?;
    if answer["ok"] != true {
        let why = answer["error"].as_str().unwrap_or("the answer is invalid");
        return Err(Failure::from_message(Exit::Failed, &format!("{name}: {why}")));
    }
    if args.wait {
        return wait(&found.socket, &args.what, out);
    }
    let what = if args.stop { "scrub stopped" } else { "scrub begun; `seekless status` shows it" };
    Ok(writeln!(out, "{name}: {what}")?)
}

fn wait(socket: &Path, what: &Path, out: &mut dyn Write) -> Outcome {
    let mut progress = Progress::new();
    let name = what.display();
    let gone = || Failure::failed(format!("{name}: the server has ended before the scrub"));
    loop {
        let report = registry::report(socket).map_err(|_| gone())?;
        let scrub = report.scrub.ok_or_else(gone)?;
        if scrub.state != "running" {
            drop(progress);
            return end(&scrub, what, out);
        }
        progress.show(|| text::scrub(&scrub));
        std::thread::sleep(STEP);
    }
}

fn end(scrub: &ScrubReport, what: &Path, out: &mut dyn Write) -> Outcome {
    writeln!(out, "{}: scrub {}", what.display(), text::scrub(scrub))?;
    let left = scrub.mismatched_blocks + scrub.unreadable_blocks - scrub.repaired_blocks;
    match scrub.state == "ended" && left == 0 {
        true => Ok(()),
        false => Err(Failure::said(Exit::Failed)),
    }
}
