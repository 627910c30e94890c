//! A structure of a stranger, by what `structure` offers and nothing else: a log of numbers, a
//! block each. `cargo xtask dist` builds this file outside the workspace, too.
#![allow(missing_docs)]

use seekless_prove::structure::{Blocks, Found, Steps, Structure};

/// How many numbers the log can hold.
const BLOCKS: u64 = 32;

fn sealed(value: u64) -> Vec<u8> {
    [value.to_le_bytes(), (!value).to_le_bytes()].concat()
}

fn value(block: &[u8]) -> Option<u64> {
    let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    (word(0) == !word(8)).then(|| word(0))
}

/// The log ends at the first block that holds no number.
fn open(disk: &mut Blocks<'_>) -> Result<Vec<u64>, String> {
    let mut log = Vec::new();
    for at in 0..BLOCKS {
        match value(&disk.read(at)?) {
            Some(number) => log.push(number),
            None => break,
        }
    }
    Ok(log)
}

fn append(log: &mut Vec<u64>, number: u64) -> Steps {
    log.push(number);
    Steps::default().write(log.len() as u64 - 1, &sealed(number)).flush()
}

/// The same without its flush.
fn append_hastily(log: &mut Vec<u64>, number: u64) -> Steps {
    log.push(number);
    Steps::default().write(log.len() as u64 - 1, &sealed(number))
}

/// Everything acknowledged is there, in order, and nothing that was never sent.
fn judge(found: &Found<'_, Vec<u64>>) -> Result<(), String> {
    let all = [found.before.as_slice(), found.sent].concat();
    let least = found.before.len() + found.acknowledged;
    let good = found.now.len() >= least && all.starts_with(found.now);
    good.then_some(()).ok_or_else(|| format!("{:?}, after {all:?}", found.now))
}

const LOG: Structure<Vec<u64>> =
    Structure { name: "log", blocks: BLOCKS, open, operate: append, judge };

#[test]
fn a_log_that_flushes_keeps_what_it_acknowledged() {
    let report = LOG.prove(2_000);
    assert!(report.violations.is_empty(), "{}", report.to_text());
    assert!(report.states >= 2_000 && report.faults.lost > 0, "{}", report.to_text());
}

#[test]
fn a_log_that_does_not_flush_is_caught() {
    let report = Structure { operate: append_hastily, ..LOG }.prove(2_000);
    assert!(!report.violations.is_empty(), "{}", report.to_text());
}
