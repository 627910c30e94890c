//! Which states have the same content. Of trees that is their print. Of disks it is a hash of all
//! bytes, kept up to date page by page.
//!
//! The hash is a sum over pages of the hash of what a page holds, less the hash of what the base
//! holds there. So only pages that were written count, and a page that was written with what it
//! held counts nothing. With 128 bits, two states of one sweep do not collide in practice.

use crate::replay::image::Image;
use crate::session::{CrashImage, Ground, Session};
use crate::states::history::{Epoch, Unsettled};
use crate::states::state::{Fate, State};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use twox_hash::XxHash3_128;

const PAGE: u64 = 4096;

/// The content that is durable, as a hash.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// Of each page that was written: the hash of the base, and that of what is durable.
    pages: BTreeMap<u64, (u128, u128)>,
    sum: u128,
}

impl Contents {
    /// Follows what became durable at the beginning of an epoch; `ground` has it already.
    ///
    /// # Errors
    /// What the base or the recording reports.
    pub(super) fn settle(
        &mut self,
        session: &Session,
        ground: &Ground<'_>,
        epoch: &Epoch,
    ) -> io::Result<()> {
        let Ground::Disk(durable) = ground else { return Ok(()) };
        if epoch.settled.is_empty() {
            return Ok(());
        }
        let base = session.base_image();
        let image = session.durable_image(Arc::clone(durable));
        for page in touched(session, epoch.settled.iter()) {
            let of_base = match self.pages.get(&page) {
                Some(&(of_base, before)) => {
                    self.sum = self.sum.wrapping_sub(before.wrapping_sub(of_base));
                    of_base
                }
                None => of_page(&base, page)?,
            };
            let now = of_page(&image, page)?;
            self.sum = self.sum.wrapping_add(now.wrapping_sub(of_base));
            self.pages.insert(page, (of_base, now));
        }
        Ok(())
    }

    /// The hash of a state of the epoch that was settled last, which `image` shows.
    ///
    /// # Errors
    /// What the base or the recording reports.
    pub(super) fn of_state(
        &self,
        session: &Session,
        ground: &Ground<'_>,
        (epoch, state): (&Epoch, &State),
        image: &CrashImage,
    ) -> io::Result<u128> {
        let (durable, image) = match (ground, image) {
            (Ground::Disk(durable), CrashImage::Disk(image)) => (durable, image),
            (_, CrashImage::Tree(tree)) => return Ok(tree.print()),
            (Ground::Calls(_), CrashImage::Disk(_)) => unreachable!("calls leave trees"),
        };
        let below = session.durable_image(Arc::clone(durable));
        let kept = epoch.unsettled.iter().zip(&state.fates);
        let kept = kept.filter(|(_, fate)| **fate != Fate::Lost).map(|(one, _)| one);
        let mut sum = self.sum;
        for page in touched(session, kept) {
            let before = match self.pages.get(&page) {
                Some(&(_, durable)) => durable,
                None => of_page(&below, page)?,
            };
            sum = sum.wrapping_add(of_page(image, page)?.wrapping_sub(before));
        }
        Ok(sum)
    }
}

/// The pages that these writes, and those on top of them, touch.
fn touched<'u>(session: &Session, writes: impl Iterator<Item = &'u Unsettled>) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    for index in writes.flat_map(|one| std::iter::once(&one.write).chain(&one.under)) {
        let write = &session.history().writes()[*index];
        if write.length > 0 {
            pages.extend(write.offset / PAGE..=(write.end() - 1) / PAGE);
        }
    }
    pages
}

/// The hash of a page and its number.
fn of_page(image: &Image, page: u64) -> io::Result<u128> {
    let mut bytes = [0; PAGE as usize];
    image.read(page * PAGE, &mut bytes)?;
    Ok(XxHash3_128::oneshot_with_seed(page, &bytes))
}
