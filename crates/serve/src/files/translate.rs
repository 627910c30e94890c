//! Between the words of the kernel and those of file systems: numbers, attributes, times, modes.
//!
//! The kernel calls the root 1, file systems call it 2 and have no object 1; so the two numbers
//! change places. Everything else keeps its number.

use fuser::{FileAttr, FileType, Generation, INodeNo, RenameFlags, TimeOrNow};
use seekless_fs::call::{
    AllocateHow, Attr, Errno, FileKind, Ino, New, ROOT, RenameHow, SeekWhat, Timestamp,
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permission bits, with set-user-id, set-group-id and sticky.
const PERMISSIONS: u32 = 0o7777;
/// The size of reads and writes that programs are advised to use.
const ADVISED_BYTES: u32 = 8192;

/// The number of an object of the kernel.
pub(super) fn ino(number: INodeNo) -> Ino {
    swap(number.0)
}

/// The kernel's number of an object.
pub(super) fn number(ino: Ino) -> INodeNo {
    INodeNo(swap(ino))
}

fn swap(number: u64) -> u64 {
    match number {
        1 => ROOT,
        ROOT => 1,
        other => other,
    }
}

/// Why a call failed, for the kernel.
pub(super) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.number())
}

/// The time of a clock.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let clamp = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

/// A time that the kernel gives, or that of the call.
///
/// Before the epoch the kernel counts nanoseconds forwards from a negative second, but `fuser` 0.18
/// counts them backwards.
pub(super) fn given_time(time: TimeOrNow, now: Timestamp) -> Timestamp {
    let TimeOrNow::SpecificTime(time) = time else { return now };
    match time.duration_since(UNIX_EPOCH) {
        Ok(_) => timestamp(time),
        Err(before) => {
            let forwards = i64::from(before.duration().subsec_nanos());
            timestamp(time).saturating_add(2 * forwards)
        }
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    let span = Duration::from_nanos(at.unsigned_abs());
    if at < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}

/// The kind of an object, for the kernel.
pub(super) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// Attributes, for the kernel.
pub(super) fn attributes(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: number(attr.ino),
        size: attr.size,
        blocks: attr.sectors,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: kind(attr.kind),
        perm: attr.mode,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.device,
        blksize: ADVISED_BYTES,
        flags: 0,
    }
}

/// The attributes of an entry of which the kernel wants the number and the kind only.
pub(super) fn bare_attributes(ino: Ino, what: FileKind) -> FileAttr {
    FileAttr {
        ino: number(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: kind(what),
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: ADVISED_BYTES,
        flags: 0,
    }
}

/// The generation of an object, for the kernel.
pub(super) fn generation(attr: &Attr) -> Generation {
    Generation(u64::from(attr.generation))
}

/// The permission bits of a mode.
pub(super) fn permissions(mode: u32) -> u16 {
    (mode & PERMISSIONS) as u16
}

/// What `mknod` makes.
pub(super) fn special(mode: u32, device: u32) -> Result<New, Errno> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(New::File),
        libc::S_IFIFO => Ok(New::Fifo),
        libc::S_IFSOCK => Ok(New::Socket),
        libc::S_IFCHR => Ok(New::CharDevice(device)),
        libc::S_IFBLK => Ok(New::BlockDevice(device)),
        _ => Err(Errno::Inval),
    }
}

/// What becomes of the target of a rename.
pub(super) fn rename_how(flags: RenameFlags) -> Result<RenameHow, Errno> {
    if flags.is_empty() {
        Ok(RenameHow::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameHow::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameHow::Exchange)
    } else {
        Err(Errno::Inval)
    }
}

/// What `fallocate` does.
pub(super) fn allocate_how(mode: i32) -> Result<AllocateHow, Errno> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: i32 = ZERO | KEEP;
    match mode {
        0 => Ok(AllocateHow::Extend),
        KEEP => Ok(AllocateHow::KeepSize),
        PUNCH => Ok(AllocateHow::Punch),
        ZERO => Ok(AllocateHow::Zero { keep_size: false }),
        ZERO_KEEP => Ok(AllocateHow::Zero { keep_size: true }),
        _ => Err(Errno::NotSup),
    }
}

/// What `lseek` looks for. The kernel answers all other requests by itself.
pub(super) fn seek_what(whence: i32) -> Result<SeekWhat, Errno> {
    match whence {
        libc::SEEK_DATA => Ok(SeekWhat::Data),
        libc::SEEK_HOLE => Ok(SeekWhat::Hole),
        _ => Err(Errno::Inval),
    }
}

/// Three words as a structure of the kernel has them.
pub(super) fn words(words: [u64; 3]) -> [u8; 24] {
    let mut out = [0; 24];
    for (at, word) in out.chunks_exact_mut(8).zip(words) {
        // An ioctl is between programs of one machine.
        #[expect(clippy::host_endian_bytes, reason = "the kernel has them so")]
        at.copy_from_slice(&word.to_ne_bytes());
    }
    out
}

/// The same the other way round; `None` of anything but 24 bytes.
pub(super) fn three_words(bytes: &[u8]) -> Option<[u64; 3]> {
    let bytes: &[u8; 24] = bytes.try_into().ok()?;
    let mut out = [0; 3];
    for (word, at) in out.iter_mut().zip(bytes.chunks_exact(8)) {
        #[expect(clippy::host_endian_bytes, reason = "the kernel has them so")]
        let number = u64::from_ne_bytes(at.try_into().ok()?);
        *word = number;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_are_one_object_and_no_other_is() {
        assert_eq!(ino(INodeNo::ROOT), ROOT);
        assert_eq!(number(ROOT), INodeNo::ROOT);
        for other in [1, 2, 3, u64::from(u32::MAX)] {
            assert_eq!(ino(number(other)), other);
        }
    }

    #[test]
    fn times_survive_both_ways() {
        for at in [0, 1, -1, 1_764_000_000_123_456_789, -86_400_000_000_001] {
            assert_eq!(timestamp(system_time(at)), at);
        }
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        assert_eq!(allocate_how(libc::FALLOC_FL_COLLAPSE_RANGE), Err(Errno::NotSup));
        assert_eq!(rename_how(RenameFlags::RENAME_WHITEOUT), Err(Errno::Inval));
        let both = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        assert_eq!(rename_how(both), Err(Errno::Inval));
        assert_eq!(special(libc::S_IFDIR, 0), Err(Errno::Inval));
        assert_eq!(seek_what(libc::SEEK_CUR), Err(Errno::Inval));
    }
}
