//! Constructs in files of other drives and other branches of DiskSim.

use super::*;
use crate::geometry::{Geometry, Physical};

/// The small system with another curve of seek times.
fn with_curve(text: &str) -> BTreeMap<String, String> {
    let mut files = files();
    files.insert("tiny.seek".into(), text.into());
    files
}

/// Western Digital's branch: a fourth column has the times before writes.
#[test]
fn seek_times_of_writes_may_stand_apart() {
    let text = "Seek distances measured: 3\n1, 1.0, 0.1, 1.5\n2, 1.5, 0.1, 2.0\n7, 4.0, 0.2, 5\n";
    let imported = import(&with_curve(text), "tiny.parv", None).expect("imports");
    let points = |points: &[(u32, f64)]| Seek::Points(points.to_vec());
    assert_eq!(imported.spec.seek, points(&[(1, 1.0), (2, 1.5), (7, 4.0), (9, 5.0)]));
    assert_eq!(
        imported.spec.write_seek,
        // 3 ms for 5 cylinders go on to the last one.
        Some(points(&[(1, 1.5), (2, 2.0), (7, 5.0), (9, 6.2)]))
    );
    assert_eq!(crate::Spec::parse(&imported.toml).as_ref(), Ok(&imported.spec));
    // Without it reads and writes share a curve.
    let plain = import(&with_curve("1 1.0\n9 5.0\n"), "tiny.parv", None).expect("imports").spec;
    assert_eq!((plain.seek, plain.write_seek), (points(&[(1, 1.0), (9, 5.0)]), None));
    fails(&with_curve("1, 1.0, 0, 1.5\n2, 1.5, 0\n"), &["tiny.seek:2", "some lines only"]);
    fails(&with_curve("1, 1.0, 0\n2, 1.5, 0, 2\n"), &["tiny.seek:2", "some lines only"]);
    fails(&with_curve("1, 1.0, 0, soon\n"), &["tiny.seek:1", "`soon`"]);
    fails(&with_curve("1, 1.0, 0, 1, 1\n"), &["tiny.seek:1", "not a point"]);
    fails(&with_curve("1\n"), &["tiny.seek:1", "not a point"]);
    fails(&with_curve("Seek distances measured: 0\n"), &["tiny.seek:1", "no point"]);
}

/// Points behind a distance that is not greater are skipped, and so is a distance of zero.
#[test]
fn seek_curves_are_read_with_their_oddities() {
    let text = "\u{feff}Seek distances measured: 4\r\n# by hand\r\n0, 0.0\r\n1,\t1.0 # one\r\n\
                3, 1.5\r\n2, 9.0\r\n9, 5.0\r\n";
    let imported = import(&with_curve(text), "tiny.parv", None).expect("imports");
    assert_eq!(imported.spec.seek, Seek::Points(vec![(1, 1.0), (3, 1.5), (9, 5.0)]));
    let late = "tiny.seek:6: distance 2 comes too late";
    assert!(imported.warnings.iter().any(|text| text.contains(late)), "{:?}", imported.warnings);
}

/// The line through the last two points would end at a negative time.
#[test]
fn a_curve_that_falls_at_its_end_goes_on_level() {
    let imported =
        import(&with_curve("1, 4.0\n6, 5.0\n7, 3.0\n"), "tiny.parv", None).expect("imports");
    let points = vec![(1, 4.0), (6, 5.0), (7, 3.0), (9, 3.0)];
    assert_eq!(imported.spec.seek, Seek::Points(points));
    let said = "tiny.model:6: the seek curve ends at 7 of 9 cylinders; its end was carried on; \
                where it falls at its end, its last time";
    assert!(imported.warnings.iter().any(|text| text == said), "{:?}", imported.warnings);
}

/// A curve may be invalid although each of its numbers is valid.
#[test]
fn seek_times_that_no_arm_has_are_errors_with_their_line() {
    let from = "Seek type = extracted, Full seek curve = tiny.seek,";
    let with = |seek: &str| edited("tiny.model", from, seek);
    let six = |constant, root| {
        let values = format!("[ 5, {constant}, {root}, 2.0, 0.25, -1.0 ]");
        with(&format!("Seek type = hpl,\n HPL seek equation values = {values},"))
    };
    assert!(import(&six(1.0, 0.5), "tiny.parv", None).is_ok());
    fails(&six(-5.0, -3.0), &["tiny.model:7", "-8 ms over 1 cylinder"]);
    fails(
        &with("Seek type = constant,\n Constant seek time = 1e200,"),
        &["tiny.model:7", "outside 0 to 1000 ms"],
    );
    fails(&with_curve("1, 1.0\n2, 1001\n"), &["tiny.seek:2", "0 to 1000"]);
}

#[test]
fn wrong_values_of_bus_and_controller_are_errors_with_their_line() {
    let system = |from, to| edited("tiny.parv", from, to);
    fails(&system("time = 0.01", "time = -0.01"), &["tiny.parv:1", "`Arbitration time` is -0.01"]);
    fails(
        &system("Read block transfer time = 0.1", "Read block transfer time = fast"),
        &["tiny.parv:2", "`Read block transfer time` is not a number"],
    );
    fails(
        &system("Write block transfer time = 0.02", "Write block transfer time = 1e9"),
        &["tiny.parv:2", "bus.write_sector_ms"],
    );
    let files = system("sector transfer time = 0.0", "sector transfer time = -1");
    // The bus next to the disk is looked at first, then the controller above it.
    fails(&files, &["tiny.parv:3", "`Bulk sector transfer time` is -1"]);
}

#[test]
fn what_bus_and_controller_have_beyond_the_model_is_named() {
    let mut files = edited("tiny.parv", "type = 1, Arb", "Colour of bus = 7, Arb");
    let text = files.get_mut("tiny.parv").expect("file");
    *text = text.replace("disksim_ctlr C { type = 1,", "disksim_ctlr C { type = 3, Scale = 2,");
    text.push_str("disksim_bus FAR { Read block transfer time = 0.5 }\n");
    *text = text.replace("[ bus0, bus1 ] as BUS1", "[ bus0 ] as FAR\ninstantiate [ bus1 ] as BUS1");
    let imported = import(&files, "tiny.parv", None).expect("imports");
    for said in [
        "tiny.parv:1: `Colour of bus` is unknown and was left out",
        "tiny.parv:3: `type` = 3 of the controller is not in the model",
        "tiny.parv:3: `Scale` is unknown",
        "`Read block transfer time` = 0.5 is not in the model: it is that of a bus beyond",
    ] {
        let named = imported.warnings.iter().any(|text| text.contains(said));
        assert!(named, "{said}: {:?}", imported.warnings);
    }
    assert_eq!(imported.spec.bus.expect("bus").read_sector_ms, 0.1);
}

#[test]
fn a_skew_is_less_than_a_turn_and_not_negative() {
    let model = |from: &str, to: &str| edited("tiny.model", from, to);
    let track = |to: &str| model("Skew for track switch = 7.9", to);
    fails(
        &track("Skew for track switch = 100.0"),
        &["tiny.model:16", "`Skew for track switch` = 100 is not less than the 100 sectors"],
    );
    fails(&track("Skew for track switch = -4.0"), &["tiny.model:16", "-4 is negative"]);
    fails(
        &model("Skew for cylinder switch = 0.5", "Skew for cylinder switch = 1.5"),
        &["tiny.model:23", "not less than one revolution"],
    );
    fails(
        &model("Offset of first block = 0.125", "Offset of first block = 4"),
        &["tiny.model:21", "`Offset of first block` = 4 is not less than one revolution"],
    );
    let imported = import(&files(), "tiny.parv", None).expect("imports");
    let said =
        "tiny.model:16: `Skew for track switch` = 7.9 is cut to 7: sectors are counted whole";
    assert!(imported.warnings.iter().any(|text| text == said), "{:?}", imported.warnings);
}

/// A contradictory list of defects does not prevent the import.
#[test]
fn defects_whose_spares_are_none_are_left_out_and_named() {
    let files = edited("tiny.model", "[ 7, 999 ]", "[ 7, 8, 9, 999, 10, 999 ]");
    let imported = import(&files, "tiny.parv", None).expect("imports");
    let kept: Vec<(u64, u64)> =
        imported.spec.zones[0].defects.iter().map(|defect| (defect.at, defect.spare)).collect();
    assert_eq!(kept, [(9, 999)]);
    let said = "tiny.model:13: 2 of 3 defects were left out: spare 8 of zone 1, which stands for \
                7, holds data of its own";
    assert!(imported.warnings.iter().any(|text| text == said), "{:?}", imported.warnings);
    assert_eq!(imported.spec.capacity_sectors, Some(1500));
}

/// A published file has it. The longest of three times counts, so it has no effect.
#[test]
fn a_negative_time_on_the_bus_is_none() {
    let files = edited("tiny.diskspecs", "time = 0.05", "time = -0.015");
    let imported = import(&files, "tiny.parv", None).expect("imports");
    let bus = imported.spec.bus.expect("bus");
    assert_eq!((bus.read_sector_ms, bus.write_sector_ms), (0.1, 0.02));
    let said = "tiny.diskspecs:4: `Bulk sector transfer time` = -0.015 is treated as 0";
    assert!(imported.warnings.iter().any(|text| text == said), "{:?}", imported.warnings);
}

/// Files may lie in directories. Files that they source are found beside them.
#[test]
fn files_in_directories_find_each_other() {
    let mut plain = files();
    let mut files = BTreeMap::new();
    let system = plain["tiny.parv"].replace("source tiny.diskspecs", "source disks/tiny.diskspecs");
    files.insert("tiny.parv".to_owned(), system);
    let disk = plain["tiny.diskspecs"].replace("source tiny.model", "source models/tiny.model");
    files.insert("disks/tiny.diskspecs".to_owned(), disk);
    for name in ["tiny.model", "tiny.seek"] {
        files.insert(format!("disks/models/{name}"), plain.remove(name).expect("file"));
    }
    let mut fetch = |from: &str, name: &str| -> Result<String, String> {
        let path = match from.rsplit_once('/') {
            Some((dir, _)) => format!("{dir}/{name}"),
            None => name.to_owned(),
        };
        files.get(&path).cloned().ok_or_else(|| format!("{path} is not there"))
    };
    let imported = Import::read("tiny.parv", &mut fetch).expect("reads");
    let spec = imported.disk(None, &mut fetch).expect("imports").spec;
    assert_eq!((spec.name.as_str(), spec.cylinders), ("TINY", 10));
}

/// Variants of syntax that the grammar allows: commas at the end, comments everywhere, other ends
/// of lines, numbers in hexadecimal.
#[test]
fn the_grammar_is_read_as_it_is() {
    let disk = DISK
        .replace("Preseeking level = 1\n", "Preseeking level = 0x1, # the end\n")
        .replace("Max queue length = 4,", "Max queue length = 0x9, # hexadecimal")
        .replace('\n', "\r\n");
    let mut files = files();
    files.insert("tiny.diskspecs".into(), format!("\u{feff}# a disk\r\n{disk}"));
    let imported = import(&files, "tiny.parv", None).expect("imports");
    assert_eq!(imported.spec.queue.depth, 9);
    assert!(imported.warnings.iter().any(|text| text.contains("`Preseeking level` = 1")));
    // Files of the version before this language.
    files.insert("tiny.parv".into(), "Byte Order (Endian): Little\nInit Seed: 42\n".into());
    fails(&files, &["tiny.parv:1", "DiskSim 2"]);
    files.insert("tiny.parv".into(), "Init Seed: 42\n".into());
    fails(&files, &["tiny.parv:1", "`:`", "DiskSim 2"]);
}

/// Cylinders without a zone are reported. A hand-written specification must declare them.
#[test]
fn cylinders_that_no_zone_has_are_named() {
    let mut files = edited("tiny.model", "First cylinder number = 5", "First cylinder number = 6");
    let text = files.get_mut("tiny.model").expect("file");
    *text = text.replace("Number of cylinders = 10", "Number of cylinders = 12");
    let imported = import(&files, "tiny.parv", None).expect("imports");
    let said = "no zone has the cylinders 5 to 5, 10 to 11";
    assert!(imported.warnings.iter().any(|text| text.contains(said)), "{:?}", imported.warnings);
    assert!(imported.spec.unused_cylinders);
    let geometry = Geometry::new(&imported.spec).expect("sound");
    // 5 cylinders of 2 tracks of 100 sectors less 3 at the front, 3 spares; then cylinder 6.
    assert_eq!(geometry.physical(993).cylinder, 4);
    assert_eq!(geometry.physical(994).cylinder, 6);
    let strict = imported.toml.replace("unused_cylinders = true", "unused_cylinders = false");
    let said = crate::Spec::parse(&strict).expect_err("gaps").to_string();
    assert!(said.contains("zone 2 begins at cylinder 6") && said.contains("cylinder 5"), "{said}");
}

/// The shape of the published files of this kind: a section of two bands of cylinders in each of
/// which the tracks of a surface follow one another, forth and back; sections repeated by a root.
fn bands(heads: u32, cylinders: u64, sectors: u64) -> String {
    let run = cylinders * sectors;
    let mut entries = Vec::new();
    for band in 0..2 {
        for step in 0..heads {
            let head = if band == 0 { step } else { heads - 1 - step };
            let index = u64::from(band * heads + step);
            let back = step % 2 == 1;
            let (first, along) = match back {
                false => (u64::from(band) * cylinders, cylinders as i64),
                true => ((u64::from(band) + 1) * cylinders - 1, -(cylinders as i64)),
            };
            let lbn = index * run;
            entries.push(format!(
                "{lbn}, {first}, 0.0, {sectors}, 1, 0.125, {run}, {along}, TRACK, 0, {head}"
            ));
        }
    }
    let (section, wide) = (2 * u64::from(heads) * run, 2 * cylinders);
    let root = format!("0, 0, 0.25, {section}, {wide}, 0.5, {}, {}, IDX, 0", 3 * section, 3 * wide);
    format!(
        "dm_layout_g4 {{ TP = [ 0, {}, {sectors} ], IDX = [ [ # section 0\n {} ],\n [ {root} ] ],\n\
         Slips = [ 5, 2 ], Remaps = [] }} }}",
        sectors - 1,
        entries.join(",\n")
    )
}

#[test]
fn bands_of_surfaces_are_read() {
    let begin = MODEL.find("dm_layout_g1 {").expect("layout");
    let mut files = files();
    let model =
        MODEL[..begin].replace("Number of data surfaces = 2", "Number of data surfaces = 4");
    let model =
        model.replace("Number of cylinders = 10, Block count = 1500", "Number of cylinders = 48");
    files.insert("tiny.model".into(), format!("{model}{}", bands(4, 8, 16)));
    let spec = import(&files, "tiny.parv", None).expect("imports").spec;
    // Three sections of two bands of eight cylinders of four tracks of 16 sectors, two skipped.
    assert_eq!(spec.capacity_sectors(), 3 * 2 * 8 * 4 * 16 - 2);
    let geometry = Geometry::new(&spec).expect("sound");
    let at = |lbn| geometry.physical(lbn);
    let place = |cylinder, head, sector| Physical { cylinder, head, sector };
    assert_eq!((at(4), at(5)), (place(0, 0, 4), place(0, 0, 7)));
    // The first surface forth over eight cylinders, the second one back.
    assert_eq!(at(8 * 16 - 3), place(7, 0, 15));
    assert_eq!(at(8 * 16 - 2), place(7, 1, 0));
    assert_eq!(at(9 * 16 - 2), place(6, 1, 0));
    // The second band begins at the surface where the first has ended.
    assert_eq!(at(4 * 8 * 16 - 2), place(8, 3, 0));
    // The second section lies 16 cylinders further in.
    assert_eq!(at(2 * 4 * 8 * 16 - 2), place(16, 0, 0));
    // A quarter of a turn for the root, half a turn for its second repetition, an eighth per track.
    let position = |lbn| {
        let run = geometry.run(lbn);
        run.position as f64 / (run.track_sectors as f64 * crate::geometry::PARTS as f64)
    };
    assert_eq!(position(0), 0.25);
    assert_eq!(position(16 - 2), 0.375);
    // On the way back, too, a track begins later than the one that comes before it.
    assert_eq!((position(8 * 16 - 2), position(9 * 16 - 2)), (0.25, 0.375));
    assert_eq!(position(2 * 4 * 8 * 16 - 2), 0.75);
    for lbn in 0..spec.capacity_sectors() {
        assert_eq!(geometry.lbn(at(lbn)), Some(lbn));
    }
}

/// A disk of four terabytes with forty thousand bands: the import must be quick and small.
#[test]
fn large_trees_are_read_at_once() {
    let begin = MODEL.find("dm_layout_g1 {").expect("layout");
    let mut files = with_curve("1 1.0\n300000 9.0\n");
    let model = MODEL[..begin]
        .replace("Number of data surfaces = 2", "Number of data surfaces = 10")
        .replace("Number of cylinders = 10, Block count = 1500", "Number of cylinders = 310272");
    let mut tree = bands(10, 128, 3072).replace("Slips = [ 5, 2 ]", "Slips = []");
    let section = 2 * 10 * 128 * 3072_u64;
    tree = tree.replace(
        &format!("{}, {}, IDX, 0", 3 * section, 3 * 256),
        &format!("{}, {}, IDX, 0", 1212 * section, 1212 * 256),
    );
    files.insert("tiny.model".into(), format!("{model}{tree}"));
    let spec = import(&files, "tiny.parv", None).expect("imports").spec;
    assert_eq!(spec.capacity_sectors(), 1212 * section);
    let geometry = Geometry::new(&spec).expect("sound");
    let last = geometry.physical(spec.capacity_sectors() - 1);
    assert_eq!((last.head, last.sector), (0, 3071));
    assert_eq!(geometry.lbn(last), Some(spec.capacity_sectors() - 1));
}
