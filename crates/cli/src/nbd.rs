//! The small NBD client, for the demonstration and the tests.

pub use seekless_serve::nbd::client::Client;
