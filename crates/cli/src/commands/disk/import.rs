//! `seekless disk import`: makes a specification from DiskSim's parameter files.

use super::files;
use crate::failure::{Exit, Failure, Outcome};
use crate::term;
use seekless_disk::disksim::{Import, ImportError, Imported};
use std::fs;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

/// Larger parameter files are refused, in bytes.
const LARGEST: u64 = 64 << 20;

/// Most systems that are searched for the bus of a disk.
const MOST_SYSTEMS: usize = 256;

/// Arguments of `seekless disk import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk import atlas10k.parv --output atlas10k.toml
  seekless disk import drives.diskspecs --name QUANTUM_TORNADO --output atlas10k.toml
  seekless disk import atlas10k.parv                 # to standard output

The files that FILE names lie beside it. Only a .parv says how fast the bus is; with a .diskspecs
the one .parv beside it that sources it is read as well, if there is one. What the specification
cannot express is named on standard error, with file and line, and at its head.")]
pub struct Args {
    /// A .parv or .diskspecs file of version 4.
    file: PathBuf,
    /// Write the specification to this file; an existing file is replaced.
    #[arg(long, short, value_name = "SPEC.toml")]
    output: Option<PathBuf>,
    /// The disk, if FILE describes several.
    #[arg(long)]
    name: Option<String>,
}

/// Imports and writes the specification.
///
/// # Errors
/// If the files cannot be read or are invalid, or the specification cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    files::open(&args.file)?;
    files::spare("--output", args.output.as_deref(), &[&args.file])?;
    let imported = import(args)?;
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

fn import(args: &Args) -> Result<Imported, Failure> {
    let mut reader = Reader::new(&args.file, args.output.as_deref());
    let path = &args.file;
    let Some(file) = path.file_name().and_then(|file| file.to_str()) else {
        return Err(Failure::usage(format!("{} is not a file", path.display())));
    };
    let mut import = reader.read(file)?;
    let mut name = args.name.clone();
    if let (None, [only]) = (&name, import.disks().as_slice()) {
        name = Some((*only).to_owned());
    }
    if let Some(disk) = name.as_deref().filter(|disk| !import.knows_bus_of(disk)) {
        match systems(&mut reader, file, disk).as_mut_slice() {
            [] => {}
            [(system, of)] => {
                import = std::mem::replace(of, import);
                import
                    .note(format!("{file} names no bus; it is that of {system}, which sources it"));
            }
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                let names = names.join(", ");
                import.note(format!(
                    "{file} is sourced by {names}; import the one whose bus is meant"
                ));
            }
        }
    }
    let imported = import.disk(name.as_deref(), &mut |from, wanted| reader.text(from, wanted));
    reader.refused.take().map_or(Ok(imported?), Err)
}

/// The systems beside a file that source it and contain that disk, by name.
fn systems(reader: &mut Reader, file: &str, disk: &str) -> Vec<(String, Import)> {
    let Ok(wanted) = fs::canonicalize(reader.dir.join(file)) else { return Vec::new() };
    let beside = if reader.dir.as_os_str().is_empty() { Path::new(".") } else { &reader.dir };
    let listed = fs::read_dir(beside).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|kind| kind == "parv"));
    names.sort();
    names.truncate(MOST_SYSTEMS);
    let mut found = Vec::new();
    for name in names {
        reader.paths.clear();
        // The user named none of these files: skip those that cannot be read.
        let Ok(import) = reader.read(&name) else { continue };
        let same = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| path == wanted);
        if import.knows_bus_of(disk) && reader.paths.iter().any(same) {
            found.push((name, import));
        }
    }
    found
}

/// Reads files in a directory, or beside the file that sources them.
struct Reader {
    dir: PathBuf,
    output: Option<PathBuf>,
    /// The files that were read.
    paths: Vec<PathBuf>,
    /// The output is one of them.
    refused: Option<Failure>,
}

impl Reader {
    fn new(path: &Path, output: Option<&Path>) -> Reader {
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        Reader { dir, output: output.map(Path::to_owned), paths: Vec::new(), refused: None }
    }

    fn read(&mut self, file: &str) -> Result<Import, ImportError> {
        Import::read(file, &mut |from, wanted| self.text(from, wanted))
    }

    fn text(&mut self, from: &str, wanted: &str) -> Result<String, String> {
        let beside = Path::new(from).parent().unwrap_or(Path::new("")).join(wanted);
        let bare = Path::new(wanted).file_name().unwrap_or_default();
        let tried = [self.dir.join(beside), self.dir.join(wanted), self.dir.join(bare)];
        let path = tried.iter().find(|path| path.is_file()).unwrap_or(&tried[1]);
        if let Err(failure) = files::spare("--output", self.output.as_deref(), &[path]) {
            self.refused.get_or_insert(failure);
        }
        self.paths.push(path.clone());
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
