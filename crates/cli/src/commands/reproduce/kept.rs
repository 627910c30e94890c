//! Figures that are finished are kept in a directory: a run that was broken off goes on behind
//! them.
//!
//! A file begins with a line that names program, figure and settings. One with another line is
//! written anew, so that a changed program or another seed never shows old numbers.

use crate::failure::{Failure, Outcome};
use seekless_engine::checksum::xxh3_64;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file of a figure.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// Its first line.
    key: String,
}

impl Kept {
    /// The file for a figure in a directory; `settings` tells runs apart that print other numbers,
    /// and `form` how they are printed.
    ///
    /// # Errors
    /// If the program cannot be read.
    pub fn new(dir: &Path, figure: &str, settings: &str, form: &str) -> Result<Kept, Failure> {
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.map_err(|error| {
            Failure::failed(format!("--keep: cannot read the program itself: {error}"))
        })?;
        let path = dir.join(format!("{}.{form}", figure.replace('/', "-")));
        let key = format!("seekless {:016x} {figure} {settings}", xxh3_64(&program));
        Ok(Kept { path, key })
    }

    /// What an earlier run has printed.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn read(&self) -> Result<Option<String>, Failure> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text
                .split_once('\n')
                .filter(|(key, _)| *key == self.key)
                .map(|(_, text)| text.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.cannot("read", &error)),
        }
    }

    /// Keeps what was printed. The file has all of it, or is what it was.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&self, text: &str) -> Outcome {
        let write = || -> io::Result<()> {
            let dir = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(dir)?;
            let new = self.path.with_extension("new");
            fs::write(&new, format!("{}\n{text}", self.key))?;
            fs::rename(&new, &self.path)
        };
        write().map_err(|error| self.cannot("write", &error))
    }

    fn cannot(&self, what: &str, error: &io::Error) -> Failure {
        Failure::failed(format!("cannot {what} {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_under_the_same_settings_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let of =
            |settings| Kept::new(dir.path(), "journal/micro", settings, "txt").expect("it runs");
        assert_eq!(of("seed 1").read().expect("no file"), None);
        of("seed 1").write("text\nof it\n").expect("written");
        assert_eq!(of("seed 1").read().expect("a file").as_deref(), Some("text\nof it\n"));
        assert_eq!(of("seed 2").read().expect("a file"), None);
    }
}
