//! Trees of states: copied for people by `--keep`, and compared for the story of an example.

use crate::failure::{Exit, Failure};
use seekless_crashtest::directory::Copy;
use seekless_crashtest::replay::check::{Checker, Verdict, quoted};
use seekless_crashtest::replay::workers::{Acked, Bench};
use seekless_crashtest::report::Missing;
use seekless_crashtest::sandbox::pool::{DIR, DIR2};
use seekless_crashtest::session::CrashImage;
use seekless_crashtest::sweep::example::Found;
use seekless_crashtest::sweep::{Sweep, SweepError};
use seekless_crashtest::trees::{Difference, compare, remedies};
use std::io;
use std::path::{Path, PathBuf};

/// KiB of a tree that is compared at most.
const MOST_KIB: u64 = 64 << 10;
/// Differences that are told.
const MOST_LINES: usize = 12;

/// Makes what runs a command on states, with nothing hidden of the machine.
pub type Runs<'r> = dyn Fn(String) -> Result<Box<dyn Checker>, Failure> + 'r;

/// Copies the tree of a state to a new directory, as a check sees it. False if it cannot be
/// mounted, or has more than `most_kib`.
///
/// # Errors
/// If the state cannot be presented or the directory not be made.
pub fn copy(
    image: CrashImage,
    to: &Path,
    most_kib: Option<u64>,
    bench: Bench<'_>,
    runs: &Runs<'_>,
) -> Result<bool, Failure> {
    std::fs::create_dir(to).map_err(|error| cannot_copy(to, &error))?;
    let image = match image {
        CrashImage::Disk(image) => image,
        CrashImage::Tree(tree) => {
            let copied = Copy::new(to, tree.without_entries()).and_then(|mut to| to.show(&tree));
            return copied.map(|_| true).map_err(|error| cannot_copy(to, &error));
        }
    };
    let target = quoted(&to.to_string_lossy());
    // Of two disks each has a directory of its own below the target.
    let copies = match image.disks().len() {
        1 => vec![(DIR, target)],
        _ => vec![(DIR, format!("{target}/dir")), (DIR2, format!("{target}/dir2"))],
    };
    let line = |(dir, target): &(&str, String)| {
        let is_small = most_kib.map_or_else(String::new, |most| {
            format!("test \"$(du -sxk {dir} | cut -f1)\" -le {most} || exit 1; ")
        });
        format!("{is_small}mkdir -p -- {target} && cp -a -- {dir}/. {target}")
    };
    let checker = runs(copies.iter().map(line).collect::<Vec<_>>().join(" && "))?;
    let bench = Bench { checker: &*checker, ..bench };
    let checked = bench.check(CrashImage::Disk(image), "copy", &Acked::default());
    let checked = checked.map_err(|error| cannot(error.into()))?;
    Ok(checked.verdict == Verdict::Good)
}

fn cannot_copy(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot copy a tree to {}: {error}", path.display()))
}

/// What the example of a group lacks. None where a tree cannot be had, or the check sees no
/// difference of trees.
///
/// # Errors
/// As for [`copy`].
pub fn missing(
    sweep: &Sweep<'_>,
    found: &Found,
    runs: &Runs<'_>,
) -> Result<Option<Missing>, Failure> {
    let dir = Scratch::new()?;
    let (epoch, state) = (&found.epoch, &found.state);
    let image = sweep.session.ground_at(epoch.cut).state(sweep.session, epoch, state);
    let (state, wanted) = (dir.0.join("state"), dir.0.join("wanted"));
    if !copy(image, &state, Some(MOST_KIB), sweep.bench, runs)? {
        return Ok(None);
    }
    let whole = sweep.whole(&found.epoch).map_err(cannot)?;
    if !copy(whole.image, &wanted, Some(MOST_KIB), sweep.bench, runs)? {
        return Ok(None);
    }
    // What cannot be read is no reason to keep the verdict back.
    let differences = compare(&state, &wanted).unwrap_or_default();
    Ok((!differences.is_empty()).then(|| told(&differences, whole.when)))
}

fn told(differences: &[Difference], against: String) -> Missing {
    let lines = differences.iter().take(MOST_LINES).map(Difference::line).collect();
    let more = differences.len().saturating_sub(MOST_LINES) as u64;
    let remedies = remedies(&differences[..differences.len().min(MOST_LINES)]);
    Missing { against, lines, more, remedies }
}

/// The failure of a sweep.
pub fn cannot(error: SweepError) -> Failure {
    Failure::from_message(Exit::Failed, &error.to_string())
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let above = std::env::temp_dir();
        for attempt in 0..1000 {
            let path = above.join(format!("seekless-trees-{}-{attempt}", std::process::id()));
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_copy(&path, &error)),
                Ok(()) => return Ok(Scratch(path)),
            }
        }
        Err(cannot_copy(&above, &io::ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
