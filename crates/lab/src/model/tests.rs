//! The models against the claims, against random simulations, and against the layouts.

mod claims;
mod dice;
mod hylog;
mod layouts;
mod tables;

use super::{Overrides, Params};
use seekless_disk::specs;

/// A built-in disk with slots of so many sectors.
fn params(disk: &str, slot_sectors: u32) -> Params {
    let spec = specs::find(disk).expect("it comes with the program");
    Params::new(&spec, slot_sectors, &Overrides::default()).expect("slots fill its tracks")
}

fn hp() -> Params {
    params("hp97560", 1)
}

fn st() -> Params {
    params("st19101", 1)
}

/// `found` differs from `expected` by at most a share of it.
#[track_caller]
fn close(what: &str, found: f64, expected: f64, part: f64) {
    let error = (found - expected).abs();
    assert!(error <= part * expected.abs(), "{what}: {found}, expected {expected}");
}

/// `found` is what rounding to that many digits shows as `shown`.
#[track_caller]
fn shows(what: &str, found: f64, shown: f64, digits: i32) {
    let unit = 10.0_f64.powi(-digits);
    assert!((found - shown).abs() <= 0.5001 * unit, "{what}: {found}, expected {shown}");
}
