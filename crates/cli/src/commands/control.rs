//! `seekless control`: commands to a disk that crashes on demand.

use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use seekless_serve::control::ask;
use seekless_serve::crash::plan::Fault;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless control`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless serve --memory 1G --layout inplace --socket /tmp/disk.sock --control /tmp/disk.ctl &
  seekless control /tmp/disk.ctl arm cut-at-write=1000 unflushed=tear seed=7
  seekless control /tmp/disk.ctl cut
  seekless control /tmp/disk.ctl log
  seekless control /tmp/disk.ctl restart

The answer is one line of JSON. The socket takes the same as lines: {\"command\":\"cut\"}, or
{\"command\":\"arm\",\"faults\":[\"slow=5\"]}.")]
pub struct Args {
    /// The socket that `seekless serve --control` listens on.
    socket: PathBuf,
    /// The command.
    command: Verb,
    /// For arm: NAME or NAME=VALUE, as for `seekless serve --faults`.
    #[arg(value_name = "FAULT")]
    faults: Vec<Fault>,
}

/// A command to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Cut the power.
    Cut,
    /// Restore the power and mount what the cut left.
    Restart,
    /// Arm faults; their points count from this command on.
    Arm,
    /// Disarm all faults.
    Clear,
    /// Print the counters.
    Status,
    /// Print what the last power cut did to each unflushed write.
    Log,
}

/// Sends the command and prints the answer.
///
/// # Errors
/// If no server listens on the socket, or it refuses the command.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match (args.command == Verb::Arm, args.faults.is_empty()) {
        (true, true) => {
            return Err(
                Failure::usage("arm: no fault is given").hint("give faults, as in: arm slow=5")
            );
        }
        (false, false) => return Err(Failure::usage("only arm takes faults")),
        _ => {}
    }
    let name = args.command.to_possible_value().map(|value| value.get_name().to_owned());
    let mut command = json!({ "command": name });
    if !args.faults.is_empty() {
        let faults: Vec<Value> = args.faults.iter().map(|one| one.to_string().into()).collect();
        command["faults"] = faults.into();
    }
    let answer = ask(&args.socket, &command).map_err(|error| {
        Failure::failed(format!("{}: {error}", args.socket.display()))
            .hint("`seekless serve … --control PATH` listens there while it runs")
    })?;
    if answer["ok"] != true {
        let why = answer["error"].as_str().unwrap_or("the answer is invalid");
        return Err(Failure::from_message(crate::failure::Exit::Failed, why));
    }
    writeln!(out, "{answer}")?;
    Ok(())
}
