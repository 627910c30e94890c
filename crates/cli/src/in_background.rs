//! Commands that go into the background: `mount` and `attach`.

use crate::failure::{Exit, Failure, Outcome};
use seekless_serve::background::{self, Begun};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Runs the same command in the background until it is ready.
///
/// # Errors
/// If it cannot be started, or ends before that.
pub fn in_background(out: &mut dyn Write) -> Outcome {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Behind the name of the subcommand, before anything that ends the options.
    arguments.insert(arguments.len().min(1), "--detached".into());
    let begun = background::start(arguments);
    let begun = begun.map_err(|error| {
        Failure::failed(format!("cannot go into the background: {error}")).hint("use --foreground")
    })?;
    match begun {
        Begun::Ready(said) => Ok(out.write_all(&said)?),
        Begun::Ended(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Err(Failure::said(Exit::Failed).status(code.unwrap_or(Exit::Failed as u8)))
        }
    }
}

/// The file that takes the messages (`--messages`).
///
/// # Errors
/// If it cannot be written to.
pub fn open_messages(path: &Path) -> Result<File, Failure> {
    File::options().append(true).create(true).open(path).map_err(|error| {
        Failure::usage(format!("--messages: {}: {error}", path.display()))
            .hint("name a file that you may write to")
    })
}
