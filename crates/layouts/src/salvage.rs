//! Reading a damaged volume, whatever its layout: each block is found for certain, or is lost.
//!
//! A layout makes a [`Finder`] of what is left of its metadata. The finder names the place of the
//! newest content that was acknowledged, or says that this place is not certain. A [`Salvage`]
//! reads what it names and compares it with its checksum; [`volume`] serves it to clients.
//! Nothing is ever written.

pub(crate) mod lengthened;
pub mod volume;

use seekless_engine::checksum::Sums;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::{Expected, IoError};
use seekless_engine::layout::LayoutError;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use smallvec::smallvec;
use std::fmt;

/// Where the content of a block lies, and how it is told from other content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Device block.
    pub place: BlockNr,
    /// Its checksum; none where the layout keeps none.
    pub sum: Option<u32>,
    /// The first byte is stored inverted.
    pub escaped: bool,
}

/// What the metadata says of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// It is not stored and reads as zeros.
    Zeros,
    /// It lies there.
    Stored(Stored),
    /// The metadata that said so is damaged.
    Lost,
}

/// What is left of the metadata of a volume.
pub trait Finder: fmt::Debug + Send {
    /// Where the newest content lies that was acknowledged; [`Located::Lost`] if that is not
    /// certain.
    fn find(&self, block: BlockNr) -> Located;

    /// Where the newest content lies that was found. It may be older than what a client was told
    /// to be durable.
    fn find_stale(&self, block: BlockNr) -> Located {
        self.find(block)
    }

    /// The content of a block from what is stored, if its checksum is right.
    fn content(&self, sums: Sums, stored: Stored, piece: Piece) -> Option<Piece> {
        if stored.sum.is_some_and(|sum| !sums.is_of(&piece, sum)) {
            return None;
        }
        Some(if stored.escaped { crate::eager::read::invert_first(&piece) } else { piece })
    }

    /// The checksum of a block as it is stored, by which a device with copies finds the right one.
    fn expected(&self, stored: Stored) -> Option<u32> {
        stored.sum
    }

    /// What was found to be damaged, a sentence each.
    fn damage(&self) -> &[String] {
        &[]
    }
}

/// Makes the finder of a layout.
pub type Open = fn(&mut dyn Disk, &Superblock) -> Result<Box<dyn Finder>, LayoutError>;

/// Why there is no content for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The metadata that said where it lies is damaged.
    #[error("the metadata that names block {block} is damaged")]
    Map {
        /// Block of the volume.
        block: BlockNr,
    },
    /// It cannot be read where it lies, or is not what was written.
    #[error("{0}")]
    Content(IoError),
}

/// A volume of which only what is certain is read.
#[derive(Debug)]
pub struct Salvage {
    superblock: Superblock,
    finder: Box<dyn Finder>,
    /// Blocks of the device that are there.
    present: BlockNr,
    damage: Vec<String>,
}

impl Salvage {
    /// A salvage by what a finder says, of a device with so many blocks: some may have been cut
    /// off.
    pub fn new(superblock: Superblock, finder: Box<dyn Finder>, present: BlockNr) -> Salvage {
        let needed = superblock.device_blocks;
        let cut = (present < needed).then(|| {
            format!(
                "the image is cut off: it has {present} of {needed} blocks, and what was in the \
                 others is lost"
            )
        });
        let damage = cut.into_iter().chain(finder.damage().iter().cloned()).collect();
        Salvage { superblock, finder, present, damage }
    }

    /// The superblock of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// True unless a place has been cut off.
    fn is_there(&self, stored: Stored) -> bool {
        stored.place < self.present
    }

    /// Size of the volume in blocks.
    pub fn blocks(&self) -> u64 {
        self.superblock.blocks
    }

    /// What was found to be damaged, a sentence each.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// True if the place of a block is not certain.
    pub fn is_in_doubt(&self, block: BlockNr) -> bool {
        self.finder.find(block) == Located::Lost
    }

    /// Where a block lies; with `allow_stale`, where the newest content lies that was found.
    pub fn locate(&self, block: BlockNr, allow_stale: bool) -> Located {
        match self.finder.find(block) {
            Located::Lost if allow_stale => self.finder.find_stale(block),
            found => found,
        }
    }

    /// Content of a block: the newest that was acknowledged. With `allow_stale` the newest that was
    /// found, where that is not known to be the same.
    ///
    /// # Errors
    /// If its content is not certain, or, with `allow_stale`, not to be found.
    pub fn read(
        &self,
        disk: &mut dyn Disk,
        block: BlockNr,
        allow_stale: bool,
    ) -> Result<Data, Lost> {
        let stored = match self.locate(block, allow_stale) {
            Located::Lost => return Err(Lost::Map { block }),
            Located::Zeros => return Ok(Data::zeros(1)),
            Located::Stored(stored) => stored,
        };
        if !self.is_there(stored) {
            return Err(Lost::Content(IoError::Media { block }));
        }
        let found = disk.read_expecting(stored.place, self.expected(stored));
        let found = found.map_err(|error| match error {
            IoError::Media { .. } => Lost::Content(IoError::Media { block }),
            other => Lost::Content(other),
        })?;
        let content = self.content(stored, found.block(0));
        let lost = Lost::Content(IoError::Checksum { block });
        let mut data = Data::none();
        data.push(content.ok_or(lost)?);
        Ok(data)
    }

    /// What a device with copies looks for.
    fn expected(&self, stored: Stored) -> Expected {
        Expected { sums: self.superblock.sums, each: smallvec![self.finder.expected(stored)] }
    }

    fn content(&self, stored: Stored, piece: Piece) -> Option<Piece> {
        self.finder.content(self.superblock.sums, stored, piece)
    }
}

/// What a repair gave up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Blocks whose content is lost, in order.
    pub lost: Vec<BlockNr>,
    /// Reading one of them is an error until it is written; else they read as zeros.
    pub marked: bool,
}

/// Makes a volume that cannot be mounted mountable again. With the flag, lost blocks become zeros;
/// without it they are marked, or the repair is refused where the layout has no such mark.
pub type Repair = fn(&mut dyn Disk, &Superblock, bool) -> Result<Repaired, LayoutError>;

/// The blocks that a finder has lost.
pub(crate) fn lost_blocks(finder: &dyn Finder, blocks: u64) -> Vec<BlockNr> {
    (0..blocks).filter(|&block| finder.find(block) == Located::Lost).collect()
}

/// Why a repair changes nothing where all is lost.
pub(crate) fn nothing_certain<T>() -> Result<T, LayoutError> {
    let reason = "nothing of the volume is certain, so a repair would give all of it up; \
                  `seekless salvage --allow-stale` copies the newest that is found";
    Err(LayoutError::Damaged(reason.into()))
}

/// Why a repair that may not give up blocks is refused.
pub(crate) fn not_marked<T>(count: usize, why: &str) -> Result<T, LayoutError> {
    Err(LayoutError::Damaged(format!(
        "{count} blocks are lost, and {why}; `seekless salvage` copies the rest, and `check \
         --repair --give-up` makes them zeros"
    )))
}
