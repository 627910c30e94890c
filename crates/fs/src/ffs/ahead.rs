//! Read-ahead: the second of two sequential reads of an open file starts it, and the window doubles
//! from one block to the most that the mount allows.

use crate::call::{Ino, Request};
use crate::core::tx::CoreTx;
use crate::ffs::flow::{Pending, Work};
use crate::ffs::system::Ffs;
use crate::ffs::{inodes, map};
use crate::system::FsCx;
use crate::tx::{BlockNo, PageKind, Stop};
use std::ops::Range;

impl Ffs {
    /// Reads what the next calls on this handle will want, if this call was a sequential read.
    pub(crate) fn read_further(&mut self, pending: &Pending, cx: &mut FsCx<'_, '_>) {
        let Work::Request(Request::Read { handle, at, length }) = pending.work else { return };
        let block_bytes = self.volume.geometry.block_bytes() as u64;
        let most = self.core.options().read_ahead_bytes;
        let Some(open) = self.handles.get_mut(handle) else { return };
        let is_sequential = at == open.next_read && at > 0;
        open.next_read = at + u64::from(length);
        if !is_sequential || most == 0 {
            (open.window, open.ahead) = (0, 0);
            return;
        }
        open.window = (open.window * 2).clamp(block_bytes as u32, most.max(block_bytes as u32));
        let from = open.ahead.max(open.next_read).div_ceil(block_bytes);
        let to = (open.next_read + u64::from(open.window)).div_ceil(block_bytes);
        // One large read now and then costs less than a small one with every call.
        let enough = open.ahead > open.next_read + u64::from(open.window) / 2;
        if from >= to || enough {
            return;
        }
        open.ahead = to * block_bytes;
        let ino = open.ino;
        let wanted = self.mapped(ino, from..to);
        self.core.read_ahead(&wanted, cx.below);
    }

    /// The blocks of the volume behind some blocks of a file, as far as the cache knows them.
    fn mapped(&mut self, ino: Ino, blocks: Range<u64>) -> Vec<(BlockNo, PageKind)> {
        let mut wanted = Vec::new();
        let geometry = self.volume.geometry.clone();
        let mut tx = CoreTx::new(&mut self.core, 0);
        let mut look = || -> Result<(), Stop> {
            let inode = inodes::file(&mut tx, &self.volume, ino)?;
            let end = inode.size.div_ceil(geometry.block_bytes() as u64);
            for index in blocks.start..blocks.end.min(end) {
                let at = map::address(&mut tx, &self.volume, &inode, index)?;
                if at != 0 {
                    wanted.push((geometry.block_of(at), PageKind::Data));
                }
            }
            Ok(())
        };
        // A block that is missing here ends the search: reading ahead is no reason to wait.
        let _ = look();
        tx.undo();
        wanted
    }
}
