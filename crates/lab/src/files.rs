//! File systems in virtual time: programs make calls, disks are simulated, the clock jumps.
//!
//! [`run`] runs a program ([`programs`]) over a file system on a simulated disk and reports what it
//! saw. [`driver`] moves calls and time, [`user`] makes the calls of a program, [`host`] says what
//! they cost a CPU.

pub mod crashes;
pub mod driver;
pub mod host;
mod lock;
pub mod programs;
pub mod recovery;
pub mod report;
pub mod run;
pub mod sizes;
pub mod steps;
mod text;
mod trust;
pub mod user;
pub mod watch;
