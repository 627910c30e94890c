//! The policy `async`: writes go out in any order, by age. After a crash only a check that repairs
//! makes the file system usable again, and it may lose files that were not synced.

use super::{Policy, PolicyKind};

/// Orders nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Async;

impl Policy for Async {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Async
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}
