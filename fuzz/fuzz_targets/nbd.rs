//! Any bytes as a client's session with the server.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| seekless_serve::nbd::exercise::exercise(input));
