//! File systems in virtual time: programs make calls, disks are simulated, the clock jumps.

pub mod driver;
