//! `check --repair` of a volume that cannot be mounted: what is lost is given up, and listed.

use super::Args;
use crate::failure::{Failure, Outcome};
use seekless_engine::layout::{LayoutError, MountOptions};
use seekless_layouts::salvage::Repaired;
use seekless_serve::image;
use seekless_serve::image::array::is_member;
use std::io::Write;

/// A report names at most so many runs of blocks.
const MOST_NAMED: usize = 100;

/// Makes a volume mountable if it is not.
///
/// # Errors
/// An array; a volume that cannot be repaired.
pub(super) fn repair(args: &Args) -> Result<Option<Repaired>, Failure> {
    let [path] = args.image.as_slice() else {
        return Err(Failure::usage("--repair: an array is repaired with --scrub only")
            .hint("copy what is left of its volume: `seekless salvage`"));
    };
    if args.degraded || is_member(path)? {
        return Err(Failure::usage("--repair: a member of an array is no volume")
            .hint("name all members, and add --scrub"));
    }
    let mut image = image::open(path, false)?;
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mounted = seekless_layouts::mount(&mut image, &options).map(|_| ());
    match mounted {
        Err(LayoutError::Damaged(_)) => {
            let repaired = seekless_layouts::repair(&mut image, args.give_up);
            Ok(Some(repaired.map_err(|error| Failure::from(image.blame(error)))?))
        }
        other => other.map(|()| None).map_err(|error| image.blame(error).into()),
    }
}

/// Numbers as runs: the first, and how many.
pub(super) fn runs(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == block => *count += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

/// Says what was repaired, and what is lost.
///
/// # Errors
/// If it cannot be printed.
pub(super) fn print(args: &Args, repaired: &Repaired, out: &mut dyn Write) -> Outcome {
    let name = args.image.first().map(|path| path.display().to_string()).unwrap_or_default();
    writeln!(out, "{name}: repaired, {} blocks given up", repaired.lost.len())?;
    for (first, count) in runs(&repaired.lost).into_iter().take(MOST_NAMED) {
        writeln!(out, "given up: blocks {first}+{count}")?;
    }
    match repaired {
        Repaired { lost, .. } if lost.is_empty() => {}
        Repaired { marked: true, .. } => {
            writeln!(out, "reading them is an error until they are written")?;
        }
        Repaired { .. } => writeln!(out, "they read as zeros")?,
    }
    Ok(())
}
