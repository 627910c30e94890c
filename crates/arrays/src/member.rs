//! The superblock of an array member: which array, which place in it, who else is up to date.
//!
//! Two copies in blocks 0 and 1 are written in turn, so one is always whole; that a member is out
//! goes into both, so that no copy that cannot be read takes it back. Everything lies in
//! the first sector, which cannot tear. `SPEC.md`, section "Array members", has it to the byte.

use super::geometry::Geometry;
use super::{Level, MOST_MEMBERS, VolumeError};
use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES};

const MAGIC: [u8; 8] = *b"SEEKARRY";
/// Versions 1 and 2 differ in the checksums of the log alone, and are read.
pub const VERSION: u32 = 3;
const CHECKED: usize = SECTOR_BYTES - 4;
const CLEAN: u32 = 1;
const STANDINGS_AT: usize = 96;
const _: () = assert!(STANDINGS_AT + MOST_MEMBERS <= CHECKED && CHECKED == 508);
/// No array lives to count so many events; numbers of the log begin with them.
const EVENTS_LIMIT: u64 = 1 << 31;

/// Block of a member that holds the intent bitmap.
pub const BITMAP_BLOCK: BlockNr = 2;
/// First block of a member's log.
pub const LOG_BLOCK: BlockNr = 4;
/// Blocks of a log if the member is large enough not to miss them (4 MiB with what is before it).
pub(super) const USUAL_LOG_BLOCKS: u32 = 1020;

/// What a member is to its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds what it should.
    Active,
    /// It failed or was missing: what it holds is out of date.
    Out,
    /// It is being filled: stripes below [`MemberSuperblock::rebuilt`] hold what they should.
    Rebuilding,
}

impl MemberState {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Active => "active",
            MemberState::Out => "out",
            MemberState::Rebuilding => "rebuilding",
        }
    }
}

/// What the superblock of a member says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSuperblock {
    /// Identity of the array.
    pub id: u128,
    /// Where blocks lie.
    pub geometry: Geometry,
    /// Blocks of the log on each member; 0 if the level needs none.
    pub log_blocks: u32,
    /// This member's place.
    pub index: usize,
    /// Counts changes of this record: who says less has missed something.
    pub events: u64,
    /// The array was ended in order: nothing to replay, nothing to resync.
    pub clean: bool,
    /// MemberState of each member as of `events`.
    pub states: Vec<MemberState>,
    /// Stripes that a rebuild has been through.
    pub rebuilt: u64,
}

impl MemberSuperblock {
    /// The block as it lies on the member with place `index`.
    pub fn encode(&self, index: usize) -> Bytes {
        debug_assert_eq!(self.states.len(), self.geometry.members, "a state for each member");
        debug_assert!(index < self.geometry.members, "there is no member {index}");
        let mut out = vec![0; BLOCK_BYTES];
        let geometry = &self.geometry;
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&geometry.level.number().to_le_bytes());
        out[16..32].copy_from_slice(&self.id.to_le_bytes());
        out[32..40].copy_from_slice(&self.events.to_le_bytes());
        out[40..48].copy_from_slice(&geometry.first.to_le_bytes());
        out[48..56].copy_from_slice(&geometry.stripes.to_le_bytes());
        out[56..60].copy_from_slice(&geometry.chunk.to_le_bytes());
        out[60..64].copy_from_slice(&self.log_blocks.to_le_bytes());
        out[64..68].copy_from_slice(&(geometry.members as u32).to_le_bytes());
        out[68..72].copy_from_slice(&(index as u32).to_le_bytes());
        out[72..76].copy_from_slice(&(if self.clean { CLEAN } else { 0 }).to_le_bytes());
        out[80..88].copy_from_slice(&self.rebuilt.to_le_bytes());
        for (byte, state) in out[STANDINGS_AT..].iter_mut().zip(&self.states) {
            *byte = *state as u8;
        }
        let sum = crc32c(&out[..CHECKED]);
        out[CHECKED..SECTOR_BYTES].copy_from_slice(&sum.to_le_bytes());
        Bytes::from(out)
    }

    /// Reads a copy back.
    ///
    /// # Errors
    /// Foreign, newer or damaged content.
    pub fn decode(block: &[u8]) -> Result<MemberSuperblock, VolumeError> {
        assert_eq!(block.len(), BLOCK_BYTES);
        if block[..8] != MAGIC {
            return Err(VolumeError::NoMember);
        }
        if crc32c(&block[..CHECKED]) != le32(block, CHECKED) {
            return Err(VolumeError::Damaged);
        }
        let version = le32(block, 8);
        if version == 0 {
            return Err(VolumeError::Damaged);
        }
        if version > VERSION {
            return Err(VolumeError::Newer(version));
        }
        let level = Level::from_number(le32(block, 12)).ok_or(VolumeError::Damaged)?;
        let (members, index) = (le32(block, 64) as usize, le32(block, 68) as usize);
        if !(level.least_members()..=MOST_MEMBERS).contains(&members) || index >= members {
            return Err(VolumeError::Damaged);
        }
        let state = |byte: &u8| match byte {
            0 => Ok(MemberState::Active),
            1 => Ok(MemberState::Out),
            2 => Ok(MemberState::Rebuilding),
            _ => Err(VolumeError::Damaged),
        };
        let states = block[STANDINGS_AT..STANDINGS_AT + members]
            .iter()
            .map(state)
            .collect::<Result<_, _>>()?;
        let mut id = [0; 16];
        id.copy_from_slice(&block[16..32]);
        let geometry = Geometry {
            level,
            members,
            chunk: le32(block, 56),
            first: le64(block, 40),
            stripes: le64(block, 48),
        };
        let mut superblock = MemberSuperblock {
            id: u128::from_le_bytes(id),
            geometry,
            log_blocks: le32(block, 60),
            index,
            events: le64(block, 32),
            clean: le32(block, 72) & CLEAN != 0,
            states,
            rebuilt: le64(block, 80),
        };
        superblock.end_rebuild();
        if superblock.makes_sense() { Ok(superblock) } else { Err(VolumeError::Damaged) }
    }

    /// The place of the member that is being filled.
    pub fn replacement(&self) -> Option<usize> {
        self.states.iter().position(|&one| one == MemberState::Rebuilding)
    }

    /// A member that is filled to its end is a member like the others. Earlier versions could leave
    /// one behind that was filled and did not count as such.
    pub(super) fn end_rebuild(&mut self) {
        let over = self.rebuilt >= self.geometry.stripes;
        if let Some(member) = self.replacement().filter(|_| over) {
            self.states[member] = MemberState::Active;
        }
    }

    /// A whole checksum over senseless sizes can only come from a forged image.
    fn makes_sense(&self) -> bool {
        let Geometry { level, members, chunk, first, stripes } = self.geometry;
        let sizes = (1..=super::MOST_CHUNK_BLOCKS).contains(&chunk)
            && (1..1 << 44).contains(&stripes)
            && first <= 1 << 32
            && stripes.checked_mul(u64::from(chunk) * members as u64).is_some_and(|n| n < 1 << 52);
        if !sizes {
            return false;
        }
        let least = super::least_log_blocks(members, chunk);
        let log = match level {
            Level::Raid5 => (least..=least.max(USUAL_LOG_BLOCKS)).contains(&self.log_blocks),
            _ => self.log_blocks == 0,
        };
        let lived = self.events < EVENTS_LIMIT;
        log && lived && first >= LOG_BLOCK + u64::from(self.log_blocks)
    }

    /// Blocks that a member must have.
    pub fn device_blocks(&self) -> u64 {
        self.geometry.block(self.geometry.stripes, 0)
    }

    /// The block in which the copy with this record's events belongs.
    pub fn slot(&self) -> BlockNr {
        self.events % 2
    }

    /// Reads the younger of the two copies.
    ///
    /// # Errors
    /// Why there is none, or that the member is shorter than it was.
    pub fn read(disk: &mut dyn Disk) -> Result<MemberSuperblock, VolumeError> {
        MemberSuperblock::read_both(disk).map(|(younger, _)| younger)
    }

    /// Reads both copies: the younger one, and the older one if that is whole.
    ///
    /// # Errors
    /// As for [`MemberSuperblock::read`].
    pub fn read_both(
        disk: &mut dyn Disk,
    ) -> Result<(MemberSuperblock, Option<MemberSuperblock>), VolumeError> {
        let found = disk.blocks();
        if found < LOG_BLOCK {
            return Err(VolumeError::NoMember);
        }
        // Only the other copy tells what a block was that cannot be read.
        let mut copy = |at| match disk.read(at, 1) {
            Ok(data) => MemberSuperblock::decode(&data.to_bytes()),
            Err(_) => Err(VolumeError::NoMember),
        };
        let (superblock, older) = match (copy(0), copy(1)) {
            (Ok(a), Ok(b)) if a.events > b.events => (a, Some(b)),
            (Ok(a), Ok(b)) => (b, Some(a)),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => (one, None),
            (Err(VolumeError::NoMember), Err(second)) => return Err(second),
            (Err(first), Err(_)) => return Err(first),
        };
        let needed = superblock.device_blocks();
        if needed > found {
            return Err(VolumeError::Truncated { needed, found });
        }
        Ok((superblock, older))
    }

    /// Writes the record to the member with place `index`; durable after the next flush.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write(&self, disk: &mut dyn Disk, index: usize) -> Result<(), IoError> {
        disk.write(self.slot(), Data::bytes(self.encode(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> MemberSuperblock {
        MemberSuperblock {
            id: 77,
            geometry: Geometry {
                level: Level::Raid5,
                members: 4,
                chunk: 16,
                first: 1024,
                stripes: 1000,
            },
            log_blocks: 1020,
            index: 2,
            events: 9,
            clean: true,
            states: vec![
                MemberState::Active,
                MemberState::Out,
                MemberState::Active,
                MemberState::Rebuilding,
            ],
            rebuilt: 40,
        }
    }

    #[test]
    fn decodes_what_it_encodes() {
        assert_eq!(MemberSuperblock::decode(&sample().encode(2)), Ok(sample()));
    }

    #[test]
    fn every_flipped_byte_that_counts_is_noticed() {
        let good = sample().encode(2);
        for at in 0..SECTOR_BYTES {
            let mut bad = good.to_vec();
            bad[at] ^= 0x20;
            assert!(MemberSuperblock::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn forged_sizes_are_refused() {
        let forge = |change: fn(&mut MemberSuperblock)| {
            let mut forged = sample();
            change(&mut forged);
            MemberSuperblock::decode(&forged.encode(2))
        };
        assert!(forge(|_| ()).is_ok());
        assert_eq!(forge(|one| one.geometry.chunk = 0), Err(VolumeError::Damaged));
        assert_eq!(forge(|one| one.geometry.stripes = u64::MAX), Err(VolumeError::Damaged));
        assert_eq!(forge(|one| one.geometry.first = 9), Err(VolumeError::Damaged));
        assert_eq!(forge(|one| one.log_blocks = 3), Err(VolumeError::Damaged));
        let large = |one: &mut MemberSuperblock| {
            (one.log_blocks, one.geometry.first) = (1 << 26, 1 << 27);
        };
        assert_eq!(forge(large), Err(VolumeError::Damaged));
        assert_eq!(forge(|one| one.events = u64::MAX), Err(VolumeError::Damaged));
    }

    /// A single image with a block that cannot be read is no member of an array.
    #[test]
    fn only_the_other_copy_tells_what_an_unreadable_block_was() {
        use seekless_engine::device::medium::Cells;
        use seekless_engine::disk::MediumDisk;
        let mut cells = Cells::new(sample().device_blocks().max(64));
        let read = |cells: &mut Cells| MemberSuperblock::read(&mut MediumDisk(cells));
        for lost in [0, 1] {
            let mut cells = cells.clone();
            cells.lose(lost);
            assert_eq!(read(&mut cells), Err(VolumeError::NoMember), "block {lost}");
        }
        sample().write(&mut MediumDisk(&mut cells), 1).expect("memory");
        cells.lose(1 - sample().slot());
        assert!(read(&mut cells).is_ok(), "the other copy is whole");
    }
}
