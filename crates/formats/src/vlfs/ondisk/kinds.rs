//! Kinds of objects: four bits, as in the mode of `stat` and as `d_type` of `readdir`.

use seekless_fs::call::FileKind;

/// The number of a kind.
pub fn number(kind: FileKind) -> u8 {
    match kind {
        FileKind::Fifo => 1,
        FileKind::CharDevice => 2,
        FileKind::Directory => 4,
        FileKind::BlockDevice => 6,
        FileKind::File => 8,
        FileKind::Symlink => 10,
        FileKind::Socket => 12,
    }
}

/// The kind of a number.
pub fn kind_of(number: u8) -> Option<FileKind> {
    use FileKind::{BlockDevice, CharDevice, Directory, Fifo, File, Socket, Symlink};
    let all = [Fifo, CharDevice, Directory, BlockDevice, File, Symlink, Socket];
    all.into_iter().find(|&kind| self::number(kind) == number)
}
