//! Transactions of the volume, under a policy that writes metadata in them.
//!
//! The policy says which sectors go together. The transaction is sent when each of their blocks is
//! whole in the cache and none is being written: the volume has one request for a block at a time.
//! It is a write of all these blocks, so they are clean when it has gone out, and what changes
//! meanwhile belongs to the next one.

use super::page::{ENGINE_BYTES, ENGINE_SECTORS, Mask, each, engine_mask};
use super::{Core, Ordering, Sent};
use crate::policy::guard::Manifest;
use crate::policy::{Carried, VolumeTransaction};
use crate::tx::BlockNo;
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::transaction::Transaction;

/// All sectors of the blocks of the volume that these sectors lie in.
pub(crate) fn whole_blocks(sectors: Mask) -> Mask {
    each(sectors).fold(0, |all, sector| all | engine_mask(sector / ENGINE_SECTORS))
}

impl Core {
    /// Sends the next transaction, if the policy has one and its blocks can be written.
    pub(crate) fn push_transaction(&mut self, below: &mut Below<'_>) {
        let Some(mut all) = self.policy.next_transaction() else { return };
        for (_, carried) in &mut all.blocks {
            if let Carried::Sectors(sectors) = carried {
                *sectors = whole_blocks(*sectors);
            }
        }
        if all.blocks.iter().fold(true, |ready, (block, carried)| {
            // Each of them is asked: what is missing is read at once.
            self.can_be_sent(*block, carried, below) && ready
        }) {
            self.send_transaction(&all, below);
        }
    }

    /// True if what a transaction carries of a block is in the cache and can be written. Reads what
    /// is missing.
    fn can_be_sent(&mut self, block: BlockNo, carried: &Carried, below: &mut Below<'_>) -> bool {
        let slot = self.cache.find(block).expect("what is dirty is in the cache");
        let buffer = self.cache.get_mut(slot);
        let is_whole = match carried {
            Carried::Sectors(sectors) => sectors & !buffer.valid == 0,
            Carried::Bytes(_) => true,
        };
        let can = is_whole && buffer.writing.is_none();
        if !is_whole && buffer.writing.is_none() {
            // What is missing and cannot be read fails the file system.
            buffer.again = true;
            if !buffer.reading {
                let kind = buffer.kind;
                self.read_rest(block, kind, below);
            }
        }
        can
    }

    fn send_transaction(&mut self, all: &VolumeTransaction, below: &mut Below<'_>) {
        let per_block = self.shape.engine_per_block();
        let (mut transaction, mut manifest) = (Transaction::new(), Manifest::default());
        for cut in &all.cuts {
            transaction.cut(cut.start * per_block..cut.end * per_block);
        }
        for (block, carried) in &all.blocks {
            let slot = self.cache.find(*block).expect("it can be sent");
            match carried {
                Carried::Sectors(sectors) => {
                    let (image, brings) = self.image(slot, *sectors);
                    manifest.append(brings);
                    let indices = 0..per_block as usize;
                    for index in indices.filter(|&index| sectors & engine_mask(index) != 0) {
                        let bytes = image.share(index * ENGINE_BYTES, (index + 1) * ENGINE_BYTES);
                        transaction.write(block * per_block + index as u64, &Data::bytes(bytes));
                    }
                }
                Carried::Bytes(ranges) => {
                    let sectors = self.cache.get(slot).dirty;
                    let (image, brings) = self.image(slot, sectors);
                    manifest.append(brings);
                    for range in ranges.iter().map(|one| usize::from(one.start)..one.end.into()) {
                        let (index, at) = (range.start / ENGINE_BYTES, range.start % ENGINE_BYTES);
                        let bytes = &image.bytes()[range];
                        debug_assert!(at + bytes.len() <= ENGINE_BYTES, "a block of the volume");
                        transaction.patch(block * per_block + index as u64, at, bytes);
                    }
                }
            }
        }
        let blocks = all.blocks.iter().map(|one| one.0).collect();
        let number = self.policy.transaction_sent();
        let count = transaction.blocks();
        self.output.writes += 1;
        self.stats.log_writes += 1;
        self.stats.log_sectors += count * ENGINE_SECTORS as u64;
        let tag = self.sent.insert(Sent::Transaction { number, blocks, manifest });
        let fua = self.options.ordering != Ordering::Trusted;
        let sent = below.submit_transaction(0, tag, transaction, fua);
        sent.expect("the policy keeps to what the volume takes");
    }
}
