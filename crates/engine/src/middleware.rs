//! Middleware: devices around devices, layers around layers. They keep the contract of
//! [`crate::device::Device`] and [`crate::layer::Layer`] and change nothing but what their name
//! says.

mod device;
mod layer;
pub mod record;

pub use device::DeviceAround;
pub use layer::LayerAround;
