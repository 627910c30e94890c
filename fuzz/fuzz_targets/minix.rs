//! libFuzzer over `seekless_fuzz_inputs::minix`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| seekless_fuzz_inputs::minix(input));
