//! What the call loop needs of FFS: mounting, requests, durability, what is put off.

pub(crate) mod durable;
pub mod mount;
pub(crate) mod perform;
pub mod personality;
pub(crate) mod piece;
