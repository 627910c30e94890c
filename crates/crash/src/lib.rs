//! The crash kernel: what a power cut or a failing device may leave, as pure functions of a seed.
//!
//! Three users share it: the prover, which cuts the power of simulated devices after every event;
//! `replay-crashes`, which tries the crashes that a recorded device could have had; and the
//! crashing disk that `serve --faults` offers. Each knows its own bytes; the kernel knows writes
//! that are pending, what may become of them, and which outcomes are worth trying.
//!
//! Start with [`pending`] (which writes a power cut may undo), [`fate`] and [`tear`] (what becomes
//! of one), [`contract`] (what a device promises), [`needs`] (which writes survive only together),
//! [`enumerate`] (which outcomes are tried), then [`moment`] (the states of several devices at
//! once). [`faults`] holds what fails on purpose, [`shrink`] makes a failing case small, [`device`]
//! holds the two devices that crash and fail.
#![forbid(unsafe_code)]

mod at_risk;
pub mod contract;
pub mod device;
pub mod enumerate;
pub mod fate;
pub mod faults;
pub mod moment;
pub mod needs;
pub mod pending;
pub mod sample;
pub mod shrink;
pub mod tear;

pub use contract::Contract;
pub use fate::Fate;
