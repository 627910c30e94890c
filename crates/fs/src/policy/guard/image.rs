//! What a write carries: the block with guarded changes rolled back, and the facts that hold once
//! it is settled.

use super::{Fact, Guards, Span, Target};
use crate::core::page::{Mask, Page, mask};
use crate::tx::BlockNo;
use smallvec::SmallVec;

/// The facts that a write brings: they hold when it is ordered before all later writes.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    targets: SmallVec<[Target; 4]>,
}

impl Manifest {
    /// True if nothing waits for the write.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// What is written of a block.
#[derive(Clone, Debug)]
pub struct Image {
    /// The bytes. They share the memory of the block if nothing is rolled back.
    pub page: Page,
    /// What the write brings.
    pub manifest: Manifest,
    /// Sectors with old bytes: they are to be written again.
    pub rolled_back: Mask,
}

impl<A> Guards<A> {
    /// The image of a block for a write of these sectors.
    pub fn image(&mut self, block: BlockNo, sectors: Mask, page: &Page) -> Image {
        let mut image = Image { page: page.clone(), manifest: Manifest::default(), rolled_back: 0 };
        let Some(hung) = self.blocks.get_mut(&block) else { return image };
        let in_write = |span: Span| {
            let touched = mask(usize::from(span.from), usize::from(span.to - span.from));
            touched & !sectors == 0
        };
        // All that is left of guards is rolled back: either they need something, or an older one
        // that overlaps holds them back.
        for guard in hung.guards.iter().rev() {
            for old in &guard.olds {
                let bytes = image.page.make_mut();
                bytes[old.span.bytes()].copy_from_slice(&old.bytes);
                let touched = mask(old.span.bytes().start, old.bytes.len());
                image.rolled_back |= touched & sectors;
            }
        }
        let guards = &hung.guards;
        let is_shown = |fact: &Fact| {
            in_write(fact.span)
                && !guards.iter().any(|g| g.since <= fact.time && g.overlaps(fact.span))
        };
        let targets = &mut image.manifest.targets;
        hung.facts.retain(|fact| {
            let shown = is_shown(fact);
            if shown {
                targets.push(fact.target);
            }
            !shown
        });
        self.count -= image.manifest.targets.len();
        self.tidy(block);
        image
    }

    /// A write is settled: its facts hold.
    pub fn settled(&mut self, manifest: Manifest) {
        for target in manifest.targets {
            self.holds(target);
        }
    }
}
