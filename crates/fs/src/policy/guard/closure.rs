//! What must be written so that changes of fields reach the disk.

use super::{Field, Guards};
use crate::tx::BlockNo;
use std::collections::BTreeSet;

impl<A> Guards<A> {
    /// The blocks whose writes bring facts that the guards of these fields need, directly or by
    /// way of other guards; in order. Empty if no guard stands on the fields.
    ///
    /// A block is named until its facts are settled: where the write is in flight, the caller waits
    /// for it and asks again.
    pub fn blocks_before(&self, fields: &[Field]) -> BTreeSet<BlockNo> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<Field> = fields.to_vec();
        while let Some(field) = open.pop() {
            let Some(hung) = self.blocks.get(&field.block) else { continue };
            for guard in hung.guards.iter().filter(|guard| guard.overlaps(field.span())) {
                if !seen.insert(guard.serial) {
                    continue;
                }
                // Older guards of the same bytes hold it back, too.
                open.extend(guard.olds.iter().map(|old| Field {
                    block: field.block,
                    at: old.span.from,
                    length: old.span.to - old.span.from,
                }));
                for (number, &need) in guard.needs.iter().enumerate() {
                    if guard.missing & (1 << number) != 0 {
                        found.insert(need.block);
                        open.push(need);
                    }
                }
            }
        }
        found
    }
}
