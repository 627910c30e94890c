//! Middleware: devices around devices. They keep the contract of [`crate::device::Device`] towards
//! the layer above and change nothing but what their name says.

pub mod record;
