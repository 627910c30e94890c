//! Devices that crash and fail on purpose, for the prover and for tests.

pub mod cut;
pub mod faulty;
pub mod volatile;
