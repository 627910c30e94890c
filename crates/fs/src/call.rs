//! The vocabulary of calls and replies, the same for FUSE, programs in virtual time and tools.
//!
//! A call names objects by inode number, as the low level of FUSE does. Names are bytes without a
//! slash or a zero byte, 1 to 255 of them; the maker of a call has checked that.

use bytes::Bytes;

/// Number of an inode. The root of every file system is [`ROOT`].
pub type Ino = u64;

/// The root directory.
pub const ROOT: Ino = 2;

/// Bytes of a name at most.
pub const MOST_NAME: usize = 255;

/// True if a name is possible: not empty, without a slash or a zero byte.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}
/// Bytes of the text of a symbolic link at most.
pub const MOST_SYMLINK: usize = 4095;

/// Names a call for its maker; unique among the calls in flight.
pub type CallId = u64;

/// An open file or directory.
pub type Handle = u64;

/// Marks handles by inode.
const BY_INODE: Handle = 1 << 63;

/// A handle that needs no [`Request::Open`]: the object is open while its lookup count is not zero,
/// the root always. It cannot be released.
pub fn by_inode(ino: Ino) -> Handle {
    debug_assert!(ino < BY_INODE, "inode {ino} leaves no bit for the mark");
    ino | BY_INODE
}

/// The inode of a handle that [`by_inode`] made.
pub fn inode_of(handle: Handle) -> Option<Ino> {
    (handle & BY_INODE != 0).then_some(handle & !BY_INODE)
}

/// Nanoseconds since the epoch. Negative before it.
pub type Timestamp = i64;

/// Who makes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// What [`Request::Make`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its text.
    Symlink(Bytes),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device with its number.
    CharDevice(u32),
    /// A block device with its number.
    BlockDevice(u32),
}

impl Request {
    /// True if a call that succeeds changes the file system.
    pub fn is_change(&self) -> bool {
        match self {
            Request::SetAttr { .. }
            | Request::Make { .. }
            | Request::Link { .. }
            | Request::Unlink { .. }
            | Request::RmDir { .. }
            | Request::Rename { .. }
            | Request::Write { .. }
            | Request::Allocate { .. }
            | Request::Trim { .. } => true,
            Request::Open { truncate, .. } => *truncate,
            _ => false,
        }
    }
}

impl New {
    /// The kind of what is made.
    pub fn kind(&self) -> FileKind {
        match self {
            New::File => FileKind::File,
            New::Directory => FileKind::Directory,
            New::Symlink(_) => FileKind::Symlink,
            New::Fifo => FileKind::Fifo,
            New::Socket => FileKind::Socket,
            New::CharDevice(_) => FileKind::CharDevice,
            New::BlockDevice(_) => FileKind::BlockDevice,
        }
    }
}

/// What becomes of the target of a rename.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameHow {
    /// It is replaced, as by `rename`.
    #[default]
    Replace,
    /// It must not exist (`RENAME_NOREPLACE`).
    NoReplace,
    /// It changes places with the source (`RENAME_EXCHANGE`).
    Exchange,
}

/// What [`Request::Allocate`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocateHow {
    /// Allocates blocks; the file grows to the end of the range.
    Extend,
    /// Allocates blocks; the size stays (`FALLOC_FL_KEEP_SIZE`).
    KeepSize,
    /// Makes a hole; the size stays (`FALLOC_FL_PUNCH_HOLE`).
    Punch,
    /// Makes the range read as zeros (`FALLOC_FL_ZERO_RANGE`); with the size kept if it is true.
    Zero {
        /// `FALLOC_FL_KEEP_SIZE` is given, too.
        keep_size: bool,
    },
}

/// What [`Request::Seek`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekWhat {
    /// The next byte at or behind the place that is not in a hole.
    Data,
    /// The next byte at or behind the place that is in a hole; the end counts as one.
    Hole,
}

/// Attributes to be set; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits, with set-user-id, set-group-id and sticky (07777).
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<Timestamp>,
    /// Time of the last change of content.
    pub mtime: Option<Timestamp>,
    /// The file is open through this handle: its rights count, not those of now.
    pub handle: Option<Handle>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Chosen by its maker; the reply carries it.
    pub id: CallId,
    /// Who makes it.
    pub who: Credentials,
    /// The time of the call, for timestamps.
    pub now: Timestamp,
    /// What is wanted.
    pub request: Request,
}

/// What a call wants. Permissions are checked above, by the kernel or the maker of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are named by what they are.
pub enum Request {
    /// The object of a name; raises its lookup count.
    Lookup { dir: Ino, name: Bytes },
    /// Lowers a lookup count. There is no reply.
    Forget { ino: Ino, count: u64 },
    /// The attributes of an object.
    Attr { ino: Ino },
    /// Changes attributes.
    SetAttr { ino: Ino, set: SetAttr },
    /// The text of a symbolic link.
    ReadLink { ino: Ino },
    /// Makes an object; raises its lookup count; with `open`, a file is open afterwards.
    Make { dir: Ino, name: Bytes, what: New, mode: u16, open: bool },
    /// Another name for a file; raises its lookup count.
    Link { ino: Ino, dir: Ino, name: Bytes },
    /// Removes a name of an object that is no directory.
    Unlink { dir: Ino, name: Bytes },
    /// Removes an empty directory.
    RmDir { dir: Ino, name: Bytes },
    /// Renames an object.
    Rename { dir: Ino, name: Bytes, to_dir: Ino, to_name: Bytes, how: RenameHow },
    /// Opens a file or directory.
    Open { ino: Ino, truncate: bool },
    /// Closes it. An object without names, handles and lookups goes.
    Release { handle: Handle },
    /// Reads; short at the end of the file.
    Read { handle: Handle, at: u64, length: u32 },
    /// Writes, behind the end if that is asked for; holes arise where nothing was written.
    Write { handle: Handle, at: u64, data: Bytes, append: bool },
    /// Entries of a directory from a cookie on, as many as fit; 0 begins.
    List { handle: Handle, cookie: u64, most_bytes: u32 },
    /// Makes a file durable: content and size, and a path to it; with `data_only` no times.
    Fsync { ino: Ino, data_only: bool },
    /// Makes everything durable.
    Sync,
    /// Sizes and counts of the file system.
    Space,
    /// Allocates blocks of a file, or frees them.
    Allocate { handle: Handle, at: u64, length: u64, how: AllocateHow },
    /// Gives free space between two bytes of the volume back to it, in runs of at least so many
    /// bytes. Only space that no state after a power cut uses; other calls wait meanwhile.
    Trim { from: u64, to: u64, least: u64 },
    /// Looks for data or a hole.
    Seek { handle: Handle, at: u64, what: SeekWhat },
}

/// The attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Tells objects apart that had the same number one after the other.
    pub generation: u32,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits (07777).
    pub mode: u16,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space in units of 512 bytes, with indirect blocks.
    pub sectors: u64,
    /// Device number, of device files.
    pub device: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The object.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Its name.
    pub name: Bytes,
    /// Where a later [`Request::List`] goes on behind this entry.
    pub cookie: u64,
}

/// Sizes and counts of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a fragment: the unit of the counts.
    pub fragment_bytes: u32,
    /// Fragments for data and indirect blocks.
    pub fragments: u64,
    /// Free fragments.
    pub free: u64,
    /// Free fragments that users other than root may have.
    pub available: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Bytes of a name at most.
    pub name_bytes: u32,
}

/// What a call that succeeded brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing but success.
    Done,
    /// An object: for lookup, make, link; with a handle for a file that was made open.
    Object(Attr, Option<Handle>),
    /// Attributes.
    Attr(Attr),
    /// The text of a symbolic link.
    Text(Bytes),
    /// An open file or directory.
    Opened(Handle),
    /// Bytes read.
    Bytes(Bytes),
    /// Number of bytes written.
    Written(u32),
    /// Entries; none at the end of the directory.
    Entries(Vec<DirEntry>),
    /// Sizes and counts.
    Space(Space),
    /// A place in a file.
    At(u64),
    /// Number of bytes given back.
    Trimmed(u64),
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// That of the call.
    pub id: CallId,
    /// What it brings, or why it failed. A call that fails has changed nothing.
    pub result: Result<Answer, Errno>,
}

/// Why a call failed. The discriminants are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(i32)]
#[allow(missing_docs)] // The messages say what they mean.
pub enum Errno {
    #[error("operation not permitted")]
    Perm = 1,
    #[error("no such file or directory")]
    NoEnt = 2,
    #[error("input/output error")]
    Io = 5,
    #[error("no such device or address")]
    NxIo = 6,
    #[error("bad file descriptor")]
    BadF = 9,
    #[error("permission denied")]
    Access = 13,
    #[error("file exists")]
    Exist = 17,
    #[error("not a directory")]
    NotDir = 20,
    #[error("is a directory")]
    IsDir = 21,
    #[error("invalid argument")]
    Inval = 22,
    #[error("file too large")]
    FBig = 27,
    #[error("no space left on device")]
    NoSpc = 28,
    #[error("read-only file system")]
    RoFs = 30,
    #[error("too many links")]
    MLink = 31,
    #[error("file name too long")]
    NameTooLong = 36,
    #[error("directory not empty")]
    NotEmpty = 39,
    #[error("operation not supported")]
    NotSup = 95,
    #[error("stale file handle")]
    Stale = 116,
}

impl Errno {
    /// The number that Linux gives it.
    pub fn number(self) -> i32 {
        self as i32
    }
}
