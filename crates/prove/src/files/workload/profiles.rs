//! The kinds of workload.

/// What a step of a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Mkdir,
    Symlink,
    Fifo,
    Link,
    Unlink,
    Rmdir,
    Move,
    Within,
    Over,
    MoveDirectory,
    Exchange,
    Write,
    Append,
    Truncate,
    Allocate,
    Punch,
    Chmod,
    Chown,
    Fsync,
    FsyncDirectory,
    Fdatasync,
    Sync,
    Hold,
    Release,
    /// A file that is made, written and removed at once.
    Short,
    /// A directory that all names leave, and that is removed then.
    Vacate,
    /// Names so long that their directory soon grows, new or of another object.
    Crowd,
    /// A file that grows by little and then by much.
    Grow,
    /// A new name where another one has just left.
    Slot,
    /// A file with many indirect blocks, each of which leads to one block.
    Spread,
    /// A file that is made durable, and then changed in some way.
    Synced,
}

/// A kind of workload.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Steps and their weights.
    pub acts: &'static [(Act, u64)],
    /// Steps of a case.
    pub steps: u32,
    /// Names that new objects get.
    pub names: u16,
    /// Directories that are made first.
    pub directories: u16,
    /// Sectors of a write at most.
    pub most_sectors: u64,
    /// Places next to the first indirect block.
    pub far: bool,
    /// Percent of steps after which something is made durable.
    pub syncs: u64,
    /// Percent of steps before which half a minute passes.
    pub rests: u64,
    /// Steps in a thousand before which an epoch ends.
    pub epochs: u64,
    /// Steps in a thousand before which a write or a flush fails.
    pub faults: u64,
    /// Flushes take long.
    pub slow_flushes: bool,
    /// The file system may run out of space.
    pub may_fill: bool,
    /// The sizes of its image, if they are not drawn.
    pub shape: Option<usize>,
}

use Act as X;

const PLAIN: Profile = Profile {
    name: "",
    acts: &[],
    steps: 40,
    names: 12,
    directories: 2,
    most_sectors: 20,
    far: false,
    syncs: 15,
    rests: 3,
    epochs: 15,
    faults: 0,
    slow_flushes: false,
    may_fill: false,
    shape: None,
};

const fn of(name: &'static str, acts: &'static [(Act, u64)]) -> Profile {
    Profile { name, acts, ..PLAIN }
}

const MIXED: &[(Act, u64)] = &[
    (X::Create, 12),
    (X::Mkdir, 5),
    (X::Symlink, 2),
    (X::Fifo, 1),
    (X::Link, 4),
    (X::Unlink, 8),
    (X::Rmdir, 3),
    (X::Move, 5),
    (X::Within, 4),
    (X::Over, 4),
    (X::Exchange, 2),
    (X::Write, 8),
    (X::Append, 10),
    (X::Truncate, 4),
    (X::Allocate, 2),
    (X::Punch, 2),
    (X::Chmod, 2),
    (X::Chown, 1),
];
const BACKGROUND: &[(Act, u64)] = &[
    (X::Create, 10),
    (X::Mkdir, 4),
    (X::Link, 4),
    (X::Unlink, 8),
    (X::Rmdir, 3),
    (X::Move, 5),
    (X::Within, 4),
    (X::Over, 4),
    (X::Write, 8),
    (X::Append, 10),
    (X::Truncate, 4),
    (X::Allocate, 2),
    (X::Punch, 2),
    (X::Chmod, 2),
    (X::Spread, 3),
];
const NAMES: &[(Act, u64)] =
    &[(X::Create, 10), (X::Unlink, 7), (X::Symlink, 2), (X::Append, 3), (X::Within, 3)];
const CONTENT: &[(Act, u64)] = &[
    (X::Create, 4),
    (X::Write, 8),
    (X::Append, 8),
    (X::Truncate, 6),
    (X::Unlink, 2),
    (X::Fdatasync, 2),
];

/// All kinds.
pub const PROFILES: [Profile; 26] = [
    Profile { names: 24, directories: 0, ..of("names in one directory", NAMES) },
    Profile {
        directories: 5,
        ..of(
            "deep trees",
            &[(X::Mkdir, 10), (X::Rmdir, 6), (X::Create, 5), (X::Unlink, 3), (X::Append, 2)],
        )
    },
    of(
        "hard links",
        &[(X::Create, 5), (X::Link, 10), (X::Unlink, 8), (X::Append, 2), (X::Within, 2)],
    ),
    of("renames within", &[(X::Create, 6), (X::Within, 10), (X::Append, 3), (X::Unlink, 2)]),
    of("renames across", &[(X::Create, 6), (X::Move, 10), (X::Mkdir, 2), (X::Append, 2)]),
    of("renames over", &[(X::Create, 8), (X::Over, 10), (X::Append, 6), (X::Unlink, 1)]),
    of(
        "renames of directories",
        &[(X::Mkdir, 8), (X::MoveDirectory, 10), (X::Create, 4), (X::Rmdir, 3), (X::Append, 1)],
    ),
    Profile {
        names: 9,
        syncs: 8,
        ..of(
            "comings and goings",
            &[(X::Mkdir, 5), (X::Create, 4), (X::Vacate, 6), (X::Slot, 8), (X::Append, 1)],
        )
    },
    Profile {
        directories: 3,
        syncs: 6,
        may_fill: true,
        ..of("growth", &[(X::Crowd, 8), (X::Grow, 5), (X::Create, 3), (X::Move, 3), (X::Unlink, 4)])
    },
    of("exchanges", &[(X::Create, 6), (X::Mkdir, 2), (X::Exchange, 10), (X::Append, 3)]),
    of("sizes around fragments and blocks", CONTENT),
    Profile { far: true, most_sectors: 40, ..of("sizes around indirect blocks", CONTENT) },
    of(
        "holes",
        &[(X::Create, 4), (X::Write, 8), (X::Punch, 8), (X::Allocate, 5), (X::Truncate, 4)],
    ),
    Profile {
        may_fill: true,
        most_sectors: 900,
        shape: Some(4),
        steps: 60,
        ..of(
            "full of blocks",
            &[(X::Create, 5), (X::Append, 12), (X::Unlink, 3), (X::Truncate, 2), (X::Write, 2)],
        )
    },
    Profile {
        may_fill: true,
        names: 400,
        shape: Some(4),
        steps: 120,
        syncs: 4,
        ..of("full of inodes", &[(X::Create, 20), (X::Mkdir, 3), (X::Unlink, 3), (X::Symlink, 3)])
    },
    of(
        "open and unlinked",
        &[
            (X::Create, 6),
            (X::Hold, 6),
            (X::Unlink, 6),
            (X::Append, 6),
            (X::Write, 3),
            (X::Fsync, 2),
            (X::Release, 4),
        ],
    ),
    of("short lives", &[(X::Short, 12), (X::Create, 3), (X::Unlink, 2), (X::Within, 2)]),
    Profile {
        syncs: 0,
        ..of(
            "fsync of files",
            &[(X::Create, 5), (X::Append, 6), (X::Fsync, 6), (X::Within, 3), (X::Synced, 6)],
        )
    },
    Profile {
        syncs: 0,
        ..of(
            "fsync of directories",
            &[(X::Create, 8), (X::Mkdir, 3), (X::FsyncDirectory, 8), (X::Move, 4), (X::Unlink, 4)],
        )
    },
    Profile { syncs: 60, slow_flushes: true, ..of("many syncs, slow flushes", MIXED) },
    Profile {
        most_sectors: 700,
        steps: 20,
        far: true,
        may_fill: true,
        ..of("large files", CONTENT)
    },
    Profile { rests: 25, syncs: 5, epochs: 40, ..of("left to the background", BACKGROUND) },
    Profile { epochs: 120, steps: 60, ..of("many epochs", MIXED) },
    Profile { faults: 150, epochs: 120, syncs: 30, ..of("errors", MIXED) },
    of(
        "attributes",
        &[(X::Create, 6), (X::Chmod, 8), (X::Chown, 8), (X::Truncate, 2), (X::Mkdir, 2)],
    ),
    Profile { steps: 80, names: 20, directories: 3, ..of("everything", MIXED) },
];
