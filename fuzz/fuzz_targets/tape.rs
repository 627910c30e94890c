//! Any bytes as a recording of an NBD export, with or without corrected checksums.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| seekless_crashtest::record::tape::exercise(input));
