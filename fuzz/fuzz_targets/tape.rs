//! libFuzzer over `seekless_fuzz_inputs::tape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| seekless_fuzz_inputs::tape(input));
