//! The bodies of the fuzz targets: each takes foreign bytes, and panics if the code under test
//! breaks a promise.
//!
//! Two programs call them. The binaries of `fuzz/` hand in what libFuzzer makes up. The test
//! `seeds` of this crate hands in the files of `fuzz/seeds` and variants of them, with every run of
//! the tests. A target is a pure function of its input.

#[allow(dead_code, reason = "tests of layouts use more of this module")]
#[path = "../../../crates/layouts/tests/suite/damage/mod.rs"]
mod damage;
mod disksim;
mod ffs;
mod files;
mod log;
mod log_service;
mod minix;
mod recording;
mod spec;

/// A fuzz target: its name, as in `fuzz/Cargo.toml` and `fuzz/seeds`, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 9] = [
    ("nbd", nbd),
    ("mount", mount),
    ("disksim", disksim),
    ("recording", recording),
    ("spec", spec),
    ("tape", tape),
    ("ffs", ffs),
    ("log", log),
    ("minix", minix),
];

/// Any bytes as a client's session with the server.
pub fn nbd(input: &[u8]) {
    seekless_serve::nbd::exercise::exercise(input);
}

/// Damaged, forged and random images: mounted, checked, printed and used.
pub fn mount(input: &[u8]) {
    damage::exercise(input);
}

/// Any text as parameter files of DiskSim: read, mapped, and the result read again.
pub fn disksim(input: &[u8]) {
    disksim::run(input);
}

/// Any bytes as the recording of a drive: read in pieces, replayed, compared and drawn.
pub fn recording(input: &[u8]) {
    recording::run(input);
}

/// Any text as the specification of a disk: read, written, read again, and simulated.
pub fn spec(input: &[u8]) {
    spec::run(input);
}

/// Any bytes as a recording of an NBD export, with or without corrected checksums.
pub fn tape(input: &[u8]) {
    seekless_crashtest::record::tape::exercise(input);
}

/// An FFS with any bytes in any of its metadata, under valid seals or not: mounted, read, written,
/// checked, repaired, and checked again.
pub fn ffs(input: &[u8]) {
    ffs::run(input);
}

/// The log of a file system with any bytes in any of its sectors, under valid seals or not: read,
/// and continued where it can be.
pub fn log(input: &[u8]) {
    log::run(input);
    log_service::run(input);
}

/// A Minix file system with any bytes anywhere: mounted, read, written, checked, repaired, and
/// checked again.
pub fn minix(input: &[u8]) {
    minix::run(input);
}
