//! Runs that are finished are kept in a directory: figures that were broken off go on behind them.
//!
//! The file belongs to one build of the program, so that a changed one never shows old numbers. A
//! line is a digest of the run with all its options, and what it came to. A line that is not whole
//! does not count.

use crate::failure::{Failure, Outcome};
use seekless_engine::checksum::xxh3_64;
use seekless_lab::figures::job::{self, Job};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What earlier runs of this program came to, and the file for new ones.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    found: BTreeMap<u64, job::Outcome>,
}

impl Kept {
    /// Opens the file of this program in a directory; both are made if they are missing.
    ///
    /// # Errors
    /// If the program, the directory or the file cannot be read or written.
    pub fn open(dir: &Path) -> Result<Kept, Failure> {
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.map_err(|error| {
            Failure::failed(format!("--keep: cannot read the program itself: {error}"))
        })?;
        let path = dir.join(format!("{:016x}.runs", xxh3_64(&program)));
        let open = || -> io::Result<(File, BTreeMap<u64, job::Outcome>)> {
            fs::create_dir_all(dir)?;
            let file = File::options().create(true).append(true).read(true).open(&path)?;
            let text = io::read_to_string(&file)?;
            // A power cut or a full disk may have left the beginning of a line.
            let whole = text.rfind('\n').map_or(0, |at| at + 1);
            file.set_len(whole as u64)?;
            Ok((file, text[..whole].lines().filter_map(read).collect()))
        };
        match open() {
            Ok((file, found)) => Ok(Kept { path, file, found }),
            Err(error) => Err(cannot("open", &path, &error)),
        }
    }

    /// What a run came to earlier.
    pub fn find(&self, job: &Job) -> Option<job::Outcome> {
        self.found.get(&job.digest()).cloned()
    }

    /// Keeps what a run came to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&mut self, job: &Job, outcome: &job::Outcome) -> Outcome {
        let Some(line) = outcome.to_line() else { return Ok(()) };
        let line = format!("{:016x} {line}\n", job.digest());
        self.file.write_all(line.as_bytes()).map_err(|error| cannot("write", &self.path, &error))
    }
}

fn read(line: &str) -> Option<(u64, job::Outcome)> {
    let (digest, outcome) = line.split_once(' ')?;
    Some((u64::from_str_radix(digest, 16).ok()?, job::Outcome::from_line(outcome)?))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_lab::figures::job::Work;
    use seekless_lab::figures::{Figure, Settings, jobs};

    fn some_jobs(seed: u64) -> Vec<Job> {
        let settings =
            Settings { seed, quick: true, policies: vec![], layouts: vec![], vlfs: false };
        let mut jobs = jobs(Figure::ALL[0], &settings);
        jobs.retain(|job| matches!(job.work, Work::Files(_)));
        jobs
    }

    fn is_rate(outcome: Option<job::Outcome>, rate: f64) -> bool {
        matches!(outcome, Some(job::Outcome::Stream(found)) if found == rate)
    }

    #[test]
    fn what_was_kept_comes_back_for_the_same_run_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let (jobs, others) = (some_jobs(1), some_jobs(2));
        let mut kept = Kept::open(dir.path()).expect("a new file");
        assert!(kept.find(&jobs[0]).is_none());
        kept.keep(&jobs[0], &job::Outcome::Stream(0.1)).expect("written");
        kept.keep(&jobs[1], &job::Outcome::Stream(2.0)).expect("written");
        let kept = Kept::open(dir.path()).expect("the file");
        assert!(is_rate(kept.find(&jobs[0]), 0.1) && is_rate(kept.find(&jobs[1]), 2.0));
        assert!(kept.find(&jobs[2]).is_none() && kept.find(&others[0]).is_none());
    }

    #[test]
    fn a_line_that_is_not_whole_does_not_count_and_the_next_one_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let jobs = some_jobs(1);
        let mut kept = Kept::open(dir.path()).expect("a new file");
        kept.keep(&jobs[0], &job::Outcome::Stream(0.1)).expect("written");
        kept.keep(&jobs[1], &job::Outcome::Stream(2.0)).expect("written");
        let path = kept.path.clone();
        let length = fs::metadata(&path).expect("a file").len();
        File::options().write(true).open(&path).expect("a file").set_len(length - 3).expect("cut");
        let mut kept = Kept::open(dir.path()).expect("the file");
        assert!(kept.find(&jobs[0]).is_some() && kept.find(&jobs[1]).is_none());
        kept.keep(&jobs[1], &job::Outcome::Stream(3.0)).expect("written");
        let kept = Kept::open(dir.path()).expect("the file");
        assert!(is_rate(kept.find(&jobs[1]), 3.0));
    }
}
