//! Comparisons with peers on this machine. Absolute figures drift from hour to hour. So runs of
//! ours and of the peer alternate, and medians are compared.

mod disk;
mod emulated;
mod faults;
mod files;
pub mod fio;
mod log;
mod mount;
mod servers;
mod simulation;

use crate::guided::guided;
use crate::run::distributed;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// How to measure.
#[derive(Debug)]
pub struct Setup {
    /// The release program.
    pub program: PathBuf,
    /// Shorter and fewer runs.
    pub quick: bool,
}

impl Setup {
    /// How often each measurement is repeated.
    pub fn repeats(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// The long or the short length.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

type Section = fn(&Setup) -> Result<()>;

const SECTIONS: [(&str, Section); 9] = [
    ("simulation", simulation::speed),
    ("factors", simulation::factors),
    ("disk", disk::disk),
    ("servers", servers::servers),
    ("faults", faults::faults),
    ("emulated", emulated::emulated),
    ("mount", mount::mount),
    ("files", files::files),
    ("log", log::log),
];

/// Names the program to measure, where none is to be built.
const PROGRAM: &str = "--program=";

fn is_program(arg: &str) -> bool {
    arg.starts_with(PROGRAM)
}

/// Runs the named sections, or all.
///
/// # Errors
/// Unknown sections, and failures of measurements.
pub fn bench(args: &[&str]) -> Result<()> {
    let quick = args.contains(&"--quick");
    let with_profile = args.contains(&"--guided");
    let is_option = |arg: &str| ["--quick", "--guided"].contains(&arg) || is_program(arg);
    let names: Vec<&str> = args.iter().copied().filter(|arg| !is_option(arg)).collect();
    let known = SECTIONS.map(|(name, _)| name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("no section `{unknown}`: known are {}", known.join(", "));
    }
    let program = match args.iter().find_map(|arg| arg.strip_prefix(PROGRAM)) {
        Some(path) => PathBuf::from(path),
        None if with_profile => guided()?,
        None => distributed()?,
    };
    let setup = Setup { program, quick };
    for (name, section) in SECTIONS {
        if names.is_empty() || names.contains(&name) {
            println!("\n== {name} ==\n");
            section(&setup)?;
        }
    }
    Ok(())
}

/// The middle value.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A new directory under the system's temporary one.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(name: &str) -> Result<Scratch> {
        let dir = std::env::temp_dir().join(format!("seekless-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }
}
