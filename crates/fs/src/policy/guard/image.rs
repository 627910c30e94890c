//! What a write carries: the block with guarded changes rolled back, and the facts that hold once
//! it is settled.

use super::{Guards, Span, Target};
use crate::core::page::{Mask, Page, mask};
use crate::policy::Brings;
use crate::tx::BlockNo;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use smallvec::SmallVec;

/// The facts that writes bring: they hold when these are ordered before all later writes.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    targets: SmallVec<[Target; 4]>,
    /// What they bring for a log.
    pub(in crate::policy) brings: SmallVec<[Brings; 2]>,
    /// Of the planted bug that takes facts of an older image: the blocks that were written.
    #[cfg(debug_assertions)]
    blocks: Vec<(BlockNo, u64)>,
}

impl Manifest {
    /// True if nothing waits for the writes.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.brings.is_empty()
    }

    /// What a write brings for a log.
    pub(in crate::policy) fn of(brings: SmallVec<[Brings; 2]>) -> Manifest {
        Manifest { brings, ..Manifest::default() }
    }

    /// Takes over what another write brings.
    pub fn append(&mut self, other: Manifest) {
        self.targets.extend(other.targets);
        self.brings.extend(other.brings);
        #[cfg(debug_assertions)]
        self.blocks.extend(other.blocks);
    }
}

impl<A> Guards<A> {
    /// Makes the page of a block what a write of these sectors carries. Returns the facts that the
    /// write brings, and the sectors with old bytes, which are to be written again.
    pub fn image(&mut self, block: BlockNo, sectors: Mask, page: &mut Page) -> (Manifest, Mask) {
        let (mut manifest, mut rolled_back) = (Manifest::default(), 0);
        let Some(hung) = self.blocks.get_mut(&block) else { return (manifest, rolled_back) };
        // All that is left of guards is rolled back: either they need something, or an older one
        // that overlaps holds them back.
        let count = hung.guards.len();
        for index in 0..count {
            let youngest_first = count < 2 || Edge::OldestGuardLast.stands();
            let guard = &hung.guards[if youngest_first { count - 1 - index } else { index }];
            for old in &guard.olds {
                let touched = touched(old.span) & sectors;
                if touched != 0 {
                    page.make_mut()[old.span.bytes()].copy_from_slice(&old.bytes);
                    rolled_back |= touched;
                }
            }
        }
        let guards = &hung.guards;
        hung.facts.retain(|fact| {
            let counts = planted(PlantedBug::RolledBackCounts);
            let older = guards.iter().filter(|guard| guard.since <= fact.time && !counts);
            let held = older.map(|guard| guard.touches(fact.span)).fold(0, |all, mask| all | mask);
            fact.left &= !sectors | held;
            if fact.left == 0 {
                manifest.targets.push(fact.target);
            }
            fact.left != 0
        });
        self.count -= manifest.targets.len();
        self.tidy(block);
        #[cfg(debug_assertions)]
        if planted(PlantedBug::FactOfOlderImage) {
            manifest.blocks.push((block, self.serial));
        }
        let dirty = if planted(PlantedBug::RolledBackNotRedirtied) { 0 } else { rolled_back };
        (manifest, dirty)
    }

    /// Writes are settled: their facts hold.
    pub fn settled(&mut self, mut manifest: Manifest) {
        self.plant_older_images(&mut manifest);
        // A write brings many facts for few blocks.
        let mut met: SmallVec<[BlockNo; 4]> =
            manifest.targets.into_iter().filter_map(|target| self.meet(target)).collect();
        met.sort_unstable();
        met.dedup();
        met.into_iter().for_each(|block| self.release(block));
    }
}

impl<A> Guards<A> {
    /// [`PlantedBug::FactOfOlderImage`]: facts that came up since a block was written hold, too.
    #[cfg(debug_assertions)]
    fn plant_older_images(&mut self, manifest: &mut Manifest) {
        for (block, since) in std::mem::take(&mut manifest.blocks) {
            let Some(hung) = self.blocks.get_mut(&block) else { continue };
            let younger = |fact: &super::Fact| fact.time > since;
            let facts = hung.facts.iter().filter(|fact| younger(fact));
            let before = manifest.targets.len();
            manifest.targets.extend(facts.map(|fact| fact.target));
            self.count -= manifest.targets.len() - before;
            hung.facts.retain(|fact| !younger(fact));
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    fn plant_older_images(&mut self, _manifest: &mut Manifest) {}
}

/// The sectors that bytes lie in.
pub(super) fn touched(span: Span) -> Mask {
    mask(usize::from(span.from), usize::from(span.to - span.from))
}
