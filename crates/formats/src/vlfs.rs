//! The file system above the drive of VLFS (section 3.3 of the virtual log paper): names and
//! attributes, and no allocation, no maps of space, no addresses.
//!
//! A file is an object of the drive, its content lies at its addresses, its attributes are those
//! of the object. The drive finds places and keeps pointers. Each operation is one transaction of
//! the drive, content included, so after a crash the file system is what it was after one of them.
//!
//! [`ondisk`] has the structures, [`offline`] makes, checks and repairs a file system that is not
//! mounted, [`ops`] are the operations over cached blocks, and [`calls`] mounts it.

pub mod calls;
mod inodes;
pub mod kind;
mod names;
mod numbers;
pub mod offline;
pub mod ondisk;
pub mod ops;
pub mod volume;

pub use calls::mount::mount;
pub use calls::personality::Vlfs;
pub use kind::KIND;
pub use offline::check::check;
pub use offline::finding::Finding;
pub use offline::mkfs::mkfs;
pub use offline::repair::repair;
