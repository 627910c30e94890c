//! Disk specifications as the command line names them: a built-in name or a TOML file.

use crate::failure::{Exit, Failure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless_disk::{ReadAhead, Spec, SpecError, specs};
use seekless_engine::size::Size;
use seekless_lab::sim::Target;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Larger specifications are refused, in bytes. One with tens of thousands of bands has ten
/// million.
const LARGEST: u64 = 64 << 20;

/// The specification that `text` names: a built-in disk or the path of a file, and after a colon
/// how much of it is used, from its outer edge on (`cmr-20tb:16G`).
///
/// # Errors
/// If there is no such disk, or the file cannot be read or is invalid.
pub fn find(text: &str) -> Result<Spec, Failure> {
    if let Some((name, size)) = text.rsplit_once(':')
        && let Ok(size) = size.parse::<Size>()
    {
        let spec = find(name)?;
        if size.blocks() > spec.capacity_blocks() {
            let all = Size::from_blocks(spec.capacity_blocks());
            return Err(Failure::usage(format!("{text}: {name} has no more than {all}")));
        }
        return Ok(spec.outer(size.blocks()));
    }
    if let Some(spec) = specs::find(text) {
        return Ok(spec);
    }
    let path = Path::new(text);
    // A path has a slash or an extension. Anything else is more likely a misspelt disk.
    if !path.exists() && !text.contains('/') && path.extension().is_none() {
        let known: Vec<_> = specs::builtin().iter().map(|builtin| builtin.name).collect();
        return Err(Failure::usage(format!("no built-in disk is called `{text}`"))
            .hint(format!("known are {}; or give the path of a TOML file", known.join(", "))));
    }
    let toml = read(path).map_err(|error| {
        Failure::usage(format!("cannot read the disk specification {text}: {error}"))
    })?;
    Spec::parse(&toml).map_err(|error| blame(text, &error))
}

/// The text of a file that is not too large to be a specification.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text"))
}

/// The file that `text` names if it is not a built-in disk: the one that [`find`] would read.
pub fn file_of(text: &str) -> &Path {
    match text.rsplit_once(':') {
        Some((name, size)) if size.parse::<Size>().is_ok() => Path::new(name),
        _ => Path::new(text),
    }
}

/// The disk that `text` names, to simulate on, after a change to its specification.
///
/// # Errors
/// As for [`find`], and if the disk cannot be simulated.
pub fn target(
    text: &str,
    read_ahead: Option<ReadAhead>,
    change: impl FnOnce(&mut Spec),
) -> Result<Target, Failure> {
    let mut spec = find(text)?;
    change(&mut spec);
    if read_ahead.is_some() && (spec.cache.is_some() || spec.simple.is_some()) {
        return Err(Failure::usage(format!("--read-ahead: {text} has no track buffer"))
            .hint("leave it out, or choose a disk with one, such as st19101"));
    }
    Target::disk(&spec, read_ahead).map_err(|error| blame(text, &error))
}

/// The policies of a track buffer, on the command line.
pub fn read_aheads() -> impl TypedValueParser<Value = ReadAhead> {
    let known = [
        PossibleValue::new("none").help("nothing"),
        PossibleValue::new("forward").help("what follows a read; what lies before it is dropped"),
        PossibleValue::new("whole-track").help("all of a track, as the virtual log wants it"),
    ];
    PossibleValuesParser::new(known).map(|name| match &name[..] {
        "none" => ReadAhead::None,
        "forward" => ReadAhead::Forward,
        _ => ReadAhead::WholeTrack,
    })
}

fn blame(text: &str, error: &SpecError) -> Failure {
    if let SpecError::At { line, error } = error {
        return Failure::from_message(Exit::Usage, &format!("{text}:{line}: {error}"));
    }
    Failure::from_message(Exit::Usage, &format!("{text}: {}", error.to_string().trim_end()))
}
