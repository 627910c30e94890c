//! Checks of states of our own file systems: each is recovered in this process, and mounted for the
//! command in the namespaces of a worker, or copied to a plain directory.
//!
//! A state that cannot be recovered is bad, as one that the kernel does not mount. States with
//! equal trees and acknowledgements are checked once: a check is to depend on nothing else.

use super::policy::OwnPolicy;
use super::recover::{Recovered, recover};
use super::tree::{self, Size, Unshown, tree};
use crate::directory::DirectoryChecker;
use crate::file_system::FileSystem;
use crate::replay::check::{ACKED_FILE, Ask, Checked, Checker, Verdict};
use crate::replay::image::Image;
use crate::replay::stop::Stop;
use crate::sandbox::worker::STATE;
use crate::sandbox::{SandboxOptions, Workers};
use seekless_calls::model::Tree;
use seekless_engine::io::IoError;
use seekless_formats::FsError;
use seekless_serve::files::Detached;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The exit code that a state gets which cannot be recovered.
const NOT_RECOVERED: i32 = 1;

/// The recovered tree of each disk, and what a check of them is told.
type Key = (Vec<u128>, Vec<String>);

/// What the check said of a tree.
#[derive(Clone, Debug)]
struct Known {
    checked: Checked,
    /// It said so twice.
    is_settled: bool,
}

/// How a check finds a recovered state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Mounted, through FUSE.
    Mounted,
    /// As a copy in a plain directory.
    Copied,
}

#[derive(Debug)]
enum Shows {
    Mounts(Box<Workers>),
    Copies(DirectoryChecker),
}

/// Checks states under one policy.
#[derive(Debug)]
pub struct OwnChecker {
    shows: Shows,
    stop: Arc<Stop>,
    policy: OwnPolicy,
    /// What the check said of trees.
    known: Mutex<BTreeMap<Key, Known>>,
}

impl OwnChecker {
    /// A checker with so many workers. States are mounted as [`super::mounting`] says, whatever
    /// `options` has.
    ///
    /// # Errors
    /// As for [`Workers::new`] and [`DirectoryChecker::new`].
    pub fn new(
        options: SandboxOptions,
        count: usize,
        policy: OwnPolicy,
        shown: Shown,
    ) -> io::Result<OwnChecker> {
        let stop = Arc::clone(&options.stop);
        let shows = match shown {
            Shown::Mounted => {
                let options = SandboxOptions { mount: Some(super::mounting()), ..options };
                Shows::Mounts(Box::new(Workers::new(options, count)?))
            }
            Shown::Copied => Shows::Copies({
                let copies = options.dir.join("copies");
                DirectoryChecker::new(options, &copies, count, &tree::empty())?
            }),
        };
        Ok(OwnChecker { shows, stop, policy, known: Mutex::default() })
    }

    fn check_state(
        &self,
        disks: &[Arc<Image>],
        variables: &[(&str, String)],
        ask: Ask,
    ) -> io::Result<Checked> {
        if self.stop.asked().is_some() {
            return Ok(Checked::stopped());
        }
        let mut recovered = Vec::new();
        for disk in disks {
            match recover(Arc::clone(disk), self.policy) {
                Ok(one) => recovered.push(one),
                Err(error) => return Ok(not_recovered(&error)),
            }
        }
        // The number of acknowledgements says which they are.
        let is_told = |name: &str| name != STATE && name != ACKED_FILE;
        let told = variables.iter().filter(|(name, _)| is_told(name));
        let told: Vec<String> = told.map(|(_, value)| value.clone()).collect();
        let size = match self.shows {
            Shows::Mounts(_) => Size::Small,
            Shows::Copies(_) => Size::Any,
        };
        let trees: Result<Vec<Tree>, Unshown> =
            disks.iter().map(|disk| tree(disk, self.policy, size)).collect();
        let prints = trees.as_ref().ok().map(|trees| trees.iter().map(Tree::print).collect());
        let key = prints.map(|prints: Vec<u128>| (prints, told));
        let known = key.as_ref().and_then(|key| self.known().get(key).cloned());
        if let Some(known) = known.filter(|known| ask == Ask::Known || known.is_settled) {
            return Ok(known.checked);
        }
        let checked = match &self.shows {
            Shows::Mounts(workers) => mounted(workers, recovered, variables),
            Shows::Copies(directories) => {
                drop(recovered);
                copied(directories, trees, variables)
            }
        };
        if let (Some(key), Ok(checked)) = (key, &checked) {
            self.learn(key, checked, ask);
        }
        checked
    }

    fn learn(&self, key: Key, checked: &Checked, ask: Ask) {
        let says_something = matches!(checked.verdict, Verdict::Good | Verdict::Bad(_));
        let is_settled = ask == Ask::Anew;
        if says_something && !(is_settled && checked.verdict == Verdict::Good) {
            self.known().insert(key, Known { checked: checked.clone(), is_settled });
        } else {
            // It wavers or failed: the next equal tree is asked about again.
            self.known().remove(&key);
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, Known>> {
        // A thread that panics leaves whole entries behind.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checker for OwnChecker {
    fn check(&self, device: &Path, variables: &[(&str, String)]) -> io::Result<Checked> {
        self.check_state(&[image_at(device)?], variables, Ask::Known)
    }

    fn check_two(&self, disks: [&Path; 2], variables: &[(&str, String)]) -> io::Result<Checked> {
        let disks: io::Result<Vec<_>> = disks.into_iter().map(image_at).collect();
        self.check_state(&disks?, variables, Ask::Known)
    }

    fn check_images(
        &self,
        disks: &[Arc<Image>],
        variables: &[(&str, String)],
        ask: Ask,
    ) -> Option<io::Result<Checked>> {
        Some(self.check_state(disks, variables, ask))
    }

    fn shared(&self) -> &[String] {
        match &self.shows {
            Shows::Mounts(workers) => workers.shared(),
            Shows::Copies(directories) => directories.shared(),
        }
    }
}

/// Runs the check on file systems that are mounted for it.
fn mounted(
    workers: &Workers,
    recovered: Vec<Recovered>,
    variables: &[(&str, String)],
) -> io::Result<Checked> {
    let (mut all, mut mounts) = (Vec::new(), Vec::new());
    for Recovered { fs, volume, .. } in recovered {
        let served = Detached::new(Box::new(fs), volume, "seekless");
        let mut served = served.map_err(io::Error::other)?;
        let mount = served.take_mount().ok_or_else(|| io::Error::other("a mount was taken"))?;
        mounts.push(File::from(mount));
        all.push(served);
    }
    let checked = workers.check_mounts(mounts, variables);
    all.into_iter().for_each(Detached::abandon);
    checked
}

/// Runs the check on the tree of a state, in a plain directory.
fn copied(
    directories: &DirectoryChecker,
    trees: Result<Vec<Tree>, Unshown>,
    variables: &[(&str, String)],
) -> io::Result<Checked> {
    match trees.as_deref() {
        Ok([tree]) => directories.check_tree(tree, variables),
        Ok(_) => {
            let text = "states of two disks are not copied to directories";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        Err(Unshown::FileSystem(error)) => Ok(not_recovered(error)),
        Err(error @ (Unshown::Unreadable { .. } | Unshown::Large)) => {
            let output = format!("{error}\n");
            Ok(Checked { verdict: Verdict::Bad(NOT_RECOVERED), output })
        }
    }
}

/// The state in a file.
fn image_at(path: &Path) -> io::Result<Arc<Image>> {
    Ok(Arc::new(super::run::image_of(path)?))
}

fn not_recovered(error: &FsError) -> Checked {
    let output = format!("recovery: {error}\n");
    let verdict = match error {
        // Damage of the state, where the check did not ask for a repair.
        FsError::Io(IoError::Checksum { .. }) => Verdict::Bad(NOT_RECOVERED),
        // The image reports what the recording or the base does: this machine is to blame.
        FsError::Io(_) => Verdict::Failed(output.trim_end().to_owned()),
        _ => Verdict::Bad(NOT_RECOVERED),
    };
    Checked { verdict, output }
}

/// What checks states of this file system in a sandbox. `shown` is for those of Seekless.
///
/// # Errors
/// As for [`Workers::new`].
pub fn checker(
    fs: FileSystem,
    options: SandboxOptions,
    count: usize,
    shown: Shown,
) -> io::Result<Box<dyn Checker>> {
    Ok(match fs.policy() {
        Some(policy) => Box::new(OwnChecker::new(options, count, policy, shown)?),
        None => Box::new(Workers::new(options, count)?),
    })
}

#[cfg(test)]
mod tests;
