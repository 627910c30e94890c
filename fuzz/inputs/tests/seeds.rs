//! Every fuzz target on its seeds and on variants of them, so that each run of the tests sees what
//! fuzzing starts from.
//!
//! A variant is a function of its seed: the seed cut short at each of [`PLACES`] places, and the
//! seed with one byte changed at each of them in each of [`FLIPS`]' ways.
#![allow(missing_docs)]

use seekless_fuzz_inputs::TARGETS;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Places of a seed that are cut and changed.
const PLACES: usize = 512;
/// Bits that are changed in a byte: all, the lowest, the highest, and the case of a letter.
const FLIPS: [u8; 4] = [0xff, 0x01, 0x80, 0x20];

/// `fuzz/`.
fn fuzz() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in `fuzz`")
}

/// Names of the entries of a directory, in order.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("it is listed").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("an entry has a name").to_string_lossy().into_owned()
}

/// Places of a seed: all of a short one, else [`PLACES`] at equal distances.
fn places(length: usize) -> impl Iterator<Item = usize> {
    let count = PLACES.min(length);
    (0..count).map(move |number| number * length / count)
}

/// A seed and its variants, each with a description.
fn variants(seed: &[u8]) -> Vec<(String, Vec<u8>)> {
    let cut = places(seed.len()).map(|at| (format!("cut to {at} bytes"), seed[..at].to_vec()));
    let all = places(seed.len()).flat_map(|at| FLIPS.map(|flip| (at, flip)));
    let flipped = all.map(|(at, flip)| {
        let mut bytes = seed.to_vec();
        bytes[at] ^= flip;
        (format!("with byte {at} changed by {flip:#04x}"), bytes)
    });
    [("as it is".to_owned(), seed.to_vec())].into_iter().chain(cut).chain(flipped).collect()
}

/// Runs a target on each seed of a directory and on its variants. Returns the number of inputs, and
/// describes those on which the target panics.
fn feed(run: fn(&[u8]), dir: &Path) -> (usize, Vec<String>) {
    let (mut inputs, mut failed) = (0, Vec::new());
    for file in entries(dir) {
        let seed = fs::read(&file).expect("a seed is a file");
        for (what, input) in variants(&seed) {
            inputs += 1;
            if catch_unwind(AssertUnwindSafe(|| run(&input))).is_err() {
                failed.push(format!("seed `{}` {what}", name(&file)));
            }
        }
    }
    (inputs, failed)
}

fn survives(target: &str) {
    let (_, run) = TARGETS.into_iter().find(|one| one.0 == target).expect("the target is listed");
    let (inputs, failed) = feed(run, &fuzz().join("seeds").join(target));
    println!("`{target}`: {inputs} inputs");
    assert!(inputs > 1, "`{target}`: {inputs} inputs are too few");
    assert!(failed.is_empty(), "`{target}` fails on {}", failed.join("; "));
}

/// Makes a test of each target, so that they share the processors.
macro_rules! each_target {
    ($($target:ident),+ $(,)?) => {
        $(#[test] fn $target() { survives(stringify!($target)); })+
        /// The targets with a test above.
        const TESTED: &[&str] = &[$(stringify!($target)),+];
    };
}

each_target!(nbd, mount, disksim, recording, spec, tape, ffs, log, minix);

/// Functions, tests, binaries and directories of seeds have the same names.
#[test]
fn every_target_has_a_function_a_test_a_binary_and_seeds() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let functions = sorted(TARGETS.iter().map(|target| target.0.to_owned()).collect());
    assert_eq!(sorted(TESTED.iter().map(|&target| target.to_owned()).collect()), functions);
    let seeded: Vec<String> = entries(&fuzz().join("seeds")).iter().map(|dir| name(dir)).collect();
    assert_eq!(seeded, functions, "directories of `fuzz/seeds`");
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("the manifest is there");
    let manifest: toml::Table = manifest.parse().expect("cargo reads it");
    let binaries = manifest["bin"].as_array().expect("a list of binaries");
    let binaries = binaries.iter().map(|one| one["name"].as_str().expect("a name").to_owned());
    assert_eq!(sorted(binaries.collect()), functions, "binaries of `fuzz/Cargo.toml`");
    for target in functions {
        let file = fuzz().join("fuzz_targets").join(format!("{target}.rs"));
        let text = fs::read_to_string(&file).expect("the binary has a source");
        assert!(text.contains(&format!("seekless_fuzz_inputs::{target}(")), "{}", file.display());
    }
}

/// A target that fails on one variant only is reported with that variant.
#[test]
fn a_failure_is_found_and_named() {
    let dir = fuzz().join("seeds").join("nbd");
    assert_eq!(feed(|_| {}, &dir).1, Vec::<String>::new());
    let first = entries(&dir).remove(0);
    let whole = fs::metadata(&first).expect("it is listed").len();
    let (inputs, failed) = feed(|input| assert!(!input.is_empty(), "an input is empty"), &dir);
    assert!(inputs > failed.len());
    let named = format!("seed `{}` cut to 0 bytes", name(&first));
    assert!(whole > 0 && failed.contains(&named), "{failed:?}");
}

#[test]
fn variants_differ_from_their_seed_and_from_each_other() {
    let seed: Vec<u8> = (0..1000_u16).map(|number| number as u8).collect();
    for length in [1, 10, PLACES, PLACES + 1, 1000] {
        let variants = variants(&seed[..length]);
        let expected = 1 + (1 + FLIPS.len()) * PLACES.min(length);
        assert_eq!(variants.len(), expected);
        let mut inputs: Vec<_> = variants.into_iter().map(|one| one.1).collect();
        inputs.sort();
        inputs.dedup();
        assert_eq!(inputs.len(), expected, "of {length} bytes");
    }
}
