//! The UFS of paper 000 and its hosts (claims V9 and V11): blocks of 4 KB, fragments of 1 KB.

use super::job::{IN_PLACE, VLOG, Volume};
use crate::files::host::Host;
use seekless_formats::MkfsOptions;

/// The volumes that claims name.
pub(super) const CLAIMED: [Volume; 2] = [IN_PLACE, VLOG];
/// The UFS of paper 000.
pub(super) fn mkfs() -> MkfsOptions {
    MkfsOptions { block: 4096, fragment: 1024, bytes_per_inode: 4096, ..MkfsOptions::default() }
}

/// A host of paper 000.
pub(super) fn host(name: &'static str) -> Host {
    Host::find(name).expect("a table of this crate")
}
