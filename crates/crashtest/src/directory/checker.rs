//! Checks of states that are directories.

use super::copy::Copy;
use crate::replay::check::{Check, Checked, Checker, quoted};
use crate::sandbox::pool::DIR;
use crate::sandbox::{SandboxOptions, Workers};
use seekless_calls::model::Tree;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The directory of a test in which its files are, and states are shown.
const PLACE: &str = "mnt";

/// How checks find a state at the path of the run, which software may keep in its files.
#[derive(Debug)]
enum Shows {
    /// Each worker has namespaces of its own, where its copy is mounted.
    Mounts(Box<Workers>),
    /// There is one copy, at that path, so checks run one after the other.
    One(Check),
}

/// Shows states as directories, and checks them.
#[derive(Debug)]
pub struct DirectoryChecker {
    shows: Shows,
    /// The copies that no check has.
    idle: Mutex<Vec<Copy>>,
    returned: Condvar,
    shared: Vec<String>,
}

impl DirectoryChecker {
    /// A checker with so many copies in the directory `copies`. They are shown at `mnt` in
    /// `options.dir`. The states are those of a recording of which `empty` is the tree without
    /// entries. `options.mount` and `options.copies` are not used.
    ///
    /// Where this process may not make namespaces there is one copy, in place of what `mnt` holds,
    /// and checks share the machine: [`Checker::shared`] says so.
    ///
    /// # Errors
    /// If a directory cannot be used.
    pub fn new(
        options: SandboxOptions,
        copies: &Path,
        count: usize,
        empty: &Tree,
    ) -> io::Result<Self> {
        let (copies, count) = (std::path::absolute(copies)?, count.max(1));
        let place = std::path::absolute(&options.dir)?.join(PLACE);
        let check = Check {
            command: options.command.replace(DIR, &quoted(&place.to_string_lossy())),
            patience: options.timeout,
            stop: Arc::clone(&options.stop),
        };
        std::fs::create_dir_all(&copies)?;
        let bound = SandboxOptions { mount: None, copies: Some(copies.clone()), ..options };
        let (shows, shared, roots) = match Workers::new(bound, count) {
            Ok(workers) => {
                let shared = workers.shared().to_vec();
                let roots = (0..count).map(|number| copies.join(number.to_string())).collect();
                (Shows::Mounts(Box::new(workers)), shared, roots)
            }
            Err(error) => (
                Shows::One(check),
                vec![format!("processes and the network ({error})")],
                vec![place],
            ),
        };
        let copy = |root: PathBuf| {
            std::fs::create_dir_all(&root)?;
            super::steps::empty(&root)?;
            Copy::new(&root, empty.clone())
        };
        let idle: io::Result<Vec<Copy>> = roots.into_iter().map(copy).collect();
        Ok(DirectoryChecker { shows, idle: Mutex::new(idle?), returned: Condvar::new(), shared })
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
        match &self.shows {
            Shows::Mounts(workers) => workers.check_copy(&name(copy.root()), variables),
            Shows::One(check) => check.run(copy.root(), variables),
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
