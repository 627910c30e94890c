//! Input files, and output files that must not overwrite an input.

use crate::failure::Failure;
use crate::term;
use seekless_disk::recording::{Recording, RecordingError, ReplayError};
use std::fs::{self, File};
use std::io::BufRead;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Opens an input.
///
/// # Errors
/// If it does not exist, is a directory or may not be read. That is a usage error.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    let wrong =
        |cause: &dyn std::fmt::Display| Failure::usage(format!("cannot read {shown}: {cause}"));
    let file = File::open(path).map_err(|error| wrong(&error))?;
    match file.metadata() {
        Ok(found) if found.is_dir() => Err(wrong(&"it is a directory").hint("name a file in it")),
        Ok(_) => Ok(file),
        Err(error) => Err(wrong(&error)),
    }
}

/// Refuses an output that is one of the inputs under any name. Opening it would destroy the input
/// before it is read.
///
/// # Errors
/// If it is one.
pub(super) fn spare(option: &str, output: Option<&Path>, inputs: &[&Path]) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    // A file that does not exist is no input.
    let Ok(found) = fs::metadata(output) else { return Ok(()) };
    // Terminals and /dev/null hold nothing that could be lost. A block device does.
    if !found.is_file() && !found.file_type().is_block_device() {
        return Ok(());
    }
    let same = |input: &&&Path| {
        fs::metadata(input).is_ok_and(|one| {
            let node = (one.dev(), one.ino()) == (found.dev(), found.ino());
            // A device may have several names that are not links.
            let device = found.file_type().is_block_device() && one.rdev() == found.rdev();
            node || device && one.file_type().is_block_device()
        })
    };
    match inputs.iter().find(same) {
        None => Ok(()),
        Some(input) => {
            let (output, input) = (output.display(), input.display());
            let cause = format!("{option} {output} would replace {input}, which is read");
            Err(Failure::usage(cause).hint("write to another file"))
        }
    }
}

/// Names the columns of a recording that the reader does not use, on standard error.
pub(super) fn name_unknown<R: BufRead>(path: &Path, recording: &Recording<R>) {
    let unknown = recording.unknown_columns();
    if !unknown.is_empty() {
        let note = term::Style::of_stderr().cyan("note:");
        let (path, names) = (path.display(), unknown.join("`, `"));
        term::say(&format!("{note} {path}: columns ignored: `{names}`"));
    }
}

/// The failure for a recording that cannot be read or replayed, with its line.
pub(super) fn wrong_recording(path: &Path, error: &ReplayError) -> Failure {
    // `file:line:`, as compilers print it, so that editors find the line.
    let message = error.to_string();
    let message = message.strip_prefix("line ").unwrap_or(&message);
    let colon = if message.starts_with(|c: char| c.is_ascii_digit()) { ":" } else { ": " };
    let exit = match error {
        ReplayError::Recording(RecordingError::Io(_)) => crate::failure::Exit::Failed,
        _ => crate::failure::Exit::Usage,
    };
    Failure::from_message(exit, &format!("{}{colon}{message}", path.display()))
}
