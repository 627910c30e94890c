//! The disk that crashes.

pub mod raw;
