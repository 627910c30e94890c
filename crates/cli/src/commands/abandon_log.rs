//! `seekless abandon-log`: makes the origin of a lost log usable alone.

use crate::failure::{Failure, Outcome};
use seekless_engine::data::Data;
use seekless_engine::size::Size;
use seekless_layouts::dcd::{self, Abandoned, FIRST_BYTES, Kept};
use seekless_serve::image;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless abandon-log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless abandon-log /dev/sdb            # says what is lost, changes nothing
  seekless abandon-log /dev/sdb --yes

For a log that is lost for good. If the log is there, use `seekless drain` and lose nothing. The
origin becomes a plain disk with the blocks that had come home. Check the file system on it.")]
pub struct Args {
    /// The origin.
    origin: PathBuf,
    /// Give up what was in the log only.
    #[arg(long)]
    yes: bool,
    /// Keep the first 128 KiB in this file until they are in their place; by default in
    /// seekless-ID.first-128k in the current directory.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Abandons the log.
///
/// # Errors
/// Without `--yes`; if the origin is in use, damaged or cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut origin = image::open(&args.origin, false)?;
    let name = args.origin.display();
    let found = dcd::abandoned(&mut origin).map_err(|error| origin.blame(error))?;
    let Some(found) = found else {
        writeln!(out, "{name}: not bound to a log, usable alone as it is")?;
        return Ok(());
    };
    let default = || PathBuf::from(format!("seekless-{:032x}.first-128k", found.log));
    let save = args.save.clone().unwrap_or_else(default);
    let first = match found.kept {
        Kept::InFile => saved(&save)?,
        _ => found.first.clone(),
    };
    if !args.yes {
        return Err(Failure::failed(format!("{name}: {}", loss(&found)))
            .hint("look for the log first; --yes gives up what was in it"));
    }
    if found.kept != Kept::InFile {
        keep(&save, &first)?;
        dcd::abandon(&mut origin).map_err(|error| origin.blame(error))?;
    }
    dcd::restore(&mut origin, &first).map_err(|error| origin.blame(error))?;
    fs::remove_file(&save).map_err(|error| failed("remove", &save, &error))?;
    writeln!(out, "{name}: {}", loss(&found))?;
    writeln!(out, "{name}: a plain disk again; check the file system on it")?;
    Ok(())
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", path.display()))
}

/// What is lost with the log, as far as the origin knows.
fn loss(found: &Abandoned) -> String {
    let size = |blocks: u64| format!("{blocks} blocks ({})", Size::from_blocks(blocks));
    let log = format!("its log {:032x} holds", found.log);
    let known = match (found.dirty, found.capacity) {
        // An earlier version wrote the binding.
        (_, 0) => format!("{log} an unknown number of blocks that are nowhere else"),
        (0, most) => format!(
            "{log} nothing that is nowhere else, as of the last mark on the origin; what was \
             written after that is lost, {} at most",
            size(most.into())
        ),
        (dirty, most) => format!(
            "{log} {} that are nowhere else, as of the last mark on the origin; with what was \
             written after that, {} at most are lost",
            size(dirty),
            size(most.into())
        ),
    };
    let first = match found.kept {
        Kept::All | Kept::InFile => "",
        Kept::AllButTwo => ". Its first 8 KiB are lost as well",
        Kept::Nothing => ". Its first 128 KiB are lost as well",
    };
    format!("{known}{first}")
}

/// Reads the first blocks from where an earlier run has kept them.
fn saved(path: &Path) -> Result<Data, Failure> {
    let bytes = fs::read(path).map_err(|error| {
        failed("read", path, &error).hint(
            "an earlier abandon-log was cut off and left the first 128 KiB in a file; name it with \
             --save",
        )
    })?;
    if bytes.len() != FIRST_BYTES {
        let problem = format!("{} has {} bytes", path.display(), bytes.len());
        return Err(Failure::failed(problem)
            .hint("it must be the file of 128 KiB that an earlier abandon-log has left"));
    }
    Ok(Data::bytes(bytes.into()))
}

/// Keeps the first blocks in a file, durably. An earlier run may have got no further than that.
fn keep(path: &Path, first: &Data) -> Outcome {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(&first.to_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| failed("write", path, &error).hint("choose a place with --save"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let synced = File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
    synced.map_err(|error| failed("sync the directory of", path, &error))
}
