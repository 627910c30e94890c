//! Damaged, forged and random images: mounted, checked, printed and used.
#![no_main]

#[path = "../../crates/layouts/tests/suite/damage/mod.rs"]
mod damage;

libfuzzer_sys::fuzz_target!(|input: &[u8]| damage::exercise(input));
