//! The translation of a drive-managed shingled disk: what its persistent cache holds, and where.
//!
//! The cache is a log. Its map names pieces of consecutive sectors, none of which crosses a band.
//! Cleaning takes the band of the oldest piece and drops all pieces of that band, so the tail of
//! the log moves. Positions in the log count up for ever; the platter has them modulo its size.

use crate::spec::{Shingled, Spec, ns};
use seekless_engine::units::Time;
use std::collections::BTreeMap;

/// Sequences of writes that the disk follows at a time.
const STREAMS: usize = 8;

/// Sectors of a physical one: the log takes whole ones.
const PHYSICAL: u64 = 8;

/// Sectors in the log.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The sector behind the last one.
    end: u64,
    /// Position of the first in the log.
    at: u64,
}

/// Writes that continue one another.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The sector behind the last one.
    next: u64,
    /// Sectors so far.
    length: u64,
    /// The last of them went to its band.
    direct: bool,
}

/// Where sectors of a request are on the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// First sector on the platter.
    pub(super) place: u64,
    /// Number of sectors.
    pub(super) count: u32,
}

/// The persistent cache and the bands.
#[derive(Debug)]
pub(super) struct Shingle {
    rules: Shingled,
    /// Waits this long without a command before it cleans.
    pub(super) idle: Time,
    /// First sector of the log on the platter.
    start: u64,
    /// Sectors that the disk offers.
    sectors: u64,
    /// What the log holds, by the host's sector.
    pieces: BTreeMap<u64, Piece>,
    /// The host's sector of each piece, by position in the log.
    order: BTreeMap<u64, u64>,
    /// Where the next write goes.
    head: u64,
    /// Bands in which a stream ended early, with the sector behind its last one. What follows
    /// there is damaged until the band is cleaned; the drive has it in reserve.
    torn: BTreeMap<u64, u64>,
    /// The one that was continued last is at the end.
    streams: Vec<Stream>,
}

impl Shingle {
    pub(super) fn new(spec: &Spec, rules: Shingled) -> Shingle {
        Shingle {
            rules,
            idle: ns(rules.idle_ms),
            start: spec.mapped_sectors() - rules.cache_sectors,
            sectors: spec.capacity_sectors(),
            pieces: BTreeMap::new(),
            order: BTreeMap::new(),
            head: 0,
            torn: BTreeMap::new(),
            streams: Vec::new(),
        }
    }

    fn band(&self, lbn: u64) -> u64 {
        lbn / u64::from(self.rules.band_sectors)
    }

    /// The sectors of a band.
    pub(super) fn span(&self, band: u64) -> (u64, u64) {
        let size = u64::from(self.rules.band_sectors);
        (band * size, ((band + 1) * size).min(self.sectors))
    }

    fn on_platter(&self, position: u64) -> u64 {
        self.start + position % self.rules.cache_sectors
    }

    /// Where the log puts so many sectors: a write does not run over the end of the platter's part.
    fn landing(&self, sectors: u64) -> u64 {
        let left = self.rules.cache_sectors - self.head % self.rules.cache_sectors;
        if left < sectors { self.head + left } else { self.head }
    }

    /// The sector of the platter that the next write to the log begins at.
    pub(super) fn log_place(&self, sectors: u32) -> u64 {
        self.on_platter(self.landing(u64::from(sectors).next_multiple_of(PHYSICAL)))
    }

    /// True if the log has space for a write and the map for its pieces.
    pub(super) fn has_room(&self, lbn: u64, end: u64) -> bool {
        let sectors = (end - lbn).next_multiple_of(PHYSICAL);
        let tail = self.order.keys().next().copied().unwrap_or(self.head);
        let bands = self.band(end - 1) - self.band(lbn) + 1;
        // An overwrite in the middle of a piece leaves two of it.
        let pieces = self.pieces.len() as u64 + bands + 1;
        self.landing(sectors) + sectors - tail <= self.rules.cache_sectors
            && pieces <= u64::from(self.rules.cache_writes)
    }

    /// True if nothing waits to be cleaned.
    pub(super) fn is_clean(&self) -> bool {
        self.pieces.is_empty() && self.torn.is_empty()
    }

    /// Says whether a write goes to its band directly, and notes it in its stream.
    pub(super) fn streams_on(&mut self, lbn: u64, end: u64) -> bool {
        let before = self.streams.iter().position(|stream| stream.next == lbn);
        let stream = before.map(|index| self.streams.remove(index));
        let length = stream.map_or(0, |stream| stream.length);
        let goes_on = self.torn.get(&self.band(lbn)) == Some(&lbn);
        let direct = goes_on || length >= u64::from(self.rules.stream_sectors);
        if self.streams.len() == STREAMS {
            let oldest = self.streams.remove(0);
            self.end_stream(oldest);
        }
        self.streams.push(Stream { next: end, length: length + end - lbn, direct });
        if direct {
            self.torn.remove(&self.band(lbn));
            self.forget(lbn, end);
        }
        direct
    }

    fn end_stream(&mut self, stream: Stream) {
        let within = !stream.next.is_multiple_of(u64::from(self.rules.band_sectors));
        if stream.direct && within && stream.next < self.sectors {
            self.torn.insert(self.band(stream.next), stream.next);
        }
    }

    /// Ends all streams: the disk is idle.
    pub(super) fn end_streams(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            self.end_stream(stream);
        }
    }

    /// Puts sectors into the log; [`Shingle::has_room`] has said that they fit.
    pub(super) fn append(&mut self, lbn: u64, end: u64) {
        self.forget(lbn, end);
        let sectors = (end - lbn).next_multiple_of(PHYSICAL);
        let at = self.landing(sectors);
        let mut first = lbn;
        while first < end {
            let last = self.span(self.band(first)).1.min(end);
            let position = at + (first - lbn);
            self.pieces.insert(first, Piece { end: last, at: position });
            self.order.insert(position, first);
            first = last;
        }
        self.head = at + sectors;
    }

    /// Drops sectors from the log, because they are elsewhere now.
    fn forget(&mut self, lbn: u64, end: u64) {
        let cut: Vec<(u64, Piece)> = self.overlapping(lbn, end).collect();
        for (first, piece) in cut {
            self.pieces.remove(&first);
            self.order.remove(&piece.at);
            for (from, to) in [(first, piece.end.min(lbn)), (first.max(end), piece.end)] {
                if from < to {
                    let at = piece.at + (from - first);
                    self.pieces.insert(from, Piece { end: to, at });
                    self.order.insert(at, from);
                }
            }
        }
    }

    fn overlapping(&self, lbn: u64, end: u64) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let before = self.pieces.range(..lbn).next_back();
        let before = before.filter(move |(_, piece)| piece.end > lbn);
        let inside = self.pieces.range(lbn..end.max(lbn));
        before.into_iter().chain(inside).map(|(&first, &piece)| (first, piece))
    }

    /// Where the sectors of a range are, in their order.
    pub(super) fn parts(&self, lbn: u64, end: u64) -> Vec<Part> {
        let (mut parts, mut at) = (Vec::new(), lbn);
        let mut push = |place: u64, count: u64| {
            if count > 0 {
                parts.push(Part { place, count: count as u32 });
            }
        };
        for (first, piece) in self.overlapping(lbn, end) {
            let (from, to) = (first.max(lbn), piece.end.min(end));
            push(at, from - at);
            push(self.on_platter(piece.at + (from - first)), to - from);
            at = to;
        }
        push(at, end - at);
        parts
    }

    /// True if the log holds any of a range.
    pub(super) fn holds(&self, lbn: u64, end: u64) -> bool {
        self.overlapping(lbn, end).next().is_some()
    }

    /// The first sector of a range that the log holds, or its end.
    pub(super) fn home_until(&self, lbn: u64, end: u64) -> u64 {
        self.overlapping(lbn, end).next().map_or(end, |(first, _)| first.max(lbn))
    }

    /// Takes the band that is cleaned next, with what the log holds of it in the order of the log.
    pub(super) fn take(&mut self) -> Option<(u64, Vec<Part>)> {
        let oldest = self.order.values().next().map(|&lbn| self.band(lbn));
        let band = oldest.or_else(|| self.torn.keys().next().copied())?;
        self.torn.remove(&band);
        let (first, end) = self.span(band);
        let mut held: Vec<(u64, Piece)> = self.overlapping(first, end).collect();
        held.sort_unstable_by_key(|(_, piece)| piece.at);
        let part = |&(lbn, piece): &(u64, Piece)| Part {
            place: self.on_platter(piece.at),
            count: (piece.end - lbn) as u32,
        };
        let parts = held.iter().map(part).collect();
        self.forget(first, end);
        Some((band, parts))
    }
}
