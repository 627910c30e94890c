//! Where blocks may lie in the forms of the table, and what the table takes (section 8.2 of the
//! paper).
//!
//! In a *sorted* volume a block goes to the free segment that passes first among those of its band,
//! a run of blocks to its home if there is room. When the band is full the band is widened for this
//! block, which is an exception then. In a *compressed* volume it goes to a spare segment near the
//! head, which makes it an exception, as long as there is room for exceptions, and home else, if
//! its home is free: what it supersedes lies there until the new version is durable.
//! [`super::relocation`] makes room.

use super::bands::{Bands, Span};
use super::compact::{Compact, Places};
use super::homes::Homes;
use super::place::{ANYWHERE, Next};
use super::sort::Sorter;
use super::{Loge, TableForm};
use crate::eager::Mapped;
use crate::eager::freemap::FreeMap;
use crate::eager::place::Plan;
use seekless_engine::arm::{Arm, Track};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::Work;
use seekless_engine::units::BlockNr;

/// Share of a sorted volume, in blocks for one exception, that may lie outside its bands before
/// clients wait for blocks to be brought back.
const SORTED_SHARE: u64 = 256;

impl Loge {
    /// Gives the table its form. A compressed one needs every home for itself: should other
    /// programs have used homes for other blocks, the table stays plain.
    pub(super) fn shape_table(&mut self, form: TableForm, arm: Option<&dyn Arm>) {
        let areas = self.areas;
        // Some of what is spare must be left for what is not durable yet.
        let most = |wanted: u64| wanted.clamp(1, (self.slack / 2).max(1));
        let compact = match form {
            _ if self.capacity < areas.blocks => return,
            TableForm::Plain => return,
            TableForm::Sorted(reach) => {
                let bands = Bands::new(&areas, &self.free, arm, reach);
                let exceptions = most(areas.blocks / SORTED_SHARE);
                Compact::new(areas.blocks, Places::Banded(bands), exceptions)
            }
            TableForm::Compressed(percent) => {
                let homes = Homes::new(areas);
                let mut strange = false;
                self.table.each_stored(|at, entry| {
                    strange |= homes.owner(entry.place()).is_some_and(|owner| owner != at);
                });
                if strange {
                    return;
                }
                self.free.withhold((0..areas.blocks).map(|at| homes.of(at)));
                let exceptions = most(areas.blocks * u64::from(percent) / 100);
                Compact::new(areas.blocks, Places::at(homes, areas.blocks), exceptions)
            }
        };
        self.table.compact(compact);
        // Blocks have their places: there is nothing to sort them by.
        self.sorter = Sorter::new(false, false);
    }

    /// The form of the table, for people.
    pub(super) fn table_form(&self) -> String {
        let Some(compact) = self.table.as_compact() else { return "plain".to_owned() };
        let (now, most) = (compact.exceptions().len(), compact.exceptions().most());
        match compact.places() {
            Places::Banded(bands) => {
                let (reach, bits) = (bands.reach(), bands.bits());
                format!(
                    "sorted, {reach} cylinders on either side in {bits} bits, {now} of {most} \
                     exceptions"
                )
            }
            Places::Homes { .. } => format!("compressed, {now} of {most} exceptions"),
        }
    }

    /// What the table takes, in bytes, and how it is used.
    pub(super) fn table_stats(&self) -> Vec<(&'static str, f64)> {
        let (places, sums) = self.table.bytes();
        let mut stats = vec![
            ("table_bytes", (places + sums) as f64),
            ("address_bytes", places as f64),
            ("checksum_bytes", sums as f64),
            ("address_bits", places as f64 * 8.0 / self.areas.blocks as f64),
        ];
        if let Some(compact) = self.table.as_compact() {
            let exceptions = compact.exceptions();
            stats.extend([
                ("exceptions", exceptions.len() as f64),
                ("exceptions_most", exceptions.most() as f64),
                ("exceptions_peak", exceptions.peak() as f64),
                ("exception_bytes", exceptions.bytes() as f64),
                ("blocks_brought_home", self.relocation.blocks as f64),
            ]);
        }
        stats
    }

    /// The next free block for block `at`: near the head, or home. `want` blocks are still to be
    /// placed, and `scattered` says that they do not continue what was written before. The
    /// callers have made sure that there is one.
    pub(super) fn place(&mut self, at: BlockNr, want: u32, scattered: bool, cx: &Cx<'_>) -> u32 {
        if let Some(Places::Homes { homes, .. }) = self.table.as_compact().map(Compact::places) {
            let home = homes.of(at);
            if self.goes_home(home, want > 1 || !scattered) {
                self.free.take(home);
                return home;
            }
        }
        self.place_away(at, want, scattered, cx)
    }

    /// The same for what may not lie in the home of a block.
    pub(super) fn place_away(
        &mut self,
        at: BlockNr,
        want: u32,
        scattered: bool,
        cx: &Cx<'_>,
    ) -> u32 {
        let chosen = match self.table.as_compact().map(Compact::places) {
            Some(Places::Banded(bands)) => {
                let (tracks, home) = (band_tracks(bands, at, &self.free), bands.home(at));
                let run = want > 1 || !scattered;
                // A volume that is written in order has room everywhere afterwards.
                let next = run.then(|| self.placer.nominal.go_on(&mut self.free, tracks, home));
                next.flatten().or_else(|| self.place_around(at, want, home, cx))
            }
            _ if self.headed && cx.arm(0).is_some() => self.place_near(at, want, ANYWHERE, 0, cx),
            compact => {
                let scattered = scattered || compact.is_some();
                self.placer.nominal.choose(&mut self.free, scattered)
            }
        };
        chosen.expect("room is checked before blocks are placed")
    }

    /// A free block in the band of a block, whose middle is `home`, or in wider and wider ones, the
    /// last of all cylinders.
    fn place_around(&mut self, at: BlockNr, want: u32, home: u32, cx: &Cx<'_>) -> Option<u32> {
        let mut reach = self.bands()?.reach();
        loop {
            let span = self.bands()?.around(at, reach);
            let found = self.place_near(at, want, span, home, cx);
            if found.is_some() {
                return found;
            }
            reach = self.bands()?.wider(reach)?;
        }
    }

    /// The bands of a sorted volume.
    fn bands(&self) -> Option<&Bands> {
        match self.table.as_compact()?.places() {
            Places::Banded(bands) => Some(bands),
            Places::Homes { .. } => None,
        }
    }

    /// A free block on certain cylinders, near the head or, without one, behind the last one or
    /// near `home`.
    fn place_near(
        &mut self,
        at: BlockNr,
        want: u32,
        span: Span,
        home: u32,
        cx: &Cx<'_>,
    ) -> Option<u32> {
        match (cx.arm(0), cx.head(0)) {
            (Some(arm), Some(head)) if self.headed => {
                let plan = self.plan.get_or_insert_with(|| Plan::new(head));
                // Where it would lie if each block had a fixed place.
                let tracks = u64::from(self.free.tracks());
                let preferred = (at * tracks / self.areas.blocks) as u32;
                self.placer.choose(&mut self.free, arm, plan, &Next { want, preferred, span })
            }
            // A nominal track counts as a cylinder.
            _ => self.placer.nominal.choose_near(&mut self.free, span, home),
        }
    }

    /// True if a block of a compressed volume is to be written home: runs, to stay together; single
    /// blocks only where there is no head, or hardly any room for exceptions is left.
    fn goes_home(&self, home: u32, run: bool) -> bool {
        let Some(exceptions) = self.table.as_compact().map(Compact::exceptions) else {
            return false;
        };
        let scarce = 4 * exceptions.len() >= 3 * exceptions.most();
        (run || !self.headed || scarce) && self.free.is_free_by_name(home)
    }

    /// True if what waits next may be written without more exceptions than there are to be, or if
    /// nothing can be done about that. Else blocks are brought home first.
    pub(super) fn table_has_room(&mut self) -> bool {
        let Some(compact) = self.table.as_compact() else { return true };
        let exceptions = compact.exceptions();
        let full = exceptions.len() >= exceptions.most();
        let may_become = match (self.requests.front(), compact.places()) {
            (Some(Work::Write { at, data, .. }), Places::Homes { homes, .. }) => {
                let blocks = *at..at + u64::from(data.blocks());
                blocks.filter(|&at| self.may_become_exception(at, homes)).count() as u64
            }
            (Some(Work::Group { all, .. }), Places::Homes { homes, .. }) => {
                let blocks = all.changes().map(|(at, _)| at);
                blocks.filter(|&at| self.may_become_exception(at, homes)).count() as u64
            }
            // Bands have room as a rule.
            (Some(Work::Write { .. } | Work::Group { .. }), Places::Banded(_)) => u64::from(full),
            _ => 0,
        };
        let flying: usize = self.writes.iter().map(|one| one.blocks()).sum();
        let wanted = exceptions.len() + flying as u64 + may_become;
        // What is larger than the table all by itself makes it larger.
        if may_become == 0 || wanted <= exceptions.most().max(may_become) {
            return true;
        }
        if flying > 0 {
            return false;
        }
        if self.relocation.is_in_vain((self.next_stamp, self.commits.durable())) {
            // Homes are free when what has superseded their blocks is durable.
            return self.commits.waiting() == 0 || self.commits.starve();
        }
        if !self.relocation.may_move(self.commits.durable()) {
            return self.commits.starve();
        }
        self.relocation.urge();
        false
    }

    /// True if free places are lacking that blocks brought home would leave: they are, then.
    pub(super) fn relocation_would_free(&mut self) -> bool {
        let durable = self.commits.durable();
        let compressed = self.free.free_by_name() > 0 && self.table.as_compact().is_some();
        let settled = self.commits.waiting() == 0 && self.writes.is_empty();
        let may = compressed && settled && self.relocation.may_move(durable);
        let would = may && !self.relocation.is_in_vain((self.next_stamp, durable));
        if would {
            self.relocation.urge();
        }
        would
    }

    /// True if a block may become an exception when it is written.
    fn may_become_exception(&self, at: BlockNr, homes: &Homes) -> bool {
        let exceptions = self.table.as_compact().map(Compact::exceptions);
        let is_one = exceptions.is_some_and(|exceptions| exceptions.get(at).is_some());
        !is_one && !self.free.is_free_by_name(homes.of(at))
    }

    /// A free place that a block is no exception at; it is taken.
    pub(super) fn take_regular(&mut self, at: BlockNr) -> Option<u32> {
        match self.table.as_compact()?.places() {
            Places::Homes { homes, .. } => {
                let home = homes.of(at);
                self.free.is_free_by_name(home).then(|| {
                    self.free.take(home);
                    home
                })
            }
            Places::Banded(bands) => {
                let (tracks, home) = (band_tracks(bands, at, &self.free), bands.home(at));
                self.placer.nominal.choose_near(&mut self.free, tracks, home)
            }
        }
    }
}

/// The tracks of the band of a block, the first and the last one.
fn band_tracks(bands: &Bands, at: BlockNr, free: &FreeMap) -> (Track, Track) {
    let ((low, high), heads) = (bands.span(at), bands.heads());
    (low * heads, ((high + 1) * heads).min(free.tracks()) - 1)
}
