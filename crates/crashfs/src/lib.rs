//! Crash tests inside a test suite.
//!
//! A product takes [`mod@fs`] in place of `std::fs` in its tests. It is a file system in memory
//! that records each change. [`Disk::run`] records a workload with its acknowledgements;
//! [`Disk::crashes`] builds the states that a power cut may leave on ext4, on XFS and under POSIX,
//! and [`Crashes::check`] gives each to a check. The first bad state under each model is made small
//! and told as a story that names the sync that is missing.
//!
//! ```
//! use seekless_crashfs::{Disk, Model, fs};
//! use std::io::Write;
//!
//! let disk = Disk::new();
//! disk.run(|acks| -> std::io::Result<()> {
//!     let mut log = fs::File::create("log")?;
//!     fs::File::open("/")?.sync_all()?;
//!     for value in 0..3u8 {
//!         log.write_all(&[value])?;
//!         log.sync_data()?;
//!         acks.push(value);
//!     }
//!     Ok(())
//! })?;
//! let report = disk.crashes(Model::USUAL).check(|acked| {
//!     let log = fs::read("log").unwrap_or_default();
//!     if log.starts_with(acked) { Ok(()) } else { Err("a value is lost".into()) }
//! })?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The current volume belongs to the thread. [`Disk::enter`] sets it in another one, and
//! [`thread::spawn`] hands it on to threads that the product starts. A [`fs::File`]
//! stays with the volume on which it was opened, so what a run leaves open changes no crash state.
#![forbid(unsafe_code)]

mod crashes;
mod disk;
pub mod fs;
pub mod thread;
mod volume;

pub use crashes::{CheckError, Crashes, ModelReport, Probe, Report};
pub use disk::{Acks, Disk, Entered};
pub use seekless_calls::model::Model;
