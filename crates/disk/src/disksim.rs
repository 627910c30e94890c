//! Parameter files of the DiskSim simulator: parsed and mapped onto a specification.
//!
//! [`lexer`] takes the files apart and follows `source FILE`, [`parser`] makes a tree of them,
//! [`Import`] finds the disks in it and maps one onto a [`Spec`]. Parameters that the specification
//! cannot express are named in [`Imported::warnings`], with file and line; none is dropped
//! silently. This module opens no file: the caller passes the texts.

mod drive;
mod fields;
mod finish;
mod g1;
mod g4;
pub mod lexer;
mod mechanics;
pub mod parser;
mod system;

#[cfg(test)]
mod tests;

use crate::spec::{Spec, SpecError};
use lexer::{Files, Place};
use parser::{Block, Document};

/// Key of the disk's block among the sources of values, beside the paths of keys.
const DISK: &str = "the disk";

/// Gives the text of a file: `(the file that sources it, its name)`, both as written. The first
/// file is its own source. An error is the reason, as text.
pub type Fetch<'a> = &'a mut dyn FnMut(&str, &str) -> Result<String, String>;

/// Why a file cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The files are no parameter files, or a value is impossible.
    #[error("{file}:{line}: {problem}; {remedy}")]
    At {
        /// Name of the file.
        file: String,
        /// Line, from one.
        line: u32,
        /// What is wrong.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {problem}")]
    File {
        /// Name of the file.
        file: String,
        /// Why.
        problem: String,
    },
    /// The files hold no disk, or none of that name, or several.
    #[error("{0}")]
    Choice(String),
    /// The parameters contradict each other.
    #[error("the imported disk is inconsistent: {error}")]
    Spec {
        /// What is wrong with it, in the terms of the specification.
        error: SpecError,
    },
}

/// A disk as a specification, and what the specification cannot express.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The specification, checked.
    pub spec: Spec,
    /// The specification as text, each value with the place it comes from.
    pub toml: String,
    /// Parameters left out of the specification or changed for it, one sentence each, with its
    /// place.
    pub warnings: Vec<String>,
}

/// Parameter files that have been read.
#[derive(Debug)]
pub struct Import {
    document: Document,
    files: Files,
    main: String,
    notes: Vec<String>,
}

impl Import {
    /// Reads the file called `name` and all that it names.
    ///
    /// # Errors
    /// If a file cannot be read or is no parameter file.
    pub fn read(name: &str, fetch: Fetch<'_>) -> Result<Import, ImportError> {
        let mut files = Files::default();
        let document = parser::parse(name, &mut files, fetch)?;
        Ok(Import { document, files, main: name.to_owned(), notes: Vec::new() })
    }

    /// True if the files describe the system that a disk is part of, hence how fast its bus is.
    pub fn knows_bus_of(&self, disk: &str) -> bool {
        system::is_attached(&self.document, disk)
    }

    /// Adds a sentence before the other [`Imported::warnings`].
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Names of the disks.
    pub fn disks(&self) -> Vec<&str> {
        system::disks(&self.document).iter().filter_map(|disk| disk.name.as_deref()).collect()
    }

    /// The disk called `name`, or the only one, as a specification.
    ///
    /// # Errors
    /// If there is no such disk, a parameter is invalid, or a file cannot be read.
    pub fn disk(&self, name: Option<&str>, fetch: Fetch<'_>) -> Result<Imported, ImportError> {
        let disk = self.choose(name)?;
        let mut mapping = Mapping::new(&self.files, self.notes.clone());
        mapping.source(DISK, disk.place);
        let bus = system::bus(&self.document, disk, &mut mapping)?;
        let spec = drive::map(disk, &self.document, bus, &mut mapping, fetch)?;
        finish::finish(spec, mapping, &self.main)
    }

    fn choose(&self, name: Option<&str>) -> Result<&Block, ImportError> {
        let disks = system::disks(&self.document);
        let known = self.disks().join(", ");
        let choice = |text: String| Err(ImportError::Choice(text));
        match (name, disks.as_slice()) {
            (_, []) => choice(format!(
                "{} describes no disk; give a .parv or .diskspecs file with a `disksim_disk` block",
                self.main
            )),
            (Some(name), _) => match disks.iter().find(|disk| disk.name.as_deref() == Some(name)) {
                Some(disk) => Ok(disk),
                None => choice(format!("no disk is called `{name}`; known are {known}")),
            },
            (None, [disk]) => Ok(disk),
            (None, _) => {
                choice(format!("{} describes several disks; name one of {known}", self.main))
            }
        }
    }
}

/// State of the mapping of a disk.
#[derive(Debug)]
struct Mapping<'a> {
    files: &'a Files,
    warnings: Vec<String>,
    /// Where values come from: the path of a TOML key, and the place.
    sources: Vec<(String, Place)>,
    /// Places of the parts of a tree of patterns, which may be many.
    tree: g4::Places,
}

impl<'a> Mapping<'a> {
    fn new(files: &'a Files, warnings: Vec<String>) -> Mapping<'a> {
        Mapping { files, warnings, sources: Vec::new(), tree: g4::Places::default() }
    }

    fn warn(&mut self, place: Place, text: impl AsRef<str>) {
        let place = self.files.show(place);
        self.warnings.push(format!("{place}: {}", text.as_ref()));
    }

    fn source(&mut self, key: impl Into<String>, place: Place) {
        self.sources.push((key.into(), place));
    }

    fn error(
        &self,
        place: Place,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ImportError {
        self.files.error(place, problem, remedy)
    }
}
