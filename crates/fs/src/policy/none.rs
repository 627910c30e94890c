//! The policy `async`: writes go out in any order, by age. After a crash only a check that repairs
//! makes the file system usable.

use super::{Group, Policy, Settle, SyncWhat};
use crate::core::cache::Buffer;
use crate::core::page::Page;
use crate::tx::BlockNo;

/// No order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Async;

impl Policy for Async {
    fn wants_edits(&self) -> bool {
        false
    }

    fn committed(&mut self, _group: &Group<'_>) -> Settle {
        Settle::Now
    }

    fn image(&mut self, buffer: &Buffer) -> Option<Page> {
        Some(buffer.page.clone())
    }

    fn written(&mut self, _block: BlockNo) {}

    fn sync(&mut self, _what: SyncWhat) -> Settle {
        Settle::Durable
    }
}
