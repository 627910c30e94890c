use super::*;
use crate::spec::geometry::{PatternChild, PatternEntry, PatternNode, PatternTrack};
use crate::spec::{Defect, Mapping, Pattern, Seek, Sparing, Zone};
use seekless_engine::rng::Rng;

fn spec(heads: u32, cylinders: u32, zones: Vec<Zone>) -> Spec {
    let text = "name='t'\nsummary=''\nrpm=6000\nheads=1\ncylinders=1\nhead_switch_ms=1\n\
                overhead_ms=0\nseek={constant={ms=1}}\n\
                zones=[{sectors=64,track_skew=0,cylinder_skew=0}]";
    let mut spec = Spec::parse(text).unwrap();
    (spec.heads, spec.cylinders, spec.zones) = (heads, cylinders, zones);
    spec.seek = Seek::Constant { ms: 1.0 };
    spec
}

fn zone(sectors: u32, last: u32) -> Zone {
    Zone {
        sectors,
        last_cylinder: Some(last),
        track_skew: 3.0,
        cylinder_skew: 5.0,
        ..Zone::default()
    }
}

/// Every sector has a place of its own, the way back leads to it, and runs agree with single
/// sectors.
fn check(spec: &Spec) {
    let geometry = Geometry::new(spec).unwrap();
    let mut seen = std::collections::HashSet::new();
    let mut lbn = 0;
    while lbn < geometry.sectors() {
        let run = geometry.run(lbn);
        assert!(run.count > 0);
        for inside in 0..u64::from(run.count).min(geometry.sectors() - lbn) {
            let at = geometry.physical(lbn + inside);
            assert_eq!((at.cylinder, at.head), (run.cylinder, run.head));
            assert!(at.sector < run.track_sectors);
            let turn = u64::from(run.track_sectors) * PARTS;
            let here = geometry.run(lbn + inside).position;
            assert_eq!(here, (run.position + inside * PARTS) % turn, "{lbn}+{inside}");
            assert!(seen.insert((at.cylinder, at.head, at.sector)));
            assert_eq!(geometry.lbn(at), Some(lbn + inside), "{at:?}");
        }
        lbn += u64::from(run.count);
    }
    assert_eq!(seen.len() as u64, geometry.sectors());
}

#[test]
fn every_sparing_and_mapping_goes_there_and_back() {
    let sparings = [
        Sparing::Zone,
        Sparing::ZoneSlipToEnd,
        Sparing::Tracks,
        Sparing::Track,
        Sparing::Cylinder,
        Sparing::CylinderSlipToEnd,
        Sparing::CylinderFront,
        Sparing::CylinderFrontSlipToEnd,
        Sparing::End,
        Sparing::Range { cylinders: 2 },
    ];
    let mappings = [
        Mapping::CylinderMajor,
        Mapping::AlternatingInZone,
        Mapping::Alternating,
        Mapping::Serpentine { band: 4 },
    ];
    for sparing in sparings {
        for mapping in mappings {
            let mut spec = spec(3, 20, vec![zone(40, 5), zone(31, 11), zone(17, 18)]);
            (spec.sparing, spec.mapping) = (sparing, mapping);
            spec.unused_cylinders = true;
            for (index, zone) in spec.zones.iter_mut().enumerate() {
                zone.spares = 4;
                zone.empty = 2 * index as u32;
                if index > 0 && sparing != Sparing::Track {
                    zone.slips = vec![2, 7];
                }
            }
            if sparing == Sparing::Zone {
                spec.zones[1].defects = vec![Defect { at: 20, spare: 31 * 18 - 1 }];
            }
            check(&spec);
        }
    }
}

#[test]
fn a_slip_moves_what_follows_in_its_area_only() {
    let mut zones = vec![zone(10, 3)];
    zones[0].spares = 2;
    zones[0].slips = vec![3, 4, 25];
    let mut spec = spec(2, 4, zones);
    spec.sparing = Sparing::Cylinder;
    let geometry = Geometry::new(&spec).unwrap();
    let sector = |lbn| geometry.physical(lbn).sector;
    assert_eq!([2, 3, 4].map(sector), [2, 5, 6]);
    // 18 sectors of data in a cylinder of 20; the second cylinder has a slip of its own.
    let at = geometry.physical(18);
    assert_eq!((at.cylinder, at.head, at.sector), (1, 0, 0));
    assert_eq!([22, 23].map(sector), [4, 6]);
    assert_eq!(geometry.run(0).count, 3);
}

#[test]
fn skews_add_up_along_the_zone() {
    let spec = spec(2, 8, vec![zone(10, 7)]);
    let geometry = Geometry::new(&spec).unwrap();
    let start = |track: u64| geometry.run(track * 10).position / PARTS;
    assert_eq!([0, 1, 2, 3, 4].map(start), [0, 3, 8, 1, 6]);
}

#[test]
fn ends_of_tracks_and_cylinders() {
    let mut zones = vec![zone(10, 7)];
    zones[0].slips = vec![4];
    zones[0].spares = 1;
    let spec = spec(2, 8, zones);
    let geometry = Geometry::new(&spec).unwrap();
    assert_eq!((geometry.track_end(0), geometry.track_end(9)), (9, 19));
    assert_eq!((geometry.cylinder_end(0), geometry.cylinder_end(19)), (19, 39));
}

#[test]
fn a_tree_is_a_serpentine() {
    // Bands of three cylinders: head 0 inwards, head 1 outwards; four bands.
    let entry = |lbn, length, run, cylinder, cylinder_length, cylinder_run, head, child| {
        let (offset, skew) = (0.25, 0.125);
        PatternEntry {
            lbn,
            length,
            run,
            cylinder,
            cylinder_length,
            cylinder_run,
            offset,
            skew,
            head,
            child,
        }
    };
    let track = PatternChild::Track(0);
    let band = PatternNode {
        entries: vec![entry(0, 8, 24, 0, 1, 3, 0, track), entry(24, 8, 24, 2, 1, -3, 1, track)],
    };
    let root = PatternNode { entries: vec![entry(0, 48, 192, 0, 3, 12, 0, PatternChild::Node(0))] };
    let mut spec = spec(2, 12, vec![]);
    spec.pattern = Some(Pattern {
        root: 1,
        slips: vec![
            crate::spec::geometry::PatternSlip { at: 10, total: 2 },
            crate::spec::geometry::PatternSlip { at: 90, total: 3 },
        ],
        remaps: vec![],
        tracks: vec![PatternTrack { first: 0, last: 7, sectors: 8 }],
        nodes: vec![band, root],
    });
    check(&spec);
    let geometry = Geometry::new(&spec).unwrap();
    assert_eq!(geometry.sectors(), 189);
    let at = |lbn| {
        let at = geometry.physical(lbn);
        (at.cylinder, at.head, at.sector)
    };
    assert_eq!([0, 9, 10, 22].map(at), [(0, 0, 0), (1, 0, 1), (1, 0, 4), (2, 1, 0)]);
    let pattern = spec.pattern.as_mut().expect("it has one");
    pattern.nodes[1].entries[0].lbn = 1;
    let said = spec.validate().expect_err("sector 0 lies nowhere").to_string();
    assert!(said.contains("before the first entry of node 1"), "{said}");
}

/// A section that is there in part reaches as far as that part.
#[test]
fn a_tree_may_end_within_a_repetition() {
    let entry = |length, run, cylinder_run, child| PatternEntry {
        lbn: 0,
        length,
        run,
        cylinder: 0,
        cylinder_length: if cylinder_run < 5 { 1 } else { 4 },
        cylinder_run,
        offset: 0.0,
        skew: 0.0,
        head: 0,
        child,
    };
    let mut spec = spec(1, 6, vec![]);
    let four = PatternNode { entries: vec![entry(8, 32, 4, PatternChild::Track(0))] };
    let root = PatternNode { entries: vec![entry(32, 48, 8, PatternChild::Node(0))] };
    spec.pattern = Some(Pattern {
        root: 1,
        tracks: vec![PatternTrack { first: 0, last: 7, sectors: 8 }],
        nodes: vec![four, root],
        ..Pattern::default()
    });
    check(&spec);
    spec.cylinders = 5;
    let said = spec.validate().expect_err("it reaches the sixth cylinder").to_string();
    assert!(said.contains("from cylinder 0 to 5, but the disk has 0 to 4"), "{said}");
}

#[test]
fn large_disks_need_no_tables() {
    let mut zones: Vec<Zone> = Vec::new();
    for number in 0..30 {
        zones.push(Zone {
            sectors: 4800 - 80 * number,
            last_cylinder: Some(20_000 * (number + 1) - 1),
            track_skew: 400.5,
            cylinder_skew: 600.25,
            ..Zone::default()
        });
    }
    let mut spec = spec(20, 600_000, zones);
    spec.mapping = Mapping::Serpentine { band: 128 };
    let geometry = Geometry::new(&spec).unwrap();
    assert!(geometry.sectors() * 512 > 20_000_000_000_000);
    let mut rng = Rng::stream(3, "large");
    for _ in 0..20_000 {
        let lbn = rng.below(geometry.sectors());
        assert_eq!(geometry.lbn(geometry.physical(lbn)), Some(lbn));
    }
}
