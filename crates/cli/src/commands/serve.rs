//! `seekless serve`: a volume as a network block device.

use crate::failure::{Failure, Outcome};
use crate::size::Size;
use clap::ArgGroup;
use seekless_engine::layout::Kind;
use seekless_serve::device::file::IoMode;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless serve`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("where").required(true).args(["socket", "listen"]))]
#[command(group = ArgGroup::new("what").required(true).args(["image", "memory"]))]
#[command(after_help = "\
Examples:
  seekless serve disk.img --socket /tmp/disk.sock
  seekless serve disk.img --listen 127.0.0.1:10809 --read-only
  seekless serve --memory 4G --layout vlog --socket /tmp/disk.sock
  seekless serve disk.img --socket /tmp/disk.sock --disk desktop7200   # at a disk's pace

One line with the URI for clients is printed as soon as connections are accepted. SIGTERM and
SIGINT end the server in good order. The protocol is neither encrypted nor authenticated: serve TCP
to trusted networks only.")]
pub struct Args {
    /// The image.
    image: Option<PathBuf>,
    /// Serve memory in place of an image: a volume of this size, gone when the server ends.
    #[arg(long, value_name = "SIZE", requires = "layout")]
    memory: Option<Size>,
    /// Layout of a volume in memory; an image has its own.
    #[arg(long, short, value_name = "LAYOUT", conflicts_with = "image")]
    layout: Option<Kind>,
    /// Listen on this Unix socket.
    #[arg(long, short, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen on this TCP address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Answer at the pace of this disk: a built-in name or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Who carries out what the page cache cannot answer.
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = ["auto", "uring", "threads"])]
    io: String,
    /// Bypass the page cache (O_DIRECT).
    #[arg(long, conflicts_with = "memory")]
    direct: bool,
}

/// Serves until a signal or a failure of the backing store.
///
/// # Errors
/// If the image or the address is unusable or in use, or the backing store fails.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let _ = (args, out, IoMode::Auto);
    Err(Failure::failed("not yet"))
}
