//! Checks of states that are directories.

use super::copy::Copy;
use crate::replay::check::{Check, Checked, Checker, quoted};
use crate::sandbox::pool::DIR;
use crate::sandbox::{SandboxOptions, Workers};
use seekless_calls::model::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

/// The directory below that of the test in which copies are.
const COPIES: &str = "copies";

/// Where the check finds a state.
#[derive(Debug)]
enum Where {
    /// At the path of the run: each worker has namespaces of its own, where its copy is mounted.
    AtTheRun(Box<Workers>),
    /// At the path of the copy.
    AtTheCopy(Check),
}

/// Shows states as directories, and checks them.
#[derive(Debug)]
pub struct DirectoryChecker {
    place: Where,
    /// The copies that no check has.
    idle: Mutex<Vec<Copy>>,
    returned: Condvar,
    shared: Vec<String>,
}

impl DirectoryChecker {
    /// A checker with so many copies in `options.dir`. The states are those of a recording of which
    /// `empty` is the tree without entries. `options.mount` is not used.
    ///
    /// Where this process may not make namespaces, checks find states at the paths of the copies,
    /// and run beside each other; [`Checker::shared`] says so.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn new(options: SandboxOptions, count: usize, empty: &Tree) -> io::Result<Self> {
        let copies = std::path::absolute(&options.dir)?.join(COPIES);
        let mut idle = Vec::new();
        for number in 0..count.max(1) {
            let root = copies.join(number.to_string());
            std::fs::create_dir_all(&root)?;
            super::steps::empty(&root)?;
            idle.push(Copy::new(&root, empty.clone())?);
        }
        let check = Check {
            command: options.command.clone(),
            patience: options.timeout,
            stop: std::sync::Arc::clone(&options.stop),
        };
        let bound = SandboxOptions { mount: None, copies: Some(copies), ..options };
        let (place, shared) = match Workers::new(bound, count.max(1)) {
            Ok(workers) => {
                let shared = workers.shared().to_vec();
                (Where::AtTheRun(Box::new(workers)), shared)
            }
            Err(error) => {
                let shared = vec![format!("paths, processes and the network ({error})")];
                (Where::AtTheCopy(check), shared)
            }
        };
        Ok(DirectoryChecker { place, idle: Mutex::new(idle), returned: Condvar::new(), shared })
    }

    /// True if checks find states at the path of the run.
    pub fn is_at_the_run(&self) -> bool {
        matches!(self.place, Where::AtTheRun(_))
    }

    fn take(&self) -> Taken<'_> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(copy) = idle.pop() {
                return Taken { checker: self, copy: Some(copy) };
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Checker for DirectoryChecker {
    fn check(&self, _: &Path, _: &[(&str, String)]) -> io::Result<Checked> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this check knows directories only"))
    }

    fn check_tree(&self, tree: &Tree, variables: &[(&str, String)]) -> io::Result<Checked> {
        let mut taken = self.take();
        let copy = taken.copy.as_mut().expect("it was taken with one");
        copy.show(tree)?;
        match &self.place {
            Where::AtTheRun(workers) => workers.check_copy(&name(copy.root()), variables),
            Where::AtTheCopy(check) => {
                let place = quoted(&copy.root().to_string_lossy());
                let command = check.command.replace(DIR, &place);
                Check { command, ..check.clone() }.run(copy.root(), variables)
            }
        }
    }

    fn shared(&self) -> &[String] {
        &self.shared
    }
}

/// The name of a copy among the others.
fn name(root: &Path) -> PathBuf {
    root.file_name().map(PathBuf::from).unwrap_or_default()
}

/// A copy that one check has.
struct Taken<'c> {
    checker: &'c DirectoryChecker,
    copy: Option<Copy>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut idle = self.checker.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.copy.take());
        self.checker.returned.notify_one();
    }
}
