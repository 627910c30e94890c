//! The laboratory: layouts in virtual time.
//!
//! [`driver`] runs a node from event to event, [`workload`] says what the clients ask for and
//! [`distribution`] how often which page,
//! [`oracle`] knows what every read must return, and [`sim`] puts them together over a mechanical
//! disk and reports where the time went; [`model`] says what may be hoped for. Nothing in here
//! knows the time of day: everything is a function of its options and seed.
#![forbid(unsafe_code)]

pub mod disk_time;
pub mod distribution;
pub mod driver;
mod file_system;
pub mod histogram;
pub mod model;
pub mod news;
pub mod oracle;
pub mod pool;
pub mod sim;
pub mod system;
pub mod tpcc;
pub mod trace;
pub mod workload;
