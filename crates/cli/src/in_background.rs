//! Commands that go into the background: `mount` and `attach`.

use crate::failure::{Exit, Failure, Outcome};
use seekless_serve::background::{self, Begun};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where a command runs.
#[derive(Clone, Debug, clap::Args)]
pub struct BackgroundFlags {
    /// Append the messages of the process in the background to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "foreground")]
    messages: Option<PathBuf>,
    /// Stay in the foreground.
    #[arg(long, short)]
    foreground: bool,
    /// This is the process in the background.
    #[arg(long, hide = true, conflicts_with = "foreground")]
    detached: bool,
}

/// What a command does when it is ready.
#[derive(Debug)]
pub struct Ready {
    detached: bool,
    messages: Option<File>,
}

impl BackgroundFlags {
    /// Runs a command here, or in a process in the background and returns when that is ready.
    ///
    /// # Errors
    /// Those of `serve`; if there is no such process, or it ends before it is ready.
    pub fn run(
        &self,
        out: &mut dyn Write,
        serve: impl FnOnce(&mut dyn Write) -> Outcome,
    ) -> Outcome {
        if !self.foreground && !self.detached {
            return in_background(out);
        }
        if self.detached {
            background::begin()?;
        }
        serve(out)
    }

    /// What [`BackgroundFlags::run`] has to do when the command is ready.
    ///
    /// # Errors
    /// If the file for messages cannot be written to.
    pub fn ready(&self) -> Result<Ready, Failure> {
        let messages = self.messages.as_deref().map(open_messages).transpose()?;
        Ok(Ready { detached: self.detached, messages })
    }
}

impl Ready {
    /// Says a line and, in the background, lets the process go that waits.
    ///
    /// # Errors
    /// If the line cannot be written, or there is no `/dev/null`.
    pub fn say(&self, out: &mut dyn Write, line: &str) -> io::Result<()> {
        match self.detached {
            true => background::leave(out, line, self.messages.as_ref()),
            false => writeln!(out, "{line}").and_then(|()| out.flush()),
        }
    }
}

/// Runs the same command in the background until it is ready.
fn in_background(out: &mut dyn Write) -> Outcome {
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
fn open_messages(path: &Path) -> Result<File, Failure> {
    File::options().append(true).create(true).open(path).map_err(|error| {
        Failure::usage(format!("--messages: {}: {error}", path.display()))
            .hint("name a file that you may write to")
    })
}
