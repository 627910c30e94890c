//! Layouts in virtual time: the simulator and the analytic models.
//!
//! Start with [`sim`], which runs a layout on a simulated disk and reports where the time went.
//! [`driver`] runs a node from event to event, [`workload`] generates requests, [`distribution`]
//! decides how often each page is requested, and [`oracle`] checks the content of every read.
//! [`model`] computes the expected results. Nothing here reads a clock: every result is a function
//! of options and seed.
#![forbid(unsafe_code)]

pub mod disk_time;
pub mod distribution;
pub mod driver;
pub mod figures;
mod file_system;
pub mod files;
pub mod histogram;
mod interned;
pub mod model;
pub mod news;
pub mod oracle;
pub mod pool;
pub mod raw;
pub mod remount;
pub mod sim;
pub mod system;
pub mod tpcc;
pub mod trace;
pub mod workload;
