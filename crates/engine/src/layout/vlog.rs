//! Placeholder wiring while the virtual log lands.
pub use super::inplace::{Inplace as Vlog, device_blocks, largest_volume};
