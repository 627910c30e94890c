//! Copy-on-write collections: clones share everything until one of them changes.
//!
//! A mounted file system can be forked ([`crate::mounted::Mounted::fork`]), at the cost of a clone
//! of each collection. `share` prepares a collection for it, in a time that depends on what has
//! changed since the last fork. A clone then takes a time that hardly depends on what it holds, and
//! a change after it copies one node or chunk. Without `share` a clone copies what has changed.
//!
//! Invariant: what a clone sees does not depend on later changes of the original, nor the other way
//! round. Iteration is in order of keys, never in order of addresses.

pub mod map;
pub mod part;
pub mod set;
pub mod table;

pub use map::CowMap;
pub use part::Part;
pub use set::CowSet;
pub use table::CowTable;
