//! `seekless record`: a proxy that records the requests to an NBD export.

use crate::failure::{Exit, Failure, Outcome, worth_going_on};
use seekless_crashtest::record::{RecordError, RecordOptions, record};
use seekless_serve::nbd::uri::Uri;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless record --upstream 'nbd+unix:///?socket=/tmp/disk.sock' \\
      --socket /tmp/tape.sock --output run.tape
  qemu-nbd --socket=/tmp/q.sock disk.raw &  seekless record --upstream \\
      'nbd+unix:///?socket=/tmp/q.sock' --socket /tmp/tape.sock --output run.tape
  seekless replay-crashes run.tape --base before.raw --check 'fsck.ext4 -fy {device}'

Clients connect to the socket in place of the server and notice nothing. One line with the URI for
them is printed as soon as connections are accepted. SIGTERM, SIGINT and SIGHUP end the recording;
one that was killed is usable up to its last whole record. The recording tells what was written
since it began: copy the image before, for --base, or begin with an empty one.")]
pub struct Args {
    /// The server whose export is recorded: nbd+unix:///EXPORT?socket=PATH or
    /// nbd://HOST:PORT/EXPORT.
    #[arg(long, value_name = "NBD-URI")]
    upstream: Uri,
    /// Listen on this Unix socket.
    #[arg(long, short, value_name = "PATH")]
    socket: PathBuf,
    /// Take acknowledgements on this Unix socket: SEEKLESS_ACKS=PATH for `seekless ack`. Each line
    /// is a value, and gets the reply `ok` once it is on the recording.
    #[arg(long, value_name = "PATH")]
    acks: Option<PathBuf>,
    /// The recording.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing recording.
    #[arg(long)]
    force: bool,
}

/// Records until a signal.
///
/// # Errors
/// If the server cannot be reached or hangs up on a client, or the recording cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let options = RecordOptions {
        upstream: args.upstream.clone(),
        socket: args.socket.clone(),
        acks: args.acks.clone(),
        output: args.output.clone(),
        force: args.force,
    };
    let mut printed = Ok(());
    let mut ready = |uri: &str| {
        printed = writeln!(out, "{uri}").and_then(|()| out.flush());
        worth_going_on(&printed)
    };
    let recorded = record(&options, &mut ready)?;
    printed?;
    let acks = match args.acks {
        Some(_) => format!(" and {} acknowledgements", recorded.marks),
        None => String::new(),
    };
    crate::term::say(&format!(
        "seekless: {} requests{acks} of {} connections recorded, {} bytes",
        recorded.requests, recorded.connections, recorded.bytes
    ));
    match recorded.lost {
        0 => Ok(()),
        lost => Err(Failure::failed(format!(
            "{lost} connections were lost because the server hung up or could not be reached: \
             their clients got errors"
        ))
        .hint("the recording is complete up to there; record again for the rest")),
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        match error {
            RecordError::Serve(error) => Failure::from(error),
            other => Failure::from_message(Exit::Failed, &other.to_string()),
        }
    }
}
