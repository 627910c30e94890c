//! Which blocks become hot.

use super::*;
use crate::lfs::format::{Entry, Geometry, Mark, RESERVE};

const PRICES: Prices = Prices { page: 32.77, hole: None };

/// A map of so many stored blocks.
fn map(blocks: u32) -> Map {
    let device_blocks = 2 * u64::from(blocks) + 1000;
    let geometry = Geometry {
        blocks: blocks.into(),
        device_blocks,
        segment: 8,
        aligned: false,
        reserve: RESERVE,
    };
    let mut map = Map::new(&geometry);
    for place in 1..=blocks {
        map.replace(u64::from(place) - 1, Entry::new(place, Mark::default(), 0));
    }
    map
}

/// The volume fills so much of its space.
fn outlook(map: &Map, utilisation: f64) -> Outlook<'_> {
    let stored = map.stored();
    let space = (stored as f64 / utilisation) as u64;
    Outlook {
        map,
        stored,
        space,
        mixed_space: Some(space),
        prices: Some(PRICES),
        block_ns: 1000.0,
        knows_pages: true,
        mechanical: true,
    }
}

/// Writes cost so many times what the model says, or what pages cost; returns when they are done.
fn pay(hylog: &mut Hylog, utilisation: f64, factor: f64) -> Time {
    let writes = hylog.meter.writes;
    if hylog.is_cold_all_over() {
        hylog.meter.page_blocks = writes;
        return hylog.began + (writes as f64 * 1000.0 * PRICES.page) as Time;
    }
    hylog.meter.log_blocks = writes;
    let cost = factor * Found::UNKNOWN.log_cost(hylog.hot_share, utilisation, PRICES);
    hylog.meter.log_ns = (writes as f64 * 1000.0 * cost) as u64;
    hylog.began + hylog.meter.log_ns
}

#[test]
fn a_few_blocks_that_are_written_often_are_hot() {
    let map = map(1000);
    let mut hylog = Hylog::new(1000, INTERVAL, None);
    for _ in 1..=3 {
        for round in 0..40 {
            for block in 0..100 {
                hylog.is_cold_write(block);
            }
            for block in 0..10 {
                hylog.is_cold_write(100 + (round * 10 + block) % 900);
            }
        }
        let now = pay(&mut hylog, 0.97, 1.0);
        assert!(hylog.is_due(1000, now));
        hylog.turn(&outlook(&map, 0.97), now);
    }
    assert!(hylog.hot_share > 0.05 && hylog.hot_share < 0.3, "{}", hylog.hot_share);
    assert!((0..100).all(|block| !hylog.is_cold(block)));
    assert!((200..1000).all(|block| hylog.is_cold(block)));
    assert!(hylog.converting);
}

/// Writes that fall anywhere make some counters larger than others, and mean nothing.
#[test]
fn noise_makes_no_block_hot() {
    let map = map(10_000);
    let mut hylog = Hylog::new(10_000, INTERVAL, None);
    let mut rng = seekless_engine::rng::Rng::stream(1, "noise");
    for _ in 1..=20 {
        (0..5000).for_each(|_| {
            hylog.is_cold_write(rng.below(10_000));
        });
        let now = pay(&mut hylog, 0.9, 1.0);
        hylog.turn(&outlook(&map, 0.9), now);
    }
    assert!(hylog.hot_share >= 1.0 && hylog.changes == 0, "{}", hylog.hot_share);
}

/// Where small writes make the log expensive, everything is overwritten in place; where they are
/// not forced, the log is tried again.
#[test]
fn a_log_that_costs_more_is_given_up() {
    let map = map(10_000);
    let mut hylog = Hylog::new(10_000, INTERVAL, None);
    let mut rng = seekless_engine::rng::Rng::stream(2, "forced");
    let mut interval = |hylog: &mut Hylog, forced: bool| {
        for _ in 0..5000 {
            hylog.is_cold_write(rng.below(10_000));
            if forced {
                hylog.force();
            }
        }
        let now = pay(hylog, 0.8, if forced { 20.0 } else { 1.0 });
        hylog.turn(&outlook(&map, 0.8), now);
    };
    (1..=4).for_each(|_| interval(&mut hylog, true));
    assert!(hylog.hot_share <= 0.0 && hylog.changes == 1, "{}", hylog.hot_share);
    (5..=8).for_each(|_| interval(&mut hylog, false));
    assert!(hylog.hot_share >= 1.0 && hylog.changes == 2, "{}", hylog.hot_share);
}

#[test]
fn a_share_may_be_fixed() {
    let map = map(100);
    let mut hylog = Hylog::new(100, 10, Some(30));
    for block in 0..100 {
        (0..=block / 2).for_each(|_| {
            hylog.is_cold_write(block);
        });
    }
    let unknown = Outlook { prices: None, ..outlook(&map, 0.5) };
    hylog.turn(&unknown, 10);
    let hot = (0..100).filter(|&block| !hylog.is_cold(block)).count();
    assert!((30..=32).contains(&hot), "{hot}");
}

/// A volume is mounted as it was left.
#[test]
fn what_was_overwritten_in_place_is_cold_after_a_mount() {
    let mut map = map(10);
    for block in 0..7 {
        let mark = Mark { unchecked: true, ..Mark::default() };
        map.replace(block, Entry::new(map.get(block).place(), mark, 0));
    }
    let mut hylog = Hylog::new(10, 10, None);
    hylog.restore(&map);
    assert!((0..10).all(|block| hylog.is_cold(block) == (block < 7)));
    assert!((hylog.hot_share - 0.3).abs() < 1e-9);
}
