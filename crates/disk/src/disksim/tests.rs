//! Files in the language of DiskSim: valid, unusual and broken ones.

mod variants;

use super::*;
use crate::spec::geometry::PatternChild;
use crate::spec::{Discipline, FastWrite, Mapping as Order, Prefetch, Seek, Sparing};
use std::collections::BTreeMap;

const MODEL: &str = "\
dm_disk TINY.model {
  Number of data surfaces = 2,
  Number of cylinders = 10, Block count = 1500,
  Mechanical Model = dm_mech_g1 {
    Access time type = trackSwitchPlusRotation,
    Seek type = extracted, Full seek curve = tiny.seek,
    Add. write settling delay = -0.5, Head switch time = 0.25,
    Rotation speed (in rpms) = 6000, Percent error in rpms = 0.0
  },
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 1, Sparing scheme used = 8, Rangesize for sparing = 5,
    Zones = [
      dm_layout_g1_zone { # outer
        First cylinder number = 0, Last cylinder number = 4, Blocks per track = 100,
        Offset of first block = 0.0, Empty space at zone front = 3,
        Skew for track switch = 7.9, Skew for cylinder switch = 12,
        Number of spares = 3, slips = [ 5, 900 ], defects = [ 7, 999 ]
      },
      dm_layout_g1_zone {
        First cylinder number = 5, Last cylinder number = 9, Blocks per track = 80,
        Offset of first block = 0.125, Empty space at zone front = 0,
        Skew units = revolutions,
        Skew for track switch = 0.25, Skew for cylinder switch = 0.5,
        Number of spares = 1, slips = [], defects = []
      }
    ]
  }
}
";

const DISK: &str = "\
disksim_disk TINY {
  Model = source tiny.model,
  Per-request overhead time = 0.5, Time scale for overheads = 2.0,
  Bulk sector transfer time = 0.05, Hold bus entire read xfer = 1, Never disconnect = 0,
  Max queue length = 4,
  Scheduler = disksim_ioqueue { Scheduling policy = 8, Timeout time/weight = 6 },
  Number of buffer segments = 3, Maximum number of write segments = 2,
  Segment size (in blks) = 64, Enable caching in buffer = 1, Buffer continuous read = 4,
  Maximum read-ahead (blks) = 60, Stop prefetch in sector = 1, Fast write level = 2,
  Immediate buffer read = 1, Read hit over. after read = 0.125, Preseeking level = 1
}
";

const SYSTEM: &str = "\
disksim_bus BUS1 { type = 1, Arbitration time = 0.01,
  Read block transfer time = 0.1, Write block transfer time = 0.02 }
disksim_ctlr C { type = 1, Bulk sector transfer time = 0.0 }
source tiny.diskspecs
disksim_pf Proc { Number of processors = 1 }
instantiate [ bus0, bus1 ] as BUS1
instantiate [ disk0 .. disk2 ] as TINY
topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_ctlr C [
  disksim_bus bus1 [ disksim_disk disk0 [], disksim_disk disk1 [] ] ] ] ]
";

fn files() -> BTreeMap<String, String> {
    let seek = "Seek distances measured: 3\n1,\t1.0\n2, 1.5, 0.01\n 7 4.0\n";
    [("tiny.parv", SYSTEM), ("tiny.diskspecs", DISK), ("tiny.model", MODEL), ("tiny.seek", seek)]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}

fn import(
    files: &BTreeMap<String, String>,
    main: &str,
    name: Option<&str>,
) -> Result<Imported, ImportError> {
    let mut fetch = |_: &str, name: &str| -> Result<String, String> {
        files.get(name).cloned().ok_or_else(|| "no such file".to_owned())
    };
    Import::read(main, &mut fetch)?.disk(name, &mut fetch)
}

fn edited(file: &str, from: &str, to: &str) -> BTreeMap<String, String> {
    let mut files = files();
    let text = files.get_mut(file).expect("file");
    assert!(text.contains(from), "{from} is not in {file}");
    *text = text.replacen(from, to, 1);
    files
}

fn fails(files: &BTreeMap<String, String>, parts: &[&str]) {
    let said = import(files, "tiny.parv", None).expect_err("must fail").to_string();
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(said.contains("; "), "no remedy: {said}");
}

#[test]
fn a_whole_system_becomes_a_specification() {
    let imported = import(&files(), "tiny.parv", None).expect("imports");
    let spec = &imported.spec;
    assert_eq!((spec.name.as_str(), spec.heads, spec.cylinders), ("TINY", 2, 10));
    assert_eq!((spec.rpm, spec.head_switch_ms, spec.write_settle_ms), (6000.0, 0.25, 0.0));
    assert_eq!(
        (spec.mapping, spec.sparing),
        (Order::AlternatingInZone, Sparing::Range { cylinders: 5 })
    );
    assert_eq!(spec.capacity_sectors, Some(1500));
    let [outer, inner] = spec.zones.as_slice() else { panic!("two zones") };
    // Fractions of sectors are cut off, fractions of turns are not.
    assert_eq!((outer.track_skew, outer.cylinder_skew, outer.offset), (7.0, 12.0, 0.0));
    assert_eq!((inner.track_skew, inner.cylinder_skew, inner.offset), (20.0, 40.0, 10.0));
    assert_eq!((outer.empty, outer.spares, outer.slips.as_slice()), (3, 3, &[5, 900][..]));
    assert_eq!((outer.defects[0].at, outer.defects[0].spare), (7, 999));
    // The last line of the curve goes on to the last cylinder.
    assert_eq!(spec.seek, Seek::Points(vec![(1, 1.0), (2, 1.5), (7, 4.0), (9, 5.0)]));
    assert_eq!((spec.overhead_ms, spec.overheads.read_hit_after_read_ms), (1.0, 0.25));
    // The slowest link decides.
    let bus = spec.bus.expect("bus");
    assert_eq!((bus.read_sector_ms, bus.write_sector_ms, bus.arbitration_ms), (0.1, 0.05, 0.01));
    let cache = spec.cache.expect("cache");
    assert_eq!((cache.segments, cache.segment_sectors, cache.write_segments), (3, 64, 2));
    assert_eq!((cache.read_ahead, cache.max_read_ahead), (Prefetch::SequentialTrack, 60));
    assert_eq!(cache.fast_write, FastWrite::Any);
    assert!(cache.zero_latency_reads && !cache.zero_latency_writes && !cache.stops_at_sector);
    assert_eq!((spec.queue.depth, spec.queue.discipline), (4, Discipline::Sptf));
}

#[test]
fn the_way_over_the_bus_is_read() {
    let way = "Data preparation overhead = 0.1, First reselect overhead = 0.2,
      Other reselect overhead = 0.3, Read disconnect afterread = 0.4,
      Read disconnect afterwrite = 0.5, Write disconnect overhead = 0.6,
      High (read) water mark = 0.75, Low (write) water mark = 0.5,
      Set watermark by reqsize = 1, Extra write disconnect = 1, Extradisc command overhead = 0.7,
      Extradisc disconnect overhead = 0.8, Extradisc inter-disconnect delay = 0.9,
      Extradisc 2nd disconnect overhead = 1.1, Extradisc seek delta = 1.2";
    let files = edited("tiny.diskspecs", "Preseeking level = 1", way);
    let imported = import(&files, "tiny.parv", None).expect("imports");
    let (spec, o) = (&imported.spec, &imported.spec.overheads);
    // The scale is 2; the pause between two disconnects is not one of the controller.
    assert_eq!((o.data_preparation_ms, o.reselect_ms, o.later_reselect_ms), (0.2, 0.4, 0.6));
    let disconnects = (o.read_disconnect_after_read_ms, o.read_disconnect_after_write_ms);
    assert_eq!((disconnects, o.write_disconnect_ms), ((0.8, 1.0), 1.2));
    let extra = o.extra_disconnect.expect("it leaves the bus once more");
    assert_eq!((extra.command_ms, extra.disconnect_ms, extra.gap_ms), (1.4, 1.6, 0.9));
    assert_eq!((extra.second_disconnect_ms, extra.seek_delta_ms), (2.2, 2.4));
    let bus = spec.bus.expect("bus");
    assert_eq!((bus.read_watermark, bus.read_watermark_sectors), (0.75, 0));
    assert_eq!(crate::Spec::parse(&imported.toml).as_ref(), Ok(spec));
    let named = |part: &str| imported.warnings.iter().any(|text| text.contains(part));
    assert!(named("`Low (write) water mark` = 0.5 is not in the model") && !named("reselect"));
    // Without these the water mark is a share of a segment.
    let files = edited("tiny.diskspecs", "Preseeking level = 1", "High (read) water mark = 0.3");
    let bus = import(&files, "tiny.parv", None).expect("imports").spec.bus.expect("bus");
    assert_eq!((bus.read_watermark, bus.read_watermark_sectors), (0.0, 20));
    let files = edited("tiny.diskspecs", "Preseeking level = 1", "High (read) water mark = 7");
    fails(&files, &["tiny.diskspecs:10", "`High (read) water mark` is 7"]);
}

#[test]
fn what_cannot_be_said_is_named_with_its_place() {
    let warnings = import(&files(), "tiny.parv", None).expect("imports").warnings;
    let has = |part: &str| {
        assert!(warnings.iter().any(|text| text.contains(part)), "{part}: {warnings:?}");
    };
    has("tiny.diskspecs:10: `Preseeking level` = 1");
    has("`Add. write settling delay` = -0.5 is treated as 0");
    has("disksim_pf Proc");
    has("tiny.model:6: the seek curve ends at 7 of 9");
    has("tiny.seek: the third column");
    has("tiny.model:3: `Block count` is 1500, the layout holds");
    let files = edited("tiny.model", "Block count = 1500", "Flavour of data = 3");
    let warnings = import(&files, "tiny.parv", None).expect("imports").warnings;
    let unknown = "tiny.model:3: `Flavour of data` is unknown";
    assert!(warnings.iter().any(|text| text.starts_with(unknown)), "{warnings:?}");
    // Without the system the speed of the bus is unknown.
    let files = edited("tiny.diskspecs", "time = 0.05", "time = 0.0");
    let warnings = import(&files, "tiny.diskspecs", None).expect("imports").warnings;
    assert!(warnings.iter().any(|text| text.contains("import the .parv")), "{warnings:?}");
}

#[test]
fn the_text_is_the_specification_again() {
    let imported = import(&files(), "tiny.parv", None).expect("imports");
    assert_eq!(crate::Spec::parse(&imported.toml).as_ref(), Ok(&imported.spec));
    assert!(imported.toml.contains("# tiny.model:8"), "{}", imported.toml);
    assert!(imported.toml.lines().all(|line| line.chars().count() <= 110), "{}", imported.toml);
}

/// Names of files become part of comments.
#[test]
fn odd_names_do_not_break_the_text() {
    let mut files = edited("tiny.diskspecs", "tiny.model", "ti\u{e}ny.model");
    let model = files.remove("tiny.model").expect("file");
    files.insert("ti\u{e}ny.model".into(), model);
    for main in ["tiny.parv", &format!("a\n = [{}.parv", "1, ".repeat(50))] {
        let system = files["tiny.parv"].clone();
        files.insert(main.into(), system);
        let imported = import(&files, main, None).expect("imports");
        let again = crate::Spec::parse(&imported.toml);
        assert_eq!(again.as_ref(), Ok(&imported.spec), "{}", imported.toml);
    }
}

#[test]
fn every_kind_of_seek_is_read() {
    let from = "Seek type = extracted, Full seek curve = tiny.seek,";
    let with = |seek: &str| {
        import(&edited("tiny.model", from, seek), "tiny.parv", None).expect("imports").spec.seek
    };
    assert_eq!(with("Seek type = constant, Constant seek time = 3.5,"), Seek::Constant { ms: 3.5 });
    let three = "Single cylinder seek time = 1, Average seek time = 4, Full strobe seek time = 9,";
    for (kind, curve) in [("linear", false), ("curve", true)] {
        let seek = with(&format!("Seek type = {kind}, {three}"));
        let expected = Seek::ThreePoints { single_ms: 1.0, average_ms: 4.0, full_ms: 9.0, curve };
        assert_eq!(seek, expected);
    }
    let six = "HPL seek equation values = [ 5, 1.0, 0.5, 2.0, 0.25, -1.0 ],";
    let Seek::Pieces(pieces) = with(&format!("Seek type = hpl, {six}")) else { panic!("pieces") };
    assert_eq!((pieces[0].below, pieces[0].constant_ms, pieces[0].root_ms), (Some(5), 1.0, 0.5));
    assert_eq!((pieces[1].below, pieces[1].constant_ms, pieces[1].linear_ms), (None, 2.0, 0.25));
    let Seek::Listed { first_ms, .. } =
        with(&format!("Seek type = hpl, {}", six.replace("-1.0", "0.75")))
    else {
        panic!("listed")
    };
    assert_eq!(first_ms, [0.75]);
    let ten = "First ten seek times = [ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ],";
    let Seek::Listed { first_ms, pieces } = with(&format!("Seek type = hplplus10, {six} {ten}"))
    else {
        panic!("listed")
    };
    assert_eq!((first_ms.len(), first_ms[9], pieces.len()), (10, 10.0, 2));
    let error = |seek: &str, part: &str| fails(&edited("tiny.model", from, seek), &[part, "tiny"]);
    error("Seek type = magic,", "`magic`");
    error("Seek type = constant,", "lacks `Constant seek time`");
    error("Seek type = hpl, HPL seek equation values = [ 1, 2 ],", "2 values");
    error("Seek type = extracted, Full seek curve = none.seek,", "cannot read none.seek");
}

#[test]
fn every_sparing_scheme_and_mapping_is_read() {
    let schemes = [
        Sparing::Zone,
        Sparing::Tracks,
        Sparing::Cylinder,
        Sparing::Track,
        Sparing::CylinderSlipToEnd,
        Sparing::CylinderFront,
        Sparing::CylinderFrontSlipToEnd,
        Sparing::End,
        Sparing::Range { cylinders: 5 },
        Sparing::Zone,
        Sparing::ZoneSlipToEnd,
    ];
    for (number, sparing) in schemes.iter().enumerate() {
        let to = format!("scheme used = {number}");
        let mut files = edited("tiny.model", "scheme used = 8", &to);
        if number == 1 {
            // Tracks, not sectors.
            let text = files.get_mut("tiny.model").expect("file");
            *text = text.replace(
                "slips = [ 5, 900 ], defects = [ 7, 999 ]",
                "slips = [ 5 ], defects = [ 7, 9 ]",
            );
        }
        let imported = import(&files, "tiny.parv", None).expect("imports");
        assert_eq!(imported.spec.sparing, *sparing, "{number}");
        assert_eq!(imported.spec.zones[0].slips.is_empty(), number == 0);
    }
    for (number, mapping) in
        [Order::CylinderMajor, Order::AlternatingInZone, Order::Alternating].iter().enumerate()
    {
        let files = edited("tiny.model", "scheme = 1", &format!("scheme = {number}"));
        let imported = import(&files, "tiny.parv", None).expect("imports");
        assert_eq!(imported.spec.mapping, *mapping);
    }
    fails(&edited("tiny.model", "scheme used = 8", "scheme used = 11"), &["tiny.model:11"]);
    fails(&edited("tiny.model", "scheme = 1", "scheme = 3"), &["tiny.model:11", "scheme 3"]);
}

#[test]
fn a_block_is_built_on_another() {
    let mut files = files();
    let text = files.get_mut("tiny.diskspecs").expect("file");
    text.push_str("TINY BIGGER { Segment size (in blks) = 128, Max queue length = 9 }\n");
    let bigger = import(&files, "tiny.diskspecs", Some("BIGGER")).expect("imports").spec;
    assert_eq!((bigger.name.as_str(), bigger.heads, bigger.queue.depth), ("BIGGER", 2, 9));
    assert_eq!(bigger.cache.expect("cache").segment_sectors, 128);
    let said = import(&files, "tiny.diskspecs", None).expect_err("two disks").to_string();
    assert!(said.contains("TINY, BIGGER"), "{said}");
    let said = import(&files, "tiny.diskspecs", Some("X")).expect_err("none").to_string();
    assert!(said.contains("no disk is called `X`"), "{said}");
    // The system uses one of them.
    assert_eq!(import(&files, "tiny.parv", None).expect("imports").spec.name, "TINY");
}

/// A tree whose last entry asks for more than there is: the reference simulator never reaches those
/// sectors, and the import names what it cuts.
#[test]
fn a_last_entry_that_asks_for_too_much_is_cut_with_a_note() {
    let begin = MODEL.find("dm_layout_g1 {").expect("layout");
    let with = |from: &str, to: &str| {
        let mut files = files();
        assert!(PATTERN.contains(from), "{from}");
        let model = MODEL[..begin].replace("Block count = 1500", "Flavour of data = 3");
        let tree = PATTERN.replace(from, to).replace("Remaps = [ 5, 1, 9, 1, 95, 100 ]", "");
        files.insert("tiny.model".into(), format!("{model}{tree}"));
        import(&files, "tiny.parv", None).expect("imports")
    };
    let whole = with("0, 0, 0,  950", "0, 0, 0,  950");
    assert_eq!(whole.spec.capacity_sectors(), 1900 - 3);
    // One cylinder too far in: the last track of each surface lies on cylinder 10 of ten.
    let far = with("0, 0, 0,  950", "0, 1, 0,  950");
    let note = "reaches beyond the 10 cylinders; its last 550 sectors were cut off";
    assert!(far.warnings.iter().any(|said| said.contains(note)), "{:?}", far.warnings);
    assert_eq!(far.spec.capacity_sectors(), 1350 - 3);
    // The root is there once and asks for seven sectors more than its node has.
    let more = with("950, 5, 0.0,  1900, 10", "957, 5, 0.0,  957, 5");
    let note = "entry 0 of node 1 asks for 7 sectors more than its child has";
    assert!(more.warnings.iter().any(|said| said.contains(note)), "{:?}", more.warnings);
    assert_eq!(more.spec.capacity_sectors(), 950 - 3);
}

const PATTERN: &str = "dm_layout_g4 {
    TP = [ 0, 99, 100,  0, 89, 100 ],
    IDX = [
      [ 0, 0, 0.0,  100, 1, 0.1,  500, 5, TRACK, 0, 0,
        500, 0, 0.5,  90, 1, 0.1,  450, 5, TRACK, 1, 1 ],
      [ 0, 0, 0,  950, 5, 0.0,  1900, 10, IDX, 0 ]
    ],
    Slips = [ 10, 2, 20, 1 ], Remaps = [ 5, 1, 9, 1, 95, 100 ]
  } }";

#[test]
fn a_tree_of_patterns_is_read() {
    let begin = MODEL.find("dm_layout_g1 {").expect("layout");
    let mut files = files();
    files.insert("tiny.model".into(), format!("{}{PATTERN}", &MODEL[..begin]));
    let spec = import(&files, "tiny.parv", None).expect("imports").spec;
    let pattern = spec.pattern.as_ref().expect("pattern");
    assert_eq!((pattern.root, pattern.tracks.len(), pattern.nodes.len()), (1, 2, 2));
    let [first, second] = pattern.nodes[0].entries.as_slice() else { panic!("two entries") };
    assert_eq!((first.length, first.run, first.cylinder_run), (100, 500, 5));
    assert_eq!((second.offset, second.skew, second.head), (0.5, 0.1, 1));
    assert_eq!((first.child, second.child), (PatternChild::Track(0), PatternChild::Track(1)));
    assert_eq!(pattern.nodes[1].entries[0].child, PatternChild::Node(0));
    assert_eq!(
        pattern.slips.iter().map(|s| (s.at, s.total)).collect::<Vec<_>>(),
        [(10, 2), (20, 3)]
    );
    assert_eq!(pattern.remaps[0].track_sectors, 100);
    assert_eq!(spec.capacity_sectors(), 1500);
    for (from, to, part) in [
        ("TRACK, 1, 1 ]", "TRACK, 1 ]", "ends within an entry"),
        ("TRACK, 1, 1 ]", "GROOVE, 1, 1 ]", "TRACK or IDX"),
        ("0, 89, 100", "0, 100, 100", "sectors 0 to 100"),
        ("IDX, 0 ]", "IDX, 1 ]", "pattern"),
        ("TRACK, 1, 1 ]", "TRACK, 7, 1 ]", "pattern"),
        ("10, 2, 20, 1", "20, 2, 10, 1", "ascend"),
        ("10, 2, 20, 1", "10, 2, 11, 1", "slip 1 begins at 11"),
        ("10, 2, 20, 1", "10, 2, 20, 0", "slip 1 has 2 skipped"),
        ("10, 2, 20, 1", "10, 2, 1899, 2", "slip 1 lies beyond the 1900 sectors"),
        ("  90, 1, 0.1,  450", "  91, 1, 0.1,  450", "repeats 91 sectors, but track 1 has 90"),
        ("950, 5, 0.0,  1900", "960, 5, 0.0,  1900", "repeats 960 sectors, but node 0 has 950"),
        ("500, 0, 0.5,  90", "501, 0, 0.5,  90", "the one before it ends at 500"),
        ("500, 0, 0.5,  90", "490, 0, 0.5,  90", "the one before it ends at 500"),
        ("[ 0, 0, 0,  950", "[ 0, -1, 0,  950", "from cylinder -1 to 8"),
        ("5, 0.0,  1900", "9223372036854775807, 0.0,  1900", "more than any disk has"),
        ("0, 0, 0.0,  100, 1, 0.1", "0, 0, 0.0,  100, 1, 1e300", "turns"),
        ("5, 1, 9, 1, 95, 100", "5, 1, 10, 1, 95, 100", "remap 0 leads to cylinder 10"),
        ("5, 1, 9, 1, 95, 100", "5, 1, 9, 9, 95, 100", "head 9"),
        ("5, 1, 9, 1, 95, 100", "5, 6, 9, 1, 95, 100", "sector 100 of a track of 100"),
        ("5, 1, 9, 1, 95, 100", "5, 1, 9, 1, 95, 0", "sector 95 of a track of 0"),
        ("5, 1, 9, 1, 95, 100", "5, 1, 9, 1, 4294967295, 100", "sector 4294967295 of a track"),
        ("5, 1, 9, 1, 95, 100", "1896, 2, 9, 1, 95, 100", "moves sector 1897"),
        ("5, 1, 9, 1, 95, 100", "5, 2, 9, 1, 95, 100, 6, 1, 9, 1, 0, 100", "remap 1 moves"),
        ("5, 1, 9, 1, 95, 100", "5, 0, 9, 1, 95, 100", "remap 0 has no sectors"),
    ] {
        assert!(PATTERN.contains(from), "{from}");
        let pattern = PATTERN.replace(from, to);
        files.insert("tiny.model".into(), format!("{}{pattern}", &MODEL[..begin]));
        fails(&files, &[part, "tiny.model:"]);
    }
    // The line of the entry, not that of the tree.
    let pattern = PATTERN.replace("500, 0, 0.5,  90", "501, 0, 0.5,  90");
    files.insert("tiny.model".into(), format!("{}{pattern}", &MODEL[..begin]));
    fails(&files, &["tiny.model:14: `pattern.nodes`"]);
}

#[test]
fn broken_files_are_errors_with_file_and_line() {
    let model = |from, to| edited("tiny.model", from, to);
    fails(&model("Number of cylinders = 10,", "Number of cylinders 10,"), &["tiny.model:3"]);
    fails(&model("Number of cylinders = 10,", "Number of cylinders = ,"), &["tiny.model:3"]);
    fails(&model("Number of cylinders = 10,", "Number of cylinders = ten,"), &["tiny.model:3"]);
    fails(&model("Number of cylinders = 10,", ""), &["tiny.model:1", "lacks"]);
    fails(&model("Blocks per track = 100", "Blocks per track = 0"), &["tiny.model:14"]);
    fails(&model("First cylinder number = 5", "First cylinder number = 4"), &["tiny.model:19"]);
    fails(&model("time = 0.25", "time = -0.25"), &["tiny.model:7"]);
    let zones = &MODEL[MODEL.find("Zones = [").expect("zones")..MODEL.rfind("]\n").expect("end")];
    fails(&model(zones, "Zones = ["), &["tiny.model:12", "0 zones: 1 to 4096"]);
    fails(
        &edited("tiny.diskspecs", "= 64", "= 99999999"),
        &["tiny.diskspecs:8", "segment_sectors"],
    );
    fails(&model("= 6000", "= 6"), &["tiny.model:8", "rpm"]);
    fails(&model("defects = [ 7, 999 ]", "defects = [ 7 ]"), &["odd number"]);
    fails(&model("dm_layout_g1 {", "dm_layout_g9 {"), &["tiny.model:10", "dm_layout_g9"]);
    fails(&edited("tiny.diskspecs", "tiny.model", "none"), &["tiny.diskspecs:2", "none"]);
    fails(&edited("tiny.diskspecs", "tiny.model", "tiny.diskspecs"), &["include each other"]);
    fails(&edited("tiny.diskspecs", "level = 2", "level = 3"), &["tiny.diskspecs:9"]);
    fails(&edited("tiny.seek", "2, 1.5", "2; 1.5"), &["tiny.seek:3"]);
    fails(&edited("tiny.parv", "as BUS1", "like BUS1"), &["tiny.parv:6", "`as`"]);
    fails(&edited("tiny.parv", "disk0 .. disk2", "disk0 .. disk999999999"), &["tiny.parv:7"]);
    fails(&edited("tiny.parv", "source tiny.diskspecs", ""), &["no disk"]);
    let deep = "[".repeat(100_000);
    fails(&edited("tiny.parv", "type = 1", &format!("type = {deep}")), &["in each other"]);
}

/// Any change of the files gives a result or an error, never a panic or an endless loop.
#[test]
fn damaged_files_are_survived() {
    let begin = MODEL.find("dm_layout_g1 {").expect("layout");
    let tree = format!("{}{PATTERN}", &MODEL[..begin]);
    let words = [
        "{",
        "}",
        "[",
        "]",
        ",",
        "=",
        "source",
        "-1",
        "0",
        "99999999999999999999",
        "1e308",
        "..",
        "as",
        "tiny.model",
        "\u{fffd}",
        "4294967295",
        "-9223372036854775808",
        "0.0000001",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut good = 0;
    for round in 0..4000 {
        let mut files = files();
        if round % 2 == 0 {
            files.insert("tiny.model".into(), tree.clone());
        }
        let names: Vec<String> = files.keys().cloned().collect();
        for _ in 0..1 + random(3) {
            let text = files.get_mut(&names[random(names.len())]).expect("file");
            let mut parts: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
            let at = random(parts.len().max(1));
            match random(3) {
                0 if at < parts.len() => drop(parts.remove(at)),
                1 if at < parts.len() => parts[at] = words[random(words.len())],
                _ => parts.insert(at.min(parts.len()), words[random(words.len())]),
            }
            *text = parts.join(" ");
        }
        good += usize::from(import(&files, "tiny.parv", None).is_ok());
    }
    assert!(good > 100, "only {good} survived: the test damages too much");
}
