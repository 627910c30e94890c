//! The intent bitmap: which regions of an array may differ between members after a crash.
//!
//! A bit is set durably on all members before the first write to its region and cleared lazily
//! after the last one is durable, so a crash leaves a resync of the marked regions and no more.
//! `SPEC.md`, section "Array members", has the layout to the byte.

use super::geometry::Geometry;
use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::edge::Edge;
use seekless_engine::superblock::le32;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES, Time};

/// Bytes of bits in a sector; a checksum of them follows at byte 508, so that a torn block is a
/// mixture of sectors that are each whole.
const SECTOR_BITS_BYTES: usize = 504;
/// Bits in the block.
pub const MOST_REGIONS: u64 = (BLOCK_BYTES / SECTOR_BYTES * SECTOR_BITS_BYTES * 8) as u64;
/// Regions that an array has if it has so many stripes: few enough that random writes soon meet
/// only marked ones, enough that a resync is short.
const USUAL_REGIONS: u64 = 1024;

/// Regions that are marked ahead of a stream of writes: each mark holds the stream up, and a resync
/// of so many more takes a hundredth of the whole.
const AHEAD: usize = 8;

/// A region of stripes.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// The bit is set on all members.
    marked: bool,
    /// Stripe operations that write to it now.
    busy: u32,
    /// When the last one ended.
    ended: Time,
}

/// The bitmap of an array.
#[derive(Clone, Debug)]
pub struct Bitmap {
    regions: Vec<Region>,
    stripes_each: u64,
    /// Regions that operations wait to have marked.
    wanted: Vec<usize>,
    /// Regions in the block that is being written, and those it clears.
    writing: Option<(Vec<usize>, Vec<usize>)>,
}

impl Bitmap {
    /// A bitmap without marks.
    pub fn new(geometry: &Geometry) -> Bitmap {
        let stripes = geometry.stripes;
        let stripes_each = (stripes / USUAL_REGIONS).next_power_of_two().max(1);
        let regions = stripes.div_ceil(stripes_each);
        assert!(regions <= MOST_REGIONS, "{regions} regions do not fit one block");
        Bitmap {
            regions: vec![Region::default(); regions as usize],
            stripes_each,
            wanted: Vec::new(),
            writing: None,
        }
    }

    fn region(&self, stripe: u64) -> usize {
        (stripe / self.stripes_each) as usize
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// The stripes of a region.
    pub fn stripes(&self, region: usize, geometry: &Geometry) -> std::ops::Range<u64> {
        let first = region as u64 * self.stripes_each;
        first..(first + self.stripes_each).min(geometry.stripes)
    }

    /// An operation is going to write a stripe. True if it may at once; else it has to wait until
    /// [`Bitmap::is_marked`] says so.
    pub fn begin(&mut self, stripe: u64) -> bool {
        let region = self.region(stripe);
        let one = &mut self.regions[region];
        one.busy += 1;
        let cleared = self.writing.as_ref().is_some_and(|(_, off)| off.contains(&region));
        if one.marked && !Edge::MarkBeingCleared.blocks(cleared) {
            return true;
        }
        if !self.wanted.contains(&region) {
            self.wanted.push(region);
        }
        false
    }

    /// True if the bit of a stripe is set on all members.
    pub fn is_marked(&self, stripe: u64) -> bool {
        self.regions[self.region(stripe)].marked
    }

    /// An operation that [`Bitmap::begin`] heard of has ended.
    pub fn end(&mut self, stripe: u64, now: Time) {
        let region = self.region(stripe);
        debug_assert!(self.regions[region].busy > 0, "a write ends that has not begun");
        self.regions[region].busy -= 1;
        self.regions[region].ended = now;
    }

    /// Marked regions without a write since `since`.
    pub fn quiet(&self, since: Time) -> Vec<usize> {
        let quiet = |one: &Region| {
            one.marked && Edge::MarkStaysBusy.allows(one.busy == 0) && one.ended <= since
        };
        (0..self.regions.len()).filter(|&region| quiet(&self.regions[region])).collect()
    }

    /// True if some region is marked.
    pub fn any_marked(&self) -> bool {
        self.regions.iter().any(|one| one.marked)
    }

    /// The block to write now, if there is something to mark, or of `clear` something that is
    /// quiet still. It must reach all members; then comes [`Bitmap::written`].
    pub fn next_block(&mut self, clear: &[usize], since: Time, now: Time) -> Option<Bytes> {
        if self.writing.is_some() {
            return None;
        }
        let quiet = self.quiet(since);
        let off: Vec<usize> =
            clear.iter().copied().filter(|region| quiet.contains(region)).collect();
        if self.wanted.is_empty() && off.is_empty() {
            return None;
        }
        debug_assert!(off.iter().all(|&region| self.regions[region].marked), "it has no mark");
        let on = self.with_those_ahead(now);
        let marked = |region: usize| {
            (self.regions[region].marked || on.contains(&region)) && !off.contains(&region)
        };
        let block = encode((0..self.regions.len()).filter(|&region| marked(region)));
        self.writing = Some((on, off));
        Some(block)
    }

    /// What is wanted, and what comes next where it follows a marked region. Takes it as written to
    /// now, so that it is not cleared before the stream gets there.
    fn with_those_ahead(&mut self, now: Time) -> Vec<usize> {
        let mut on = std::mem::take(&mut self.wanted);
        for wanted in on.clone() {
            let follows = wanted > 0 && self.regions[wanted - 1].marked;
            let last = if follows { wanted + AHEAD } else { wanted };
            for ahead in wanted + 1..=last.min(self.regions.len() - 1) {
                if !self.regions[ahead].marked && !on.contains(&ahead) {
                    self.regions[ahead].ended = now;
                    on.push(ahead);
                }
            }
        }
        on
    }

    /// The block handed out last is durable on all members.
    pub fn written(&mut self) {
        let (on, off) = self.writing.take().expect("a block is being written");
        on.into_iter().for_each(|region| self.regions[region].marked = true);
        off.into_iter().for_each(|region| self.regions[region].marked = false);
    }

    /// True while a block is being written.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }
}

/// The block with these bits set.
pub fn encode(marked: impl Iterator<Item = usize>) -> Bytes {
    let mut out = vec![0; BLOCK_BYTES];
    for region in marked {
        debug_assert!((region as u64) < MOST_REGIONS, "region {region} has no bit");
        let byte = region / 8;
        let at = byte / SECTOR_BITS_BYTES * SECTOR_BYTES + byte % SECTOR_BITS_BYTES;
        out[at] |= 1 << (region % 8);
    }
    for sector in out.chunks_exact_mut(SECTOR_BYTES) {
        let sum = crc32c(&sector[..SECTOR_BYTES - 4]);
        sector[SECTOR_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    Bytes::from(out)
}

/// The marks that a block of the bitmap holds.
#[derive(Clone, Debug)]
pub struct Marks {
    block: Bytes,
    /// Which of its sectors are whole.
    whole: Vec<bool>,
}

impl Marks {
    /// Compares the checksums of a block of the bitmap.
    pub fn new(block: Bytes) -> Marks {
        debug_assert_eq!(block.len(), BLOCK_BYTES);
        let is_whole =
            |sector: &[u8]| crc32c(&sector[..SECTOR_BYTES - 4]) == le32(sector, SECTOR_BYTES - 4);
        let whole = block.chunks_exact(SECTOR_BYTES).map(is_whole).collect();
        Marks { block, whole }
    }

    /// True if the bit of a region is set, or if its sector is damaged: better a resync too many.
    pub fn is_set(&self, region: usize) -> bool {
        let (sector, byte) = (region / 8 / SECTOR_BITS_BYTES, region / 8 % SECTOR_BITS_BYTES);
        Edge::MarkSectorDamaged.blocks(!self.whole[sector])
            || self.block[sector * SECTOR_BYTES + byte] & (1 << (region % 8)) != 0
    }
}

#[cfg(test)]
fn is_set(block: &[u8], region: usize) -> bool {
    Marks::new(Bytes::copy_from_slice(block)).is_set(region)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn geometry(stripes: u64) -> Geometry {
        Geometry { level: Level::Raid1, members: 2, chunk: 4, first: 8, stripes }
    }

    #[test]
    fn regions_cover_all_stripes() {
        for stripes in [1, 7, 1024, 1025, 5000, 1 << 33] {
            let geometry = geometry(stripes);
            let bitmap = Bitmap::new(&geometry);
            let last = bitmap.region(stripes - 1);
            assert_eq!(last + 1, bitmap.regions.len(), "{stripes}");
            assert_eq!(bitmap.stripes(last, &geometry).end, stripes);
        }
    }

    #[test]
    fn a_write_waits_for_its_mark_and_a_mark_for_its_writes() {
        let mut bitmap = Bitmap::new(&geometry(8));
        assert!(!bitmap.begin(3));
        let block = bitmap.next_block(&[], 0, 5).expect("a mark to write");
        assert!(is_set(&block, 3) && !is_set(&block, 2));
        assert!(!bitmap.is_marked(3), "not before it is durable");
        bitmap.written();
        assert!(bitmap.is_marked(3) && bitmap.begin(3));
        bitmap.end(3, 10);
        assert_eq!(bitmap.quiet(20), Vec::<usize>::new(), "another write is under way");
        bitmap.end(3, 15);
        assert_eq!(bitmap.quiet(14), Vec::<usize>::new());
        assert_eq!(bitmap.quiet(15), [3]);
        let cleared = bitmap.next_block(&[3], 15, 20).expect("a mark to clear");
        assert!(!is_set(&cleared, 3));
        assert!(!bitmap.begin(3), "it is being cleared: to be marked again first");
        bitmap.written();
        assert!(is_set(&bitmap.next_block(&[], 15, 20).expect("marked again"), 3));
    }

    #[test]
    fn a_stream_is_marked_ahead() {
        let mut bitmap = Bitmap::new(&geometry(1024));
        let mut marks = 0;
        for stripe in 0..1024 {
            if !bitmap.begin(stripe) {
                bitmap.next_block(&[], 0, stripe).expect("a mark to write");
                bitmap.written();
                marks += 1;
            }
            bitmap.end(stripe, stripe);
        }
        assert_eq!(marks, 1 + 1023_u64.div_ceil(1 + AHEAD as u64), "the first is not a stream yet");
        // Somewhere else there is no stream, and what was marked ahead is cleared like the rest.
        let mut bitmap = Bitmap::new(&geometry(1024));
        for stripe in [500, 501] {
            assert!(!bitmap.begin(stripe));
            let block = bitmap.next_block(&[], 0, 7).expect("a mark to write");
            bitmap.written();
            bitmap.end(stripe, 7);
            assert_eq!(is_set(&block, stripe as usize + 1), stripe == 501);
        }
        assert_eq!(bitmap.quiet(6), Vec::<usize>::new());
        assert_eq!(bitmap.quiet(7), (500..=509).collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_sector_counts_as_set() {
        let mut block = encode(std::iter::once(5)).to_vec();
        block[100] ^= 1;
        assert!(is_set(&block, 6) && !is_set(&block, SECTOR_BITS_BYTES * 8));
    }
}
