//! Prints how many crash states of a file system the prover tries in a second of processor time.
//!
//! `cargo run -p seekless-prove --example states_speed -- async 200000`, or with `ace` in place of
//! the number for all sequences of one operation. A policy with a log takes a mode of data behind
//! it: `wafs-1async-writeback`.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::unwrap_used)]

use seekless_prove::files::{Ace, FileSubject};
use seekless_prove::{ProveOptions, prove};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nanoseconds that the processor has spent on this process.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let policy = args.next().expect("a policy");
    let mut all = FileSubject::all().into_iter();
    let mut subject = all.find(|one| one.rules.name() == policy).expect("a known policy");
    let amount = args.next().expect("states, or `ace`");
    subject.ace = (amount == "ace").then_some(Ace::One);
    let states = amount.parse().unwrap_or(u64::MAX);
    let options = ProveOptions { states, ..ProveOptions::of(subject) };
    let report = prove(&options, processor_time, &mut |_, _| {});
    println!("{}", report.to_text());
}
