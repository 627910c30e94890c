//! Minix, version 3, as Linux has it: `fsck.minix` and the kernel are foreign judges of each byte.
//!
//! [`ondisk`] has the structures, [`offline`] makes, checks and repairs a file system that is not
//! mounted, [`ops`] are the operations over cached blocks, and [`calls`] mounts it. What the
//! format cannot hold is refused: names of more than 60 bytes, owners above 65,535, space that is
//! reserved and not written.
//!
//! Metadata has no checksums, so damage shows only where a value is impossible. No mark says
//! whether the file system was unmounted: a check is due after each crash.
//!
//! A block of the format is called a zone here; blocks of the core are pages of 4,096 bytes, which
//! hold one, two or four zones.

pub mod calls;
mod inodes;
pub mod kind;
mod names;
pub mod offline;
pub mod ondisk;
pub mod ops;
mod space;
pub mod volume;

pub use calls::mount::mount;
pub use calls::personality::Minix;
pub use kind::KIND;
pub use offline::check::check;
pub use offline::finding::Finding;
pub use offline::mkfs::{MkfsReport, mkfs};
pub use offline::repair::repair;
pub use ondisk::geometry::Geometry;
pub use ondisk::geometry::load;
pub use ondisk::inode::Inode;
pub use ondisk::superblock::Superblock;
