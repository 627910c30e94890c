//! `seekless ack`: a program says what it has acknowledged, and the recording keeps it.
//!
//! `SEEKLESS_ACKS` names a file or a Unix socket. The command ends once the value is on the
//! recording. So everything that the program does later stands behind it.

use crate::failure::{Failure, Outcome};
use seekless_crashtest::record::acks::OK;
use seekless_crashtest::record::tape::check_mark;
use std::fs::OpenOptions;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Names the file or socket that takes acknowledgements.
const ACKS: &str = "SEEKLESS_ACKS";

/// Arguments of `seekless ack`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless ack 17
  seekless ack --as writer-2 17
  echo 17 >> \"$SEEKLESS_ACKS\"      # the same without the program, if it is a file

With --as the line is NAME, a tab and VALUE: several writers are told apart by it. A check finds all
lines that were acknowledged before the power went, in order, in the file $SEEKLESS_ACKED_FILE.

Call it right after the program under test has promised the value to its own clients, such as a row
that is committed. SEEKLESS_ACKS is set for the command of `seekless crash-test --run`; otherwise it
is the path of `seekless record --acks`. It prints nothing.")]
pub struct Args {
    /// Who acknowledges it, where several writers do.
    #[arg(long = "as", value_name = "NAME")]
    writer: Option<String>,
    /// What is acknowledged: one line of text, at most 4096 bytes.
    #[arg(allow_hyphen_values = true)]
    value: String,
}

impl Args {
    /// The line that is acknowledged.
    fn line(&self) -> Result<String, Failure> {
        match &self.writer {
            None => Ok(self.value.clone()),
            Some(name) if name.is_empty() || name.contains(['\t', '\n']) => {
                Err(Failure::usage(format!("--as {name:?}: a tab ends the name of a writer"))
                    .hint("give a name without tabs and newlines, such as writer-2"))
            }
            Some(name) => Ok(format!("{name}\t{}", self.value)),
        }
    }
}

/// Writes the value and waits until it is recorded.
///
/// # Errors
/// If there is no place for it, or it cannot be written there.
pub fn run(args: &Args) -> Outcome {
    let line = args.line()?;
    let value = check_mark(line.as_bytes())
        .map_err(|error| Failure::from_message(crate::failure::Exit::Usage, &error.to_string()))?;
    let Some(place) = std::env::var_os(ACKS).filter(|place| !place.is_empty()) else {
        return Err(Failure::usage(format!("{ACKS} is not set")).hint(
            "run this under `seekless crash-test`, or set it to the path of `record --acks`",
        ));
    };
    let place = Path::new(&place);
    write(place, value).map_err(|error| {
        Failure::failed(format!("cannot write to {ACKS}={}: {error}", place.display()))
            .hint("the recorder must be running, and the file or socket be reachable")
    })
}

fn write(place: &Path, value: &str) -> io::Result<()> {
    let line = format!("{value}\n");
    if !std::fs::metadata(place)?.file_type().is_socket() {
        // One write: lines of several programs do not mix.
        return OpenOptions::new().append(true).open(place)?.write_all(line.as_bytes());
    }
    let mut socket = UnixStream::connect(place)?;
    socket.write_all(line.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(socket).read_line(&mut reply)?;
    match reply.as_str() {
        OK => Ok(()),
        "" => Err(io::Error::other("the recorder hung up")),
        other => Err(io::Error::other(other.trim_start_matches("error: ").trim().to_owned())),
    }
}
