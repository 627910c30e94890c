//! Tests of simulated disks in one program.
#![allow(missing_docs)]

mod claims;
mod current_disks;
mod drive_managed;
mod one_physics;
mod parts;
mod power_cuts;
mod shingled;
mod streams;
