//! `seekless fs map`: where the bytes of a file lie in the volume, as FIEMAP tells elsewhere.

use super::ImageArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{blame, blame_device};
use seekless_formats::{Extent, Kind};
use seekless_fs::call::FileKind;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;

/// Arguments of `seekless fs map`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs map disk.img /var/db
  seekless fs map disk.img /var/db --json | jq 'map(select(.volume == null))'    # its holes

Offsets in the volume are those that clients of `seekless serve` use. Where a layout puts a block of
the volume is for the layout to say (`seekless dump`). For a mounted file system use SEEK_DATA and
SEEK_HOLE: the kernel offers no FIEMAP for file systems in user space.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// The file.
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Print a JSON array of extents.
    #[arg(long)]
    json: bool,
}

/// Prints the extents of a file.
///
/// # Errors
/// If there is no such file, or the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let images = args.image.images();
    let mut found = None;
    args.image.with(true, &mut |files| {
        found = Some(files.resolve(args.path.as_bytes(), true)?);
        Ok(())
    })?;
    let Some(attr) = found.filter(|attr| attr.kind == FileKind::File) else {
        let cause = format!(":{}: it is no file", args.path.display());
        return Err(Failure::usage(cause).hint("name a file"));
    };
    let mut volume = args.image.open(&images, true)?;
    let extents = Kind::of(&mut volume).and_then(|kind| (kind.extents)(&mut volume, attr.ino));
    let extents = extents.map_err(|error| blame(&images, &error));
    let closed = volume.close().map_err(|error| blame_device(&images, error));
    let Some(extents) = extents.and_then(|extents| closed.map(|()| extents))? else {
        let cause = format!(":{}: what leads to its bytes is damaged", args.path.display());
        return Err(Failure::new(Exit::Image, cause).hint("run `seekless fsck --repair`"));
    };
    if args.json {
        let all: Vec<Value> = extents.iter().map(object).collect();
        return Ok(writeln!(out, "{}", Value::Array(all))?);
    }
    writeln!(out, "{:>16} {:>16} {:>20}", "file", "length", "volume")?;
    for Extent { file, length, volume } in extents {
        let place = volume.map_or_else(|| "hole".to_owned(), |at| at.to_string());
        writeln!(out, "{file:>16} {length:>16} {place:>20}")?;
    }
    Ok(())
}

fn object(&Extent { file, length, volume }: &Extent) -> Value {
    json!({ "file": file, "length": length, "volume": volume })
}
