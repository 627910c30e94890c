//! `seekless disk import`: DiskSim's parameter files become a specification.

use crate::failure::{Exit, Failure, Outcome};
use crate::term;
use seekless_disk::disksim::{Import, ImportError, Imported};
use std::fs;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

/// No parameter file is larger, in bytes.
const LARGEST: u64 = 64 << 20;

/// Arguments of `seekless disk import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk import atlas10k.parv --output atlas10k.toml
  seekless disk import drives.diskspecs --name QUANTUM_TORNADO --output atlas10k.toml
  seekless disk import atlas10k.parv                 # to standard output

The files that FILE names lie beside it. Prefer the .parv to the .diskspecs: only it says how fast
the bus is. What the specification cannot express is named on standard error, with file and line,
and at the head of the specification.")]
pub struct Args {
    /// A .parv or .diskspecs file of version 4.
    file: PathBuf,
    /// Where the specification goes; a file there is replaced.
    #[arg(long, short, value_name = "SPEC.toml")]
    output: Option<PathBuf>,
    /// The disk, if FILE describes several.
    #[arg(long)]
    name: Option<String>,
}

/// Imports and writes the specification.
///
/// # Errors
/// If the files cannot be read or make no sense, or the specification cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let imported = import(&args.file, args.name.as_deref())?;
    for warning in &imported.warnings {
        term::say(&format!("{} {warning}", term::Style::of_stderr().cyan("note:")));
    }
    let Some(path) = &args.output else {
        write!(out, "{}", imported.toml)?;
        return Ok(());
    };
    fs::write(path, &imported.toml)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    let spec = &imported.spec;
    writeln!(
        out,
        "{}: {} with {} sectors, {} heads, {} rpm",
        path.display(),
        spec.name,
        spec.capacity_sectors(),
        spec.heads,
        spec.rpm
    )?;
    Ok(())
}

fn import(path: &Path, name: Option<&str>) -> Result<Imported, Failure> {
    let dir = path.parent().unwrap_or(Path::new("")).to_owned();
    let Some(file) = path.file_name().and_then(|file| file.to_str()) else {
        return Err(Failure::usage(format!("{} is no file", path.display())));
    };
    let mut fetch = |from: &str, wanted: &str| read_beside(&dir, from, wanted);
    let import = Import::read(file, &mut fetch)?;
    Ok(import.disk(name, &mut fetch)?)
}

/// The text of a file that lies in the directory, or beside the file that asks for it.
fn read_beside(dir: &Path, from: &str, wanted: &str) -> Result<String, String> {
    let beside = Path::new(from).parent().unwrap_or(Path::new("")).join(wanted);
    let bare = Path::new(wanted).file_name().unwrap_or_default();
    let tried = [dir.join(beside), dir.join(wanted), dir.join(bare)];
    let path = tried.iter().find(|path| path.is_file()).unwrap_or(&tried[1]);
    let read = |path: &Path| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read(path).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is larger than {} MiB", LARGEST >> 20));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        let failure = Failure::from_message(Exit::Usage, &error.to_string());
        match error {
            ImportError::Choice(_) if failure.hint.is_none() => failure.hint("see --name"),
            _ => failure,
        }
    }
}
