//! Read-ahead: the second of two sequential reads of an open file starts it, and the window doubles
//! from one block to the most that the mount allows.

use super::Mounted;
use super::pending::{Pending, Work};
use super::personality::Personality;
use crate::call::Request;
use crate::core::tx::CoreTx;
use crate::system::FsCx;

impl<P: Personality> Mounted<P> {
    /// Reads what the next calls on this handle will want, if this call was a sequential read.
    pub(crate) fn read_further(&mut self, pending: &Pending<P::Mark>, cx: &mut FsCx<'_, '_>) {
        let Work::Request(Request::Read { handle, at, length }) = pending.work else { return };
        let block_bytes = self.core.shape.block_bytes as u64;
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
        let mut tx = CoreTx::new(&mut self.core, 0);
        let wanted = self.format.mapped(&mut tx, ino, from..to);
        tx.undo();
        self.core.read_ahead(&wanted, cx.below);
    }
}
