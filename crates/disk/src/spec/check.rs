//! Checks of a specification: every error names the field and what to do.

pub(crate) mod pattern;
mod seek;

use super::{Defect, FastWrite, Mapping, Sparing, Spec, SpecError};
use crate::geometry::data_places;
use std::collections::BTreeSet;

/// Zones of a shingled disk, at most: each takes memory once it is written.
const MOST_ZONES: u64 = 1 << 20;

type Checked = Result<(), SpecError>;

fn wrong(field: &str, problem: String) -> Checked {
    Err(SpecError::field(field, problem))
}

/// Everything.
pub(super) fn all(spec: &Spec) -> Checked {
    for (field, text) in [("name", &spec.name), ("summary", &spec.summary)] {
        // Terminals show them, so control characters are refused.
        if text.chars().any(char::is_control) {
            return wrong(field, "control characters are not allowed; leave them out".into());
        }
    }
    if !(60.0..=100_000.0).contains(&spec.rpm) {
        return wrong("rpm", format!("{} lies outside 60 to 100000", shown(spec.rpm)));
    }
    if spec.heads == 0 || spec.heads > 64 {
        return wrong("heads", format!("{} lies outside 1 to 64", spec.heads));
    }
    if spec.cylinders == 0 || spec.cylinders > 1 << 22 {
        return wrong("cylinders", format!("{} lies outside 1 to 4194304", spec.cylinders));
    }
    for (field, value) in [
        ("head_switch_ms", spec.head_switch_ms),
        ("overhead_ms", spec.overhead_ms),
        ("read_settle_ms", spec.read_settle_ms),
        ("write_settle_ms", spec.write_settle_ms),
    ] {
        time(field, value)?;
    }
    sector_size(spec)?;
    match &spec.pattern {
        Some(pattern) => {
            if !spec.zones.is_empty() {
                return wrong("pattern", "excludes `zones`; keep one of them".into());
            }
            pattern::check(spec, pattern)?;
        }
        None => zones(spec)?,
    }
    seek::check("seek", &spec.seek, spec.cylinders)?;
    if let Some(curve) = &spec.write_seek {
        seek::check("write_seek", curve, spec.cylinders)?;
    }
    electronics(spec)?;
    phase(spec)?;
    rules(spec)?;
    let (offered, held) = (spec.capacity_sectors.unwrap_or(0), spec.capacity_sectors());
    if offered > held {
        let problem = format!(
            "{offered} sectors, but the zones hold {held}; write {held} or less, or leave it out"
        );
        return wrong("capacity_sectors", problem);
    }
    if !held.is_multiple_of(spec.sector_size.logical_sectors()) {
        let problem = format!(
            "{held} sectors of 512 bytes are not a whole number of the 4096 bytes that the host \
             addresses; write capacity_sectors = {}",
            held / 8 * 8
        );
        return wrong("capacity_sectors", problem);
    }
    if held < 8 {
        return wrong("zones", format!("{held} sectors are left for data: not one 4 KiB block"));
    }
    Ok(())
}

/// A number as people write it, in few digits.
fn shown(number: f64) -> String {
    match number.abs() {
        0.0 | 1e-6..1e12 => number.to_string(),
        _ => format!("{number:e}"),
    }
}

fn time(field: &str, ms: f64) -> Checked {
    match (0.0..=1000.0).contains(&ms) {
        true => Ok(()),
        false => wrong(field, format!("{} lies outside 0 to 1000 ms", shown(ms))),
    }
}

/// A rate in 10⁶ bytes per second; a kilobyte a second is the least.
fn rate(field: &str, mb_per_s: f64) -> Checked {
    match (1e-3..=1e6).contains(&mb_per_s) {
        true => Ok(()),
        false => wrong(field, format!("{} lies outside 0.001 to 1000000 MB/s", shown(mb_per_s))),
    }
}

fn sector_size(spec: &Spec) -> Checked {
    let size = spec.sector_size;
    for (field, bytes) in
        [("sector_size.logical", size.logical), ("sector_size.physical", size.physical)]
    {
        if bytes != 512 && bytes != 4096 {
            return wrong(field, format!("{bytes} is neither 512 nor 4096"));
        }
    }
    if size.logical > size.physical {
        return wrong("sector_size", "a logical sector is larger than a physical one".into());
    }
    Ok(())
}

fn zones(spec: &Spec) -> Checked {
    if spec.zones.is_empty() || spec.zones.len() > 4096 {
        return wrong("zones", format!("{} zones: 1 to 4096 are possible", spec.zones.len()));
    }
    match (spec.mapping, spec.sparing) {
        (Mapping::Serpentine { band }, _) if band == 0 || band > spec.cylinders => {
            let problem =
                format!("{band} lies outside 1 to the {} cylinders of the disk", spec.cylinders);
            return wrong("mapping.serpentine.band", problem);
        }
        (_, Sparing::Range { cylinders: 0 }) => {
            return wrong("sparing.range.cylinders", "must be at least 1".into());
        }
        _ => {}
    }
    let mut next = 0;
    for index in 0..spec.zones.len() {
        let (first, last) = spec.zone_cylinders(index);
        let number = index + 1;
        if first < next {
            let problem = format!(
                "zone {number} begins at cylinder {first}, but the zone before it ends at {}; \
                 zones must not overlap",
                i64::from(next) - 1
            );
            return wrong("zones.first_cylinder", problem);
        }
        if first > next && !spec.unused_cylinders {
            let problem = format!(
                "zone {number} begins at cylinder {first}, and no zone has cylinder {next}; \
                 close the gap, or write `unused_cylinders = true` if nothing lies there"
            );
            return wrong("zones.first_cylinder", problem);
        }
        if last < first || last >= spec.cylinders {
            let problem = format!(
                "zone {number} ends at cylinder {last}: it begins at {first}, and the disk has {}",
                spec.cylinders
            );
            return wrong("zones.last_cylinder", problem);
        }
        next = last + 1;
        zone(spec, index)?;
    }
    if next < spec.cylinders && !spec.unused_cylinders {
        let (number, end) = (spec.zones.len(), next - 1);
        let problem = format!(
            "zone {number} is the last one and ends at cylinder {end}, but the disk has {}; \
             let it end there, or write `unused_cylinders = true` if nothing lies there",
            spec.cylinders
        );
        return wrong("zones.last_cylinder", problem);
    }
    Ok(())
}

fn zone(spec: &Spec, index: usize) -> Checked {
    let (zone, number) = (&spec.zones[index], index + 1);
    if zone.sectors == 0 || zone.sectors > 1 << 16 {
        let problem = format!("{} of zone {number} lies outside 1 to 65536", zone.sectors);
        return wrong("zones.sectors", problem);
    }
    for (field, skew) in [
        ("zones.track_skew", zone.track_skew),
        ("zones.cylinder_skew", zone.cylinder_skew),
        ("zones.offset", zone.offset),
    ] {
        if !(0.0..f64::from(zone.sectors)).contains(&skew) {
            let problem = format!(
                "{skew} of zone {number} is not between 0 and the {} sectors of a track",
                zone.sectors
            );
            return wrong(field, problem);
        }
    }
    if spec.zone_sectors(index) == 0 {
        let problem = format!("spares and empty space take all of zone {number}; reduce them");
        return wrong("zones.spares", problem);
    }
    if spec.sparing == Sparing::Track && zone.spares >= zone.sectors {
        let problem = format!("{} spares leave nothing of a track of zone {number}", zone.spares);
        return wrong("zones.spares", problem);
    }
    let (first, last) = spec.zone_cylinders(index);
    let tracks = u64::from(last - first + 1) * u64::from(spec.heads);
    let limit = match spec.sparing {
        Sparing::Tracks => tracks,
        _ => tracks * u64::from(zone.sectors),
    };
    if zone.slips.windows(2).any(|pair| pair[0] >= pair[1]) {
        return wrong("zones.slips", format!("those of zone {number} must ascend"));
    }
    let beyond = zone.slips.last().is_some_and(|&slip| slip >= limit)
        || zone.defects.iter().any(|defect| defect.at.max(defect.spare) >= limit);
    if beyond {
        let problem = format!("a defect of zone {number} lies beyond its {limit} sectors");
        return wrong("zones.slips", problem);
    }
    defects(spec, index)
}

/// A defect is replaced by a spare, and each spare replaces one defect.
fn defects(spec: &Spec, index: usize) -> Checked {
    match wrong_defects(spec, index).into_iter().next() {
        None => Ok(()),
        Some((_, problem)) => {
            let remedy = "spares lie where `sparing` and `spares` leave room for them";
            wrong("zones.defects", format!("{problem}; {remedy}"))
        }
    }
}

/// The invalid defects of a zone, by their index, and why. The rest of the zone is valid.
pub(crate) fn wrong_defects(spec: &Spec, index: usize) -> Vec<(usize, String)> {
    let (zone, number) = (&spec.zones[index], index + 1);
    let spares: Vec<u64> = zone.defects.iter().map(|defect| defect.spare).collect();
    if spares.is_empty() {
        return Vec::new();
    }
    let taken = data_places(spec, index, &spares);
    let bad: BTreeSet<u64> = zone.defects.iter().map(|defect| defect.at).collect();
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (place, (Defect { at, spare }, data)) in zone.defects.iter().zip(taken).enumerate() {
        let stands = format!("spare {spare} of zone {number}, which stands for {at},");
        let problem = if at == spare {
            format!("defect {at} of zone {number} is its own spare")
        } else if bad.contains(spare) || zone.slips.binary_search(spare).is_ok() {
            format!("{stands} is defective itself")
        } else if data {
            format!("{stands} holds data of its own")
        } else if !seen.0.insert(*at) {
            format!("defect {at} of zone {number} is given twice")
        } else if !seen.1.insert(*spare) {
            format!("{stands} stands for another defect as well")
        } else {
            continue;
        };
        found.push((place, problem));
    }
    found
}

fn electronics(spec: &Spec) -> Checked {
    rate("buffer.bus_mb_per_s", spec.buffer.bus_mb_per_s)?;
    if spec.buffer.fence_sectors > 1 << 24 {
        let problem = format!("{} lies outside 0 to 16777216", spec.buffer.fence_sectors);
        return wrong("buffer.fence_sectors", problem);
    }
    let o = &spec.overheads;
    let extra = o.extra_disconnect.unwrap_or_default();
    for (field, ms) in [
        ("overheads.read_hit_after_read_ms", o.read_hit_after_read_ms),
        ("overheads.read_hit_after_write_ms", o.read_hit_after_write_ms),
        ("overheads.read_miss_after_read_ms", o.read_miss_after_read_ms),
        ("overheads.read_miss_after_write_ms", o.read_miss_after_write_ms),
        ("overheads.write_hit_after_read_ms", o.write_hit_after_read_ms),
        ("overheads.write_hit_after_write_ms", o.write_hit_after_write_ms),
        ("overheads.write_miss_after_read_ms", o.write_miss_after_read_ms),
        ("overheads.write_miss_after_write_ms", o.write_miss_after_write_ms),
        ("overheads.early_write_ms", o.early_write_ms.unwrap_or(0.0)),
        ("overheads.early_contiguous_write_ms", o.early_contiguous_write_ms.unwrap_or(0.0)),
        ("overheads.write_lead_ms", o.write_lead_ms),
        ("overheads.write_lead_sector_ms", o.write_lead_sector_ms),
        ("overheads.read_completion_ms", o.read_completion_ms),
        ("overheads.write_completion_ms", o.write_completion_ms),
        ("overheads.minimum_seek_delay_ms", o.minimum_seek_delay_ms),
        ("overheads.data_preparation_ms", o.data_preparation_ms),
        ("overheads.reselect_ms", o.reselect_ms),
        ("overheads.later_reselect_ms", o.later_reselect_ms),
        ("overheads.read_disconnect_after_read_ms", o.read_disconnect_after_read_ms),
        ("overheads.read_disconnect_after_write_ms", o.read_disconnect_after_write_ms),
        ("overheads.write_disconnect_ms", o.write_disconnect_ms),
        ("overheads.extra_disconnect.command_ms", extra.command_ms),
        ("overheads.extra_disconnect.disconnect_ms", extra.disconnect_ms),
        ("overheads.extra_disconnect.gap_ms", extra.gap_ms),
        ("overheads.extra_disconnect.second_disconnect_ms", extra.second_disconnect_ms),
        ("overheads.extra_disconnect.seek_delta_ms", extra.seek_delta_ms),
    ] {
        time(field, ms)?;
    }
    for (table, bus) in [("bus", &spec.bus), ("recorded_bus", &spec.recorded_bus)] {
        let Some(bus) = bus else { continue };
        time(&format!("{table}.read_sector_ms"), bus.read_sector_ms)?;
        time(&format!("{table}.write_sector_ms"), bus.write_sector_ms)?;
        time(&format!("{table}.arbitration_ms"), bus.arbitration_ms)?;
        if !(0.0..=1.0).contains(&bus.read_watermark) {
            let problem = format!("{} is not a share from 0 to 1", bus.read_watermark);
            return wrong(&format!("{table}.read_watermark"), problem);
        }
    }
    let Some(cache) = &spec.cache else { return Ok(()) };
    if cache.segments == 0 || cache.segments > 1 << 16 {
        return wrong("cache.segments", format!("{} lies outside 1 to 65536", cache.segments));
    }
    if cache.segment_sectors == 0 || cache.segment_sectors > 1 << 24 {
        let problem = format!("{} lies outside 1 to 16777216", cache.segment_sectors);
        return wrong("cache.segment_sectors", problem);
    }
    if cache.read_ahead_from == 0 {
        return wrong("cache.read_ahead_from", "is 0; write 1 for every read".into());
    }
    if cache.write_segments > cache.segments {
        let problem = format!(
            "{} segments for writes, but the cache has {}; write that many or fewer",
            cache.write_segments, cache.segments
        );
        return wrong("cache.write_segments", problem);
    }
    if let Some(back) = &cache.write_back {
        time("cache.write_back.idle_ms", back.idle_ms)?;
        if back.sectors == 0 || back.writes == 0 {
            return wrong("cache.write_back", "holds nothing; leave it out".into());
        }
        if cache.fast_write != FastWrite::None {
            let problem = "excludes `cache.fast_write`; keep one of them";
            return wrong("cache.write_back", problem.into());
        }
        if spec.simple.is_some() {
            return wrong("cache.write_back", "the three-parameter model has no cache".into());
        }
    }
    Ok(())
}

/// Angles of tracks.
fn phase(spec: &Spec) -> Checked {
    let Some(phase) = &spec.phase else { return Ok(()) };
    let listed = phase.heads.len().max(phase.odd_heads.len());
    if listed > spec.heads as usize {
        let problem = format!("{listed} heads, but the disk has {}", spec.heads);
        return wrong("phase.heads", problem);
    }
    let firsts = phase.zones.windows(2);
    if firsts.into_iter().any(|pair| pair[0].first_cylinder >= pair[1].first_cylinder) {
        return wrong("phase.zones", "their first cylinders must ascend".into());
    }
    let zones = phase.zones.iter().flat_map(|zone| [zone.offset, zone.cylinder, zone.step]);
    for turns in zones.chain(phase.heads.iter().chain(&phase.odd_heads).copied()) {
        if !(-1.0..=1.0).contains(&turns) {
            let problem = format!("{} turns lie outside -1 to 1", shown(turns));
            return wrong("phase", problem);
        }
    }
    Ok(())
}

fn rules(spec: &Spec) -> Checked {
    for (field, queue) in
        [("queue.age_weight", spec.queue), ("host_queue.age_weight", spec.host_queue)]
    {
        if !(0.0..=1e6).contains(&queue.age_weight) {
            let weight = shown(queue.age_weight);
            return wrong(field, format!("{weight} lies outside 0 to 1000000"));
        }
    }
    if let Some(simple) = &spec.simple {
        time("simple.positioning_ms", simple.positioning_ms)?;
        rate("simple.mb_per_s", simple.mb_per_s)?;
    }
    shingled(spec)?;
    let Some(zoned) = &spec.zoned else { return Ok(()) };
    if zoned.zone_sectors == 0 || !zoned.zone_sectors.is_multiple_of(8) {
        return wrong("zoned.zone_sectors", "must be a multiple of 8 above zero".into());
    }
    if zoned.max_open == 0 {
        return wrong("zoned.max_open", "must be at least 1".into());
    }
    if let Some(active) = zoned.max_active.filter(|&active| active < zoned.max_open) {
        let problem = format!("{active} active zones, but {} of them open", zoned.max_open);
        return wrong("zoned.max_active", problem);
    }
    let zones = spec.zone_count(zoned);
    if zones > MOST_ZONES {
        let problem =
            format!("{zones} zones of this size, more than {MOST_ZONES}; make zones larger");
        return wrong("zoned.zone_sectors", problem);
    }
    if u64::from(zoned.conventional_zones) > zones {
        let problem = format!(
            "{} zones, but the disk has {zones}; count those that are conventional",
            zoned.conventional_zones
        );
        return wrong("zoned.conventional_zones", problem);
    }
    Ok(())
}

/// A persistent cache behind the sectors that the disk offers, and bands that fit them.
fn shingled(spec: &Spec) -> Checked {
    let Some(rules) = &spec.shingled else { return Ok(()) };
    time("shingled.idle_ms", rules.idle_ms)?;
    for (field, sectors, most) in [
        ("shingled.band_sectors", u64::from(rules.band_sectors), 1 << 24),
        ("shingled.cache_sectors", rules.cache_sectors, 1 << 40),
    ] {
        if sectors < 8192 || sectors > most || !sectors.is_multiple_of(8) {
            let problem = format!("{sectors} is no multiple of 8 from 8192 to {most}");
            return wrong(field, problem);
        }
    }
    if rules.cache_writes < 64 {
        return wrong("shingled.cache_writes", "must be at least 64".into());
    }
    let (offered, mapped) = (spec.capacity_sectors(), spec.mapped_sectors());
    if offered + rules.cache_sectors > mapped {
        let problem = format!(
            "the zones hold {mapped} sectors, too few for the {} of the persistent cache; write \
             capacity_sectors = {} or less",
            rules.cache_sectors,
            mapped.saturating_sub(rules.cache_sectors)
        );
        return wrong("capacity_sectors", problem);
    }
    if spec.zoned.is_some() {
        return wrong("shingled", "excludes `zoned`; keep one of them".into());
    }
    if spec.simple.is_some() || spec.reports_early() {
        return wrong("shingled", "excludes `simple` and caches that report writes early".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::spec::{Discipline, Spec};

    const DISK: &str = "name = 'x'\nsummary = ''\nrpm = 6000\nheads = 2\ncylinders = 10\n\
        head_switch_ms = 1\noverhead_ms = 0\nseek.constant.ms = 2\n[[zones]]\nsectors = 80\n\
        track_skew = 1\ncylinder_skew = 1\n";

    /// The error for a disk with some lines at its head and some in its zone.
    fn said(top: &str, zone: &str) -> Option<String> {
        let text = format!("{top}\n{DISK}{zone}\n");
        Spec::parse(&text).err().map(|error| error.to_string())
    }

    fn fails(top: &str, zone: &str, part: &str) {
        let said = said(top, zone).unwrap_or_else(|| panic!("{top}{zone} is accepted"));
        assert!(said.contains(part) && said.starts_with("line "), "{said}");
    }

    #[test]
    fn what_the_arithmetic_cannot_hold_is_an_error() {
        for (top, part) in [
            ("queue.age_weight = 1e7", "10000000 lies outside 0 to 1000000"),
            ("zoned = { zone_sectors = 80, conventional_zones = 99, max_open = 2 }", "has 20;"),
            ("mapping.serpentine.band = 4294967295", "4294967295 lies outside 1 to the 10"),
            ("mapping.serpentine.band = 0", "0 lies outside 1 to the 10"),
            ("write_settle_ms = -1", "-1 lies outside 0 to 1000 ms"),
            ("write_settle_ms = nan", "outside 0 to 1000 ms"),
        ] {
            fails(top, "", part);
        }
        let buffer = |fence: &str, rate: &str| {
            format!(
                "buffer = {{ read_ahead = 'forward', fence_sectors = {fence}, \
                 bus_mb_per_s = {rate} }}"
            )
        };
        assert_eq!(said(&buffer("16", "10"), ""), None);
        fails(&buffer("4294967295", "10"), "", "4294967295 lies outside 0 to 16777216");
        for rate in ["1e-300", "inf", "nan", "0", "-1"] {
            fails(&buffer("16", rate), "", "lies outside 0.001 to 1000000 MB/s");
        }
        fails(&buffer("16", "1e-300"), "", ": 1e-300 lies");
        fails("simple = { positioning_ms = 1, mb_per_s = 1e-5 }", "", "0.001 to 1000000 MB/s");
    }

    #[test]
    fn scan_is_another_name_of_look() {
        for name in ["look", "scan"] {
            let text = format!("host_queue.discipline = '{name}'\n{DISK}");
            let spec = Spec::parse(&text).expect("both are known");
            assert_eq!(spec.host_queue.discipline, Discipline::Look);
        }
    }

    /// A table of all tracks is for disks that have few.
    #[test]
    fn a_disk_of_very_many_tracks_is_not_plain() {
        let of = |cylinders: u32| {
            let text = DISK.replace("cylinders = 10\n", &format!("cylinders = {cylinders}\n"));
            Spec::parse(&text).expect("sound").is_plain()
        };
        assert!(of(1 << 19));
        assert!(!of((1 << 19) + 1));
    }

    #[test]
    fn a_disk_ends_with_a_whole_logical_sector() {
        let large = "sector_size = { logical = 4096, physical = 4096 }";
        assert_eq!(said(large, ""), None);
        assert_eq!(said(&format!("{large}\ncapacity_sectors = 1000"), ""), None);
        fails(&format!("{large}\ncapacity_sectors = 1001"), "", "write capacity_sectors = 1000");
        let said_of_zones = said(large, "empty = 3").expect("1597 sectors");
        assert!(said_of_zones.contains("write capacity_sectors = 1592"), "{said_of_zones}");
        let emulated = "sector_size = { logical = 512, physical = 4096 }";
        assert_eq!(said(&format!("{emulated}\ncapacity_sectors = 1001"), ""), None);
    }

    #[test]
    fn a_part_of_a_shingled_disk_is_one_as_well() {
        let rules = "zoned = { zone_sectors = 80, conventional_zones = 5, max_open = 2 }";
        let spec = Spec::parse(&format!("{rules}\n{DISK}")).expect("20 zones");
        for (blocks, conventional) in [(200, 5), (199, 5), (100, 3), (50, 2), (15, 1), (10, 0)] {
            let part = spec.outer(blocks);
            let zoned = part.zoned.expect("still shingled");
            assert_eq!(zoned.conventional_zones, conventional, "{blocks} blocks");
            assert_eq!(part.validate(), Ok(()), "{blocks} blocks");
        }
        let active =
            |most| rules.replace("max_open = 2", &format!("max_open = 2, max_active = {most}"));
        assert_eq!(said(&active(2), ""), None);
        fails(&active(1), "", "1 active zones, but 2 of them open");
    }

    #[test]
    fn a_spare_is_no_other_sector() {
        let spares = |defects: &str| format!("spares = 4\nslips = [3]\ndefects = [{defects}]");
        // Of 1600 sectors the last three are spares, because one is moved on by the slip.
        assert_eq!(said("", &spares("{ at = 5, spare = 1599 }, { at = 6, spare = 1597 }")), None);
        for (defects, part) in [
            ("{ at = 5, spare = 5 }", "defect 5 of zone 1 is its own spare"),
            ("{ at = 5, spare = 6 }", "spare 6 of zone 1, which stands for 5, holds data"),
            ("{ at = 5, spare = 1596 }", "spare 1596 of zone 1, which stands for 5, holds data"),
            ("{ at = 5, spare = 1599 }, { at = 5, spare = 1598 }", "defect 5 of zone 1 is given"),
            (
                "{ at = 5, spare = 1599 }, { at = 6, spare = 1599 }",
                "stands for another defect as well",
            ),
            ("{ at = 5, spare = 1599 }, { at = 1599, spare = 1598 }", "is defective itself"),
            ("{ at = 5, spare = 3 }", "is defective itself"),
        ] {
            fails("", &spares(defects), part);
        }
        // Whole tracks: the last one is a spare.
        let tracks = |spare: u32| format!("spares = 1\ndefects = [{{ at = 2, spare = {spare} }}]");
        assert_eq!(said("sparing = 'tracks'", &tracks(19)), None);
        fails("sparing = 'tracks'", &tracks(18), "spare 18 of zone 1");
    }
}
