//! What must be written next so that changes of fields reach the disk.

use super::{Guards, Span};
use crate::tx::{BlockNo, Field};
use std::collections::BTreeSet;

impl<A> Guards<A> {
    /// The blocks that must be written before these fields can be on the disk as they are now, as
    /// far as they can be written without waiting for others. Empty if nothing keeps the fields
    /// back. Where a write is in flight, or is not ordered yet, the caller waits and asks again.
    pub fn next_writes(&self, fields: &[Field]) -> BTreeSet<BlockNo> {
        let mut front = BTreeSet::new();
        let mut seen = BTreeSet::new();
        // Fields as they were at a time, and whether something waits for them.
        let mut open: Vec<(Field, u64, bool)> =
            fields.iter().map(|&field| (field, u64::MAX, false)).collect();
        while let Some((field, time, is_need)) = open.pop() {
            let span = Span::of(field);
            let mut held = false;
            let hung = self.blocks.get(&field.block);
            for guard in hung.into_iter().flat_map(|hung| &hung.guards) {
                if guard.since > time || !guard.overlaps(span) {
                    continue;
                }
                held = true;
                if !seen.insert(guard.serial) {
                    continue;
                }
                open.extend(guard.needs.iter().map(|need| (need.field, need.time, true)));
                // Older guards of the same bytes hold it back, too.
                let bytes = guard.olds.iter().map(|old| Field {
                    block: field.block,
                    at: old.span.from,
                    length: old.span.to - old.span.from,
                });
                open.extend(bytes.map(|field| (field, guard.serial - 1, false)));
            }
            if is_need && !held {
                front.insert(field.block);
            }
        }
        front
    }

    /// The same for all changes that were made by `mark`.
    pub fn next_writes_by(&self, mark: u64) -> BTreeSet<BlockNo> {
        let mut fields = Vec::new();
        for (&block, hung) in &self.blocks {
            for guard in hung.guards.iter().filter(|guard| guard.since <= mark) {
                let field = |old: &super::Old| Field {
                    block,
                    at: old.span.from,
                    length: old.span.to - old.span.from,
                };
                fields.extend(guard.olds.iter().map(field));
            }
        }
        self.next_writes(&fields)
    }

    /// True if a change of these fields that was made by `mark` is kept from the disk.
    pub fn keeps_back(&self, fields: &[Field], mark: u64) -> bool {
        fields.iter().any(|&field| {
            let hung = self.blocks.get(&field.block);
            hung.is_some_and(|hung| {
                let span = Span::of(field);
                hung.guards.iter().any(|guard| guard.since <= mark && guard.overlaps(span))
            })
        })
    }

    /// True if any change that was made by `mark` is kept from the disk.
    pub fn keeps_any_back(&self, mark: u64) -> bool {
        self.oldest.first().is_some_and(|&(since, _)| since <= mark)
    }
}
