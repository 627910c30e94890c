//! The wall-clock side of Seekless: volumes in files, block devices or memory, served to NBD
//! clients, on the real device or on a simulated disk that answers in real time.
//!
//! Start with [`image`] (where a volume lives), then [`device`] (how its blocks are reached),
//! [`adapter`] (byte requests become block requests), [`driver`] (the loop) and [`server`] (all
//! together). [`files`] mounts file systems on the same volumes; [`attach`] makes block devices
//! of them. [`control`] answers questions
//! about all, [`status`] says what.

pub mod adapter;
mod announce;
pub mod attach;
pub mod background;
pub mod control;
pub mod crash;
pub mod device;
pub mod driver;
pub mod files;
pub mod fuse;
pub mod image;
pub mod nbd;
pub mod server;
pub mod signals;
pub mod status;
