//! The pure core of Seekless.
//!
//! Layouts are state machines without I/O: requests and answers come in, requests and answers go
//! out. No layout blocks, reads a clock or draws a random number that no seed controls. The same
//! code therefore serves a real device and runs in virtual time, can be cut off at any
//! event, and gives the same world for the same seed.
//!
//! Start with [`io`] (the vocabulary), [`layer`] and [`device`] (the two seams), then [`node`]
//! (the loop), then the layouts.
#![forbid(unsafe_code)]

pub mod account;
pub mod arm;
pub mod checksum;
pub mod clean_shutdown;
pub mod client;
pub mod data;
pub mod device;
pub mod disk;
pub mod edge;
pub mod io;
pub mod joined;
pub mod layer;
pub mod layout;
pub mod member;
pub mod middleware;
pub mod nested;
pub mod node;
pub mod objects;
pub mod options;
pub mod planted;
pub mod replaceable;
pub mod request_table;
pub mod rng;
pub mod shared;
pub mod size;
pub mod span;
pub mod superblock;
pub mod table;
pub mod traffic;
pub mod transaction;
pub mod units;
pub mod upkeep;

pub use bytes::Bytes;
