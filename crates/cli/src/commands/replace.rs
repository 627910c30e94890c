//! `seekless replace`: a new member for an array, in use or not.

use super::status::find;
use crate::failure::{Exit, Failure, Outcome};
use seekless_serve::control::ask;
use seekless_serve::control::registry::Found;
use seekless_serve::image::array::{open_members, replace_member};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless replace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless replace a.img c.img --with d.img      # b.img is gone
  seekless serve a.img c.img d.img --socket /tmp/disk.sock
  seekless replace a.img --with d.img            # the same while they are served

The new member takes the place of the first one that is out of date or not given; of an array that
is served, of the one that has failed. It is filled while the array is served, in pauses and between
requests, and is part of it from then on.")]
pub struct Args {
    /// The members that are left, in any order; one of them, the socket of the server or the
    /// directory of the mount will do if they are served.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// The new member: a file to make, or an empty block device.
    #[arg(long, value_name = "IMAGE")]
    with: PathBuf,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the new member part of the array.
///
/// # Errors
/// If no member is missing, or more are missing than the level tolerates.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let with = args.with.display();
    // Without a server a missing image is named by what opens it.
    let found = args.images.iter().find_map(|image| find(image).ok().flatten());
    if let Some(found) = found {
        let member = replace_served(args, &found)?;
        writeln!(out, "{with}: member {member}, being filled; `seekless status` shows how far")?;
        return Ok(());
    }
    let mut members = open_members(&args.images, false, true)?;
    let member = replace_member(&mut members, &args.with, args.force)?;
    writeln!(
        out,
        "{with}: member {member} of {}, to be filled while it is served",
        members.superblock().geometry.level
    )?;
    Ok(())
}

/// Asks the server, which has the members open.
fn replace_served(args: &Args, found: &Found) -> Result<u64, Failure> {
    let with = args.with.display();
    let image = std::path::absolute(&args.with)
        .map_err(|error| Failure::failed(format!("{with}: {error}")))?;
    let command = json!({ "command": "replace", "image": image, "force": args.force });
    let silent = |error| Failure::failed(format!("{with}: the server does not answer: {error}"));
    let answer = ask(&found.socket, &command).map_err(silent)?;
    match (answer["ok"] == true, answer["member"].as_u64()) {
        (true, Some(member)) => Ok(member),
        _ => {
            let why = answer["error"].as_str().unwrap_or("the answer is invalid");
            Err(Failure::from_message(Exit::Failed, why))
        }
    }
}
