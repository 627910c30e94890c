//! Making a file system: a superblock and a root directory, in one transaction. What another one
//! has left is cut.

use crate::error::FsError;
use crate::options::MkfsOptions;
use crate::vlfs::numbers::own_of;
use crate::vlfs::ondisk::attributes::{Inode, mode_of};
use crate::vlfs::ondisk::slice::Slice;
use crate::vlfs::ondisk::superblock::{LABEL_BYTES, Superblock, has_objects};
use crate::vlfs::ondisk::{ROOT_OBJECT, all_of, attributes_of, block_of, next_slice};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::objects::{SLICE_OBJECTS, WITHIN_BITS};
use seekless_engine::transaction::Transaction;
use seekless_fs::call::FileKind;
use seekless_fs::fields::put;
use seekless_fs::policy::PolicyKind;

/// What this mkfs makes unless it is told otherwise.
pub fn defaults() -> MkfsOptions {
    MkfsOptions { block: 4096, fragment: 4096, minfree: 0, ..MkfsOptions::default() }
}

fn bad<T>(why: impl Into<String>) -> Result<T, FsError> {
    Err(FsError::BadOption(why.into()))
}

/// Refuses what the format has no place for.
fn refuse(options: &MkfsOptions) -> Result<(), FsError> {
    let usual = defaults();
    if options.block != usual.block || options.fragment != usual.fragment {
        return bad("VLFS has blocks of 4096 bytes; leave out --block and --fragment");
    }
    if options.inodes.is_some() || options.bytes_per_inode != usual.bytes_per_inode {
        return bad("VLFS makes inodes as they are needed; leave out --inodes");
    }
    if options.minfree != 0 {
        return bad("VLFS keeps no space for root; leave out --minfree");
    }
    if options.label.len() > LABEL_BYTES {
        let most = LABEL_BYTES;
        return bad(format!("the label has {} bytes, of {most} at most", options.label.len()));
    }
    if options.policy != PolicyKind::Async {
        let policy = options.policy.name();
        return bad(format!("VLFS has no place for a policy; mount with --policy {policy}"));
    }
    if options.journal.is_some() || options.journal_blocks.is_some() {
        return bad("VLFS has no log; leave out --journal and --journal-size");
    }
    if options.group.is_some() {
        return bad("VLFS has no groups");
    }
    Ok(())
}

/// Makes a file system on a volume of objects, and says in a line what was made.
///
/// # Errors
/// [`FsError::BadOption`] for what the format has no place for, and on a volume without objects;
/// errors of the volume.
pub fn mkfs(disk: &mut dyn Disk, options: &MkfsOptions) -> Result<String, FsError> {
    refuse(options)?;
    if !has_objects(disk) {
        return bad("VLFS needs a volume of `--layout vlfs`");
    }
    let objects = disk.blocks() >> WITHIN_BITS;
    empty(disk)?;
    let mut label = [0; LABEL_BYTES];
    put(&mut label, 0, &options.label);
    let superblock = Superblock { id: options.id, made: options.now, label };
    let root = Inode {
        mode: mode_of(FileKind::Directory, 0o755),
        links: 2,
        uid: options.uid,
        gid: options.gid,
        atime: options.now,
        mtime: options.now,
        ctime: options.now,
        btime: options.now,
        generation: 1,
        parent: ROOT_OBJECT,
        ..Inode::default()
    };
    let first = Slice { generation: 1, used: 0b111, unnamed: 0 };
    let mut all = Transaction::new();
    all.write(block_of(0, 0), &Data::bytes(superblock.encode().into()));
    all.patch(attributes_of(own_of(0)), 0, &first.encode());
    all.patch(attributes_of(ROOT_OBJECT), 0, &root.encode());
    disk.transact(all)?;
    Ok(format!("VLFS for up to {objects} objects"))
}

/// Cuts all objects of which there is something.
fn empty(disk: &mut dyn Disk) -> Result<(), FsError> {
    let mut from = 0;
    while let Some(slice) = next_slice(disk, from) {
        from = slice + 1;
        for object in own_of(slice)..own_of(slice) + SLICE_OBJECTS {
            let mut all = Transaction::new();
            all.cut(all_of(object));
            disk.transact(all)?;
        }
    }
    Ok(())
}
