//! What FFS puts off until bytes are on the disk, and how a policy carries it.

use seekless_fs::log::Space;
use seekless_fs::tx::Deferred;

/// A piece of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Fragments of one block.
    Fragments {
        /// The first one.
        at: u32,
        /// How many.
        count: u32,
    },
    /// An inode.
    Inode {
        /// Its number.
        ino: u32,
        /// It was one of a directory.
        directory: bool,
    },
    /// The change that made a directory longer, or moved its tail.
    Body {
        /// The inode of the directory.
        dir: u32,
    },
    /// The old name of a directory that has moved.
    Name {
        /// The inode of the directory.
        dir: u32,
    },
    /// Nothing but the knowledge that a removed name may still be on the disk.
    Departure {
        /// The inode of the directory.
        dir: u32,
        /// The hash of the name.
        hash: u32,
        /// The number that the volume has given it.
        serial: u32,
    },
    /// Nothing but the knowledge that a new name of a directory is not on the disk yet.
    Arrival {
        /// The inode of the directory.
        dir: u32,
    },
}

/// The first numbers are those of records of a log (`SPEC.md`): the space, its first number, and
/// how many.
impl From<Piece> for Deferred {
    fn from(piece: Piece) -> Deferred {
        Deferred(match piece {
            Piece::Fragments { at, count } => [0, at, count, 0],
            Piece::Inode { ino, directory: false } => [1, ino, 1, 0],
            Piece::Inode { ino, directory: true } => [2, ino, 1, 0],
            Piece::Body { dir } => [3, dir, 0, 0],
            Piece::Name { dir } => [4, dir, 0, 0],
            Piece::Departure { dir, hash, serial } => [5, dir, hash, serial],
            Piece::Arrival { dir } => [6, dir, 0, 0],
        })
    }
}

impl From<Deferred> for Piece {
    /// # Panics
    /// If it was not made of a piece.
    fn from(deferred: Deferred) -> Piece {
        match deferred.0 {
            [0, at, count, 0] => Piece::Fragments { at, count },
            [1, ino, 1, 0] => Piece::Inode { ino, directory: false },
            [2, ino, 1, 0] => Piece::Inode { ino, directory: true },
            [3, dir, 0, 0] => Piece::Body { dir },
            [4, dir, 0, 0] => Piece::Name { dir },
            [5, dir, hash, serial] => Piece::Departure { dir, hash, serial },
            [6, dir, 0, 0] => Piece::Arrival { dir },
            other => unreachable!("a policy gives back what it was given, not {other:?}"),
        }
    }
}

impl Piece {
    /// The piece of a record of a log.
    pub fn of_space((what, first, count): Space) -> Piece {
        Deferred([u32::from(what), first, u32::from(count), 0]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_back_as_it_was() {
        for piece in [
            Piece::Fragments { at: u32::MAX, count: 8 },
            Piece::Inode { ino: 7, directory: true },
            Piece::Inode { ino: 7, directory: false },
            Piece::Body { dir: 7 },
            Piece::Name { dir: 7 },
            Piece::Departure { dir: 7, hash: u32::MAX, serial: 9 },
            Piece::Arrival { dir: 7 },
        ] {
            assert_eq!(Piece::from(Deferred::from(piece)), piece);
        }
    }
}
