//! Names of large directories in memory: where a name may stand, and which chunk has room.
//!
//! An index covers the first blocks of a directory and grows block by block, so that an operation
//! that stops at a missing block goes on where it stood. It holds hashes and places only; the
//! entry on disk decides. Every change is reported to it, and an operation that is undone undoes
//! its changes here, too ([`crate::ffs::volume`]). An index may vanish at any time.

use seekless_fs::call::Ino;
use seekless_fs::cow::{CowMap, CowSet, Part};

/// Classes of room: an entry takes at most 264 bytes, in steps of 4.
const CLASSES: usize = 67;

/// Hash of a name (FNV-1a). It is never stored.
pub fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |h, &b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// The index of one directory.
#[derive(Clone, Debug)]
pub struct DirIndex {
    /// Blocks of the directory that are covered, from its first.
    pub covered: u64,
    /// Hash of the name and place of the entry in the directory.
    names: CowSet<(u32, u64)>,
    /// Largest room of each chunk, in bytes.
    rooms: Vec<u16>,
    /// For each class, a chunk before which none has that much room.
    hints: [u32; CLASSES],
    /// When it was used last.
    used: u64,
}

impl Default for DirIndex {
    fn default() -> DirIndex {
        let (names, rooms) = (CowSet::default(), Vec::new());
        DirIndex { covered: 0, names, rooms, hints: [0; CLASSES], used: 0 }
    }
}

impl DirIndex {
    /// The first place from `from` on at which a name with this hash may stand.
    pub fn place(&self, hash: u32, from: u64) -> Option<u64> {
        self.names.range((hash, from)..=(hash, u64::MAX)).next().map(|&(_, at)| at)
    }

    /// Adds or takes away a name.
    pub fn set_name(&mut self, hash: u32, at: u64, present: bool) {
        let changed =
            if present { self.names.insert((hash, at)) } else { self.names.remove(&(hash, at)) };
        debug_assert!(changed, "the index follows the directory");
    }

    /// The room of a chunk.
    pub fn room(&self, chunk: u32) -> Option<u16> {
        self.rooms.get(chunk as usize).copied()
    }

    /// Notes the room of a chunk, and returns what was noted before.
    pub fn set_room(&mut self, chunk: u32, room: u16) -> u16 {
        let place = chunk as usize;
        if place >= self.rooms.len() {
            self.rooms.resize(place + 1, 0);
        }
        let old = std::mem::replace(&mut self.rooms[place], room);
        if room > old {
            let classes = usize::from(room / 4).min(CLASSES - 1);
            for hint in &mut self.hints[..=classes] {
                *hint = (*hint).min(chunk);
            }
        }
        old
    }

    /// The first chunk with at least this much room.
    pub fn chunk_with(&mut self, need: usize) -> Option<u32> {
        let class = need.div_ceil(4).min(CLASSES - 1);
        let from = self.hints[class] as usize;
        let found = self.rooms.iter().skip(from).position(|&r| usize::from(r) >= need);
        self.hints[class] = found.map_or(self.rooms.len(), |n| from + n) as u32;
        found.map(|n| (from + n) as u32)
    }

    /// Names in the covered blocks.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The indexes of all directories that are in use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    indexes: CowMap<Ino, Part<DirIndex>>,
    clock: u64,
    held: usize,
}

/// Names that all indexes together may hold; about 50 bytes each.
const MOST_NAMES: usize = 1 << 20;

impl Names {
    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.indexes.share(|index| index.share(|index| index.names.share()));
    }

    /// The index of a directory, if there is one.
    pub fn get(&mut self, dir: Ino) -> Option<&mut DirIndex> {
        self.indexes.get_mut(&dir).map(Part::make_mut)
    }

    /// The index of a directory; begins an empty one.
    pub fn begin(&mut self, dir: Ino) -> &mut DirIndex {
        self.clock += 1;
        if !self.indexes.contains_key(&dir) {
            self.indexes.insert(dir, Part::default());
        }
        let index = self.indexes.get_mut(&dir).expect("it is there").make_mut();
        index.used = self.clock;
        index
    }

    /// Forgets the index of a directory.
    pub fn drop_index(&mut self, dir: Ino) {
        self.indexes.remove(&dir);
    }

    /// Notes that names were added by building, and keeps the memory limit between operations.
    pub fn grown(&mut self, by: usize) {
        self.held += by;
    }

    /// Drops indexes that were not used for longest until the limit holds. Call it only when no
    /// operation is under way.
    pub fn trim(&mut self) {
        if self.held <= MOST_NAMES {
            return;
        }
        self.held = self.indexes.iter().map(|(_, index)| index.len()).sum();
        while self.held > MOST_NAMES && self.indexes.len() > 1 {
            let oldest = self.indexes.iter().min_by_key(|(_, index)| index.used);
            let Some((&dir, index)) = oldest else { break };
            self.held -= index.len();
            self.indexes.remove(&dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The first chunk with room is found, whatever the rooms did before.
        #[test]
        fn hints_never_hide_room(
            steps in prop::collection::vec((0u32..20, 0u16..126, 3usize..66), 1..200),
        ) {
            let mut index = DirIndex::default();
            let mut rooms = [0u16; 20];
            for (chunk, room, need) in steps {
                index.set_room(chunk, room * 4);
                rooms[chunk as usize] = room * 4;
                let expected = rooms.iter().position(|&r| usize::from(r) >= need * 4);
                prop_assert_eq!(index.chunk_with(need * 4), expected.map(|n| n as u32));
            }
        }
    }

    #[test]
    fn the_oldest_index_goes_first() {
        let mut names = Names::default();
        for dir in 2..5 {
            let index = names.begin(dir);
            for n in 0..(MOST_NAMES as u64 / 2) {
                index.set_name(n as u32, n, true);
            }
            names.grown(MOST_NAMES / 2);
        }
        names.begin(2);
        names.trim();
        assert!(names.get(2).is_some() && names.get(3).is_none() && names.get(4).is_some());
    }
}
