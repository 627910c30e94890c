//! Buffers for reading and for direct I/O: aligned to blocks, reused instead of freed.

use bytes::Bytes;
use seekless_engine::units::BLOCK_BYTES;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One block, aligned as direct I/O requires.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES]);

/// Size classes are powers of two: up to 2¹³ blocks, the largest request.
const CLASSES: usize = 14;
/// Most bytes that each class keeps for reuse.
const KEPT_BYTES: usize = 4 << 20;

type Shelves = [Vec<Vec<Page>>; CLASSES];

/// A stock of buffers. Clones share it.
#[derive(Clone)]
pub struct Pool(Arc<Mutex<Shelves>>);

impl Default for Pool {
    fn default() -> Pool {
        Pool(Arc::new(Mutex::new(std::array::from_fn(|_| Vec::new()))))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept: usize = self.shelves().iter().map(Vec::len).sum();
        write!(f, "Pool({kept} kept)")
    }
}

impl Pool {
    /// A buffer of `bytes` bytes, a whole number of blocks of them, with arbitrary content.
    ///
    /// # Panics
    /// If `bytes` is not a whole number of blocks.
    pub fn take(&self, bytes: usize) -> Buffer {
        assert!(bytes.is_multiple_of(BLOCK_BYTES), "{bytes} bytes are not whole blocks");
        let blocks = bytes / BLOCK_BYTES;
        let class = class_of(blocks);
        let kept = match class {
            Some(class) => self.shelves()[class].pop(),
            None => None,
        };
        let capacity = class.map_or(blocks, |class| 1 << class);
        let pages = kept.unwrap_or_else(|| vec![Page([0; BLOCK_BYTES]); capacity]);
        Buffer { pages, bytes, pool: self.clone() }
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // No code panics while it holds the lock, so the stock is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn class_of(blocks: usize) -> Option<usize> {
    let class = blocks.next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

/// A buffer that returns to its stock when dropped.
pub struct Buffer {
    pages: Vec<Page>,
    bytes: usize,
    pool: Pool,
}

impl Buffer {
    /// The content as shared bytes; the memory returns to the stock with the last of them.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// The content, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pages are one allocation of `pages.len() * BLOCK_BYTES` initialised bytes
        // without padding (`repr(C)`, size equals alignment), `bytes` is at most that, and the
        // exclusive borrow of `self` covers them.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), self.bytes) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`, with a shared borrow.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.bytes) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        let Some(class) = class_of(pages.len()).filter(|class| 1 << class == pages.len()) else {
            return;
        };
        let shelf = &mut self.pool.shelves()[class];
        if shelf.len() < (KEPT_BYTES / (pages.len() * BLOCK_BYTES)).max(1) {
            shelf.push(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_reused_and_kept_within_bounds() {
        let pool = Pool::default();
        let mut first = pool.take(3 * BLOCK_BYTES);
        first.bytes_mut().fill(7);
        let address = first.as_ref().as_ptr() as usize;
        assert_eq!(address % BLOCK_BYTES, 0);
        let bytes = first.freeze();
        let part = bytes.slice(5..9);
        drop(bytes);
        assert_eq!(part, [7; 4].as_slice());
        assert_ne!(pool.take(4 * BLOCK_BYTES).as_ref().as_ptr() as usize, address);
        drop(part);
        let again = [pool.take(4 * BLOCK_BYTES), pool.take(4 * BLOCK_BYTES)];
        assert!(again.iter().any(|buffer| buffer.as_ref().as_ptr() as usize == address));
        let many: Vec<Buffer> = (0..2000).map(|_| pool.take(BLOCK_BYTES)).collect();
        drop(many);
        assert_eq!(pool.shelves()[0].len(), KEPT_BYTES / BLOCK_BYTES);
    }

    #[test]
    fn odd_sizes_work() {
        let pool = Pool::default();
        assert_eq!(pool.take(0).as_ref().len(), 0);
        let huge = (1 << CLASSES) * BLOCK_BYTES;
        assert_eq!(pool.take(huge).as_ref().len(), huge);
    }
}
