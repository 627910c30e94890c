//! Models of file systems as rows of rules.
//!
//! Each rule is a field of [`Model`] with its source. A rule that is too strong hides losses, one
//! that is too weak gives false alarms; `false`, or the smaller of two scopes, is always the weaker
//! choice. Every model has these rules, too, because a directory entry and an inode are one place
//! on the disk each:
//!
//! * a change of a directory entry needs the earlier changes of that entry;
//! * an attribute, and a size that a call sets, need the earlier ones of that file, and the size
//!   that a write brings needs them, too;
//! * a move of a directory to another one needs the earlier moves of directories, so that no
//!   directory comes to lie in itself.
//!
//! ext4 writes new bytes to blocks that count as unwritten (`dioread_nolock`, the usual option
//! since Linux 5.6). The journal commits such blocks with the size, and marks them written in a
//! later transaction, when the bytes are on the disk. `data=ordered` does not wait for these bytes,
//! so a power cut may leave a size, and the file of a rename, with zeros. With `dioread_lock` it
//! waits.
//!
//! ext4 also detects that a file is replaced by truncation and new content (`auto_da_alloc`). That
//! is no rule here: it acts when the file is closed, and a commit of the journal between the
//! truncation and the close leaves the file empty.

use std::fmt;

/// What a sync of a file or directory makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covers {
    /// The object: pages, size and attributes of a file, names in a directory.
    Object,
    /// The object, and the changes of names that give it one.
    ObjectAndNames,
    /// The object, and all changes of metadata before the last change of the object that the sync
    /// makes durable: it commits a journal that holds them in order.
    EarlierMetadata,
}

/// A file system in terms of what a power cut may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// As commands name it.
    pub name: &'static str,
    /// Metadata reaches the disk in the order of the calls: names, sizes that a call sets,
    /// attributes. What a write adds to a size comes later than all metadata before the write.
    ///
    /// ext4: jbd2 commits transactions in order (`Documentation/filesystems/ext4/journal.rst`).
    /// XFS: the log is written in order (`xfs-delayed-logging-design.rst`).
    pub metadata_in_order: bool,
    /// The same, but for what a sync takes: names, sizes and attributes of an object that is synced
    /// later, and what those need, may reach the disk before earlier metadata.
    ///
    /// Btrfs: a transaction holds all metadata before it, and a sync writes its object to a log of
    /// its own (`btrfs_log_inode`). [`Model::metadata_in_order`] implies it.
    pub unsynced_in_order: bool,
    /// A size that a write brings needs the bytes of the page in which it ends.
    ///
    /// XFS updates the size when the page is written (`xfs_end_ioend`), and writes pages in any
    /// order: a sync of a range and `sync_file_range` begin in the middle of a file. ext4 updates
    /// it before (`mpage_map_and_submit_extent`), or at once if the bytes lie in a block that has
    /// some (`ext4_da_do_write_end`). Btrfs writes the size of the whole file with any page
    /// (`btrfs_inode_safe_disk_i_size_write`). Not so for sizes that a call sets: they do not wait
    /// for pages.
    pub size_needs_bytes: bool,
    /// A rename over a file needs the content that the new file had.
    ///
    /// ext4 with `dioread_lock`: `auto_da_alloc`, "the data blocks of the new file are forced to
    /// disk before the rename() operation is committed" (`ext4.rst`). Not for exchanges, nor for
    /// new names.
    pub replace_needs_content: bool,
    /// A rename over a file needs the size that the new file had.
    ///
    /// ext4: `ext4_rename` allocates the blocks of the new file, and so sets its size on the disk,
    /// before it changes names (`ext4_alloc_da_blocks`).
    pub replace_needs_size: bool,
    /// Bytes of a page need what was written to the page before: the page cache writes whole pages.
    ///
    /// Linux, for buffered writes to file systems with blocks of 4 KiB. POSIX does not know pages.
    pub pages_are_whole: bool,
    /// Bytes in pages that a truncation left no part of, and in a range that was made zero, need
    /// that truncation or those zeros: they lie in blocks that are mapped later.
    ///
    /// ext4, XFS: the same journal holds the unmapping and the new mapping, in order.
    pub cut_before_new_bytes: bool,
    /// What a sync of a file makes durable.
    ///
    /// ext4: `ext4_sync_file` commits the transaction of the inode. XFS: `xfs_file_fsync` forces
    /// the log up to the last change of the inode. POSIX: the file.
    pub file_sync: Covers,
    /// What a sync of a directory makes durable: by POSIX its names.
    pub directory_sync: Covers,
}

impl Model {
    /// What POSIX promises, and no more.
    pub const POSIX: Model = Model {
        name: "posix",
        metadata_in_order: false,
        unsynced_in_order: false,
        size_needs_bytes: false,
        replace_needs_content: false,
        replace_needs_size: false,
        pages_are_whole: false,
        cut_before_new_bytes: false,
        file_sync: Covers::Object,
        directory_sync: Covers::Object,
    };

    /// ext4 with its usual options: `data=ordered`, `auto_da_alloc`, `dioread_nolock`, blocks of
    /// 4 KiB.
    pub const EXT4: Model = Model {
        name: "ext4",
        metadata_in_order: true,
        unsynced_in_order: false,
        size_needs_bytes: false,
        replace_needs_content: false,
        replace_needs_size: true,
        pages_are_whole: true,
        cut_before_new_bytes: true,
        file_sync: Covers::EarlierMetadata,
        directory_sync: Covers::EarlierMetadata,
    };

    /// XFS.
    pub const XFS: Model =
        Model { name: "xfs", size_needs_bytes: true, replace_needs_size: false, ..Model::EXT4 };

    /// Btrfs.
    pub const BTRFS: Model = Model {
        name: "btrfs",
        metadata_in_order: false,
        unsynced_in_order: true,
        replace_needs_size: false,
        file_sync: Covers::ObjectAndNames,
        directory_sync: Covers::Object,
        ..Model::EXT4
    };

    /// All models, the weakest first.
    pub const ALL: [Model; 4] = [Model::POSIX, Model::BTRFS, Model::XFS, Model::EXT4];

    /// The models that are tried where none is named, the weakest first.
    pub const USUAL: [Model; 3] = [Model::POSIX, Model::XFS, Model::EXT4];

    /// The model of this name.
    pub fn named(name: &str) -> Option<Model> {
        Model::ALL.into_iter().find(|model| model.name == name)
    }

    /// True if the model has a rule.
    pub fn has(&self, rule: Rule) -> bool {
        match rule {
            Rule::OnePlace => true,
            Rule::MetadataInOrder => self.metadata_in_order,
            Rule::UnsyncedInOrder => self.unsynced_in_order,
            Rule::SizeNeedsBytes => self.size_needs_bytes,
            Rule::ReplaceNeedsContent => self.replace_needs_content,
            Rule::ReplaceNeedsSize => self.replace_needs_size,
            Rule::PagesAreWhole => self.pages_are_whole,
            Rule::CutBeforeNewBytes => self.cut_before_new_bytes,
        }
    }

    /// The model with one rule more. [`Rule::OnePlace`] it has.
    #[must_use]
    pub fn with(self, rule: Rule) -> Model {
        self.set(rule, true)
    }

    /// The model without a rule. [`Rule::OnePlace`] stays.
    #[must_use]
    pub fn without(self, rule: Rule) -> Model {
        self.set(rule, false)
    }

    fn set(mut self, rule: Rule, value: bool) -> Model {
        match rule {
            Rule::OnePlace => {}
            Rule::MetadataInOrder => self.metadata_in_order = value,
            Rule::UnsyncedInOrder => self.unsynced_in_order = value,
            Rule::SizeNeedsBytes => self.size_needs_bytes = value,
            Rule::ReplaceNeedsContent => self.replace_needs_content = value,
            Rule::ReplaceNeedsSize => self.replace_needs_size = value,
            Rule::PagesAreWhole => self.pages_are_whole = value,
            Rule::CutBeforeNewBytes => self.cut_before_new_bytes = value,
        }
        self
    }
}

/// A rule about order, by the field of [`Model`] that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A directory entry and an inode are one place each. Every model has it.
    OnePlace,
    /// [`Model::metadata_in_order`].
    MetadataInOrder,
    /// [`Model::unsynced_in_order`].
    UnsyncedInOrder,
    /// [`Model::size_needs_bytes`].
    SizeNeedsBytes,
    /// [`Model::replace_needs_content`].
    ReplaceNeedsContent,
    /// [`Model::replace_needs_size`].
    ReplaceNeedsSize,
    /// [`Model::pages_are_whole`].
    PagesAreWhole,
    /// [`Model::cut_before_new_bytes`].
    CutBeforeNewBytes,
}

impl Rule {
    /// The rules that a model may lack.
    pub const OPTIONAL: [Rule; 7] = [
        Rule::MetadataInOrder,
        Rule::UnsyncedInOrder,
        Rule::SizeNeedsBytes,
        Rule::ReplaceNeedsContent,
        Rule::ReplaceNeedsSize,
        Rule::PagesAreWhole,
        Rule::CutBeforeNewBytes,
    ];
}

/// What a file system does that has the rule: a phrase for "ext4 does not …".
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::OnePlace => "write each directory entry and inode in order",
            Rule::MetadataInOrder => "write names, set sizes and attributes in the order of calls",
            Rule::UnsyncedInOrder => {
                "write names, set sizes and attributes without a sync in order"
            }
            Rule::SizeNeedsBytes => "write the bytes of a page before a size that ends in it",
            Rule::ReplaceNeedsContent => "write the content of a file before a rename over another",
            Rule::ReplaceNeedsSize => "write the size of a file before a rename over another",
            Rule::PagesAreWhole => "write earlier bytes of a page with later ones",
            Rule::CutBeforeNewBytes => "truncate a file before it writes new bytes there",
        })
    }
}
