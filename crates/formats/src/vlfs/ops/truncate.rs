//! `truncate`: another size, in one step whatever the sizes.

use super::attr::content_changed;
use crate::vlfs::inodes;
use crate::vlfs::ondisk::{MOST_FILE_BYTES, ObjectNr, block_of, blocks_for, content_from};
use crate::vlfs::volume::Volume;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Changes the size of a file. What it gives up is cut; the rest of the last block becomes zeros,
/// so that nothing lies behind an end.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; those of [`Tx::page`].
pub fn truncate(
    tx: &mut dyn Tx,
    vol: &Volume,
    who: Credentials,
    ino: Ino,
    size: u64,
) -> Result<(), Stop> {
    let (object, mut inode) = inodes::file(tx, vol, ino)?;
    if size > MOST_FILE_BYTES {
        return Err(Errno::FBig.into());
    }
    if size < inode.size {
        clear_end(tx, object, size)?;
        if blocks_for(size) < blocks_for(inode.size) {
            tx.cut(content_from(object, blocks_for(size)));
        }
    }
    inode.size = size;
    content_changed(tx, &mut inode, who);
    inodes::put(tx, object, &inode)?;
    tx.writes_at_once(inodes::field(object));
    Ok(())
}

/// Makes the bytes behind a new end zeros, in the block of its last byte.
fn clear_end(tx: &mut dyn Tx, object: ObjectNr, size: u64) -> Result<(), Stop> {
    let within = (size % BLOCK_BYTES as u64) as usize;
    if within == 0 {
        return Ok(());
    }
    let block = block_of(object, size / BLOCK_BYTES as u64);
    let page = tx.page(block, PageKind::Data)?;
    let Some(last) = page[within..].iter().rposition(|&byte| byte != 0) else { return Ok(()) };
    tx.set(block, within, &vec![0; last + 1]);
    tx.belongs(block, Ino::from(object));
    Ok(())
}
