//! The log as a service, proved: a client appends records, makes them durable and trims them.
//!
//! After a crash the log holds a prefix of what was appended and not trimmed, at least all that a
//! sync covers. Damage of a sector is named, and nothing in front of it is lost.

mod device;
mod oracle;
mod request;
mod subject;
mod volume;
mod workload;

pub use oracle::{Contents, LogOracle};
pub use request::LogRequest;
pub use subject::LogSubject;
pub use volume::LogVolume;
