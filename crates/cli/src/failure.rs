//! How a command ends: a stable exit code, the cause, and what to do about it.

use seekless_arrays::VolumeError;
use seekless_engine::io::IoError;
use seekless_engine::layout::LayoutError;
use seekless_serve::image::ImageError;
use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Exit codes that scripts may rely on. `0` is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The operation failed, or it ran and found violations or damage.
    Failed = 1,
    /// The command line cannot be understood.
    Usage = 2,
    /// The image is missing, damaged, truncated, from a newer version, or not of Seekless.
    Image = 3,
    /// The image, socket or address is in use.
    Busy = 4,
    /// The backing store failed while the volume was being served.
    Backing = 5,
    /// A command of the user failed for its own reasons, or its check cannot be trusted.
    Check = 6,
    /// The machine lacks what the command needs.
    Lacking = 7,
    /// Nothing bad was found, but not all states were tried.
    Partial = 8,
    /// SIGHUP ended a command that cleans up first.
    HungUp = 129,
    /// SIGINT ended it.
    Interrupted = 130,
    /// SIGTERM ended it.
    Terminated = 143,
}

impl Exit {
    /// After a signal: the exit code that a shell reports for a process killed by it.
    pub fn by_signal(signal: i32) -> Exit {
        match signal {
            1 => Exit::HungUp,
            2 => Exit::Interrupted,
            _ => Exit::Terminated,
        }
    }
}

/// The table for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the operation failed, or found violations or damage
  2  the command line is wrong
  3  the image is missing, foreign, damaged, truncated or from a newer version
  4  the image, socket or address is in use
  5  the backing store failed while the volume was served
  6  a command of yours failed for its own reasons, or cannot be trusted
  7  the machine lacks what the command needs
  8  nothing bad was found, but not everything was tried (`crash-test`, `merge`)";

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// Exit code of the process.
    pub exit: Exit,
    /// What happened; empty if it is printed already.
    pub cause: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The reader of the output has closed it: end without a message.
    pub reader_gone: bool,
    /// The exit code of a command that keeps to codes of its own, as `fsck` does.
    pub status: Option<u8>,
}

/// The result of a command.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure with a code and its cause.
    pub fn new(exit: Exit, cause: impl Into<String>) -> Failure {
        Failure { exit, cause: cause.into(), hint: None, reader_gone: false, status: None }
    }

    /// The operation failed.
    pub fn failed(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, cause)
    }

    /// The command line is invalid.
    pub fn usage(cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, cause)
    }

    /// The report is printed; only the exit code remains.
    pub fn said(exit: Exit) -> Failure {
        Failure::new(exit, "")
    }

    /// A failure from a message of the form `cause; remedy`, which all crates use. The cause may
    /// contain a path with semicolons, so the last one separates them.
    pub fn from_message(exit: Exit, message: &str) -> Failure {
        match message.rsplit_once("; ") {
            Some((cause, remedy)) => Failure::new(exit, cause).hint(remedy),
            None => Failure::new(exit, message),
        }
    }

    /// The same failure with an exit code of the command's own.
    pub fn status(mut self, status: u8) -> Failure {
        self.status = Some(status);
        self
    }

    /// The same failure with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    fn hint_if_damaged(self, error: &LayoutError) -> Failure {
        match error {
            LayoutError::Damaged(_) if self.hint.is_none() => self.hint(DAMAGED),
            _ => self,
        }
    }

    /// Prints cause and hint to standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if self.reader_gone {
            return ExitCode::SUCCESS;
        }
        if !self.cause.is_empty() {
            let style = crate::term::Style::of_stderr();
            crate::term::say(&format!("{} {}", style.red("error:"), self.cause));
            if let Some(hint) = &self.hint {
                crate::term::say(&format!("{} {hint}", style.cyan("hint:")));
            }
        }
        ExitCode::from(self.status.unwrap_or(self.exit as u8))
    }
}

/// A closed pipe is no failure: its reader has all it wants.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let mut failure = Failure::failed(format!("cannot write the output: {error}"));
        failure.reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Failure {
        let failure = Failure::from_message(layout_exit(&error), &error.to_string());
        failure.hint_if_damaged(&error)
    }
}

/// What to do about damaged metadata, where the message says nothing of it.
const DAMAGED: &str = "`seekless salvage` copies what is certain; `seekless check --repair` then \
                       makes the volume mountable";

fn layout_exit(error: &LayoutError) -> Exit {
    match error {
        LayoutError::TooSmall { .. } | LayoutError::BadSize(_) | LayoutError::InOrder { .. } => {
            Exit::Usage
        }
        LayoutError::Superblock(_) | LayoutError::Damaged(_) | LayoutError::Apart(_) => Exit::Image,
        LayoutError::Io(_) => Exit::Backing,
        LayoutError::Below(_) => match error.below() {
            Some(VolumeError::BadShape(_) | VolumeError::UnknownLevel(_)) => Exit::Usage,
            Some(VolumeError::Io { .. }) => Exit::Backing,
            _ => Exit::Image,
        },
        LayoutError::OfLog(error) => layout_exit(error),
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        let exit = match &error {
            ImageError::NotFound(_)
            | ImageError::NoRaw(_)
            | ImageError::NoLog(_)
            | ImageError::NotBlocks(_)
            | ImageError::LeadsNowhere(_) => Exit::Image,
            ImageError::InUse { .. } | ImageError::Stuck { .. } | ImageError::UnderLoop { .. } => {
                Exit::Busy
            }
            ImageError::BadSize { .. }
            | ImageError::Twice(_)
            | ImageError::NotWhole { .. }
            | ImageError::NoOrigin { .. } => Exit::Usage,
            ImageError::Layout { source, .. } => layout_exit(source),
            ImageError::Exists(_) | ImageError::Occupied { .. } | ImageError::Os { .. } => {
                Exit::Failed
            }
        };
        let failure = Failure::from_message(exit, &error.to_string());
        match &error {
            ImageError::Layout { source, .. } if is_full(source) => failure
                .hint("free space on its file system; `seekless serve --read-only` needs none"),
            ImageError::Layout { source, .. } => failure.hint_if_damaged(source),
            _ => failure,
        }
    }
}

/// True if the file system below has no space left.
fn is_full(error: &LayoutError) -> bool {
    match error {
        LayoutError::Io(error) => *error == IoError::NoSpace,
        LayoutError::OfLog(error) => is_full(error),
        _ => matches!(error.below(), Some(VolumeError::Io { error: IoError::NoSpace, .. })),
    }
}

/// Whether to serve although the line with the URI was not printed. A reader that closed the output
/// does not want it. If the output could not be written, no client would learn of the server.
pub fn worth_going_on(printed: &io::Result<()>) -> ControlFlow<()> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::superblock::SuperblockError;

    #[test]
    fn messages_split_into_cause_and_hint() {
        let failure = Failure::from(LayoutError::from(SuperblockError::Foreign));
        assert_eq!(failure.exit, Exit::Image);
        assert_eq!(failure.cause, "this is no Seekless volume");
        assert_eq!(failure.hint.as_deref(), Some("`seekless create` makes one"));
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        assert!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).reader_gone);
        assert!(!Failure::from(io::Error::from(io::ErrorKind::StorageFull)).reader_gone);
    }
}
