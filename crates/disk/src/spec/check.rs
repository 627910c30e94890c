//! Checks of a specification: every error names the field and what to do.

mod pattern;
mod seek;

use super::{FastWrite, Mapping, Sparing, Spec, SpecError};

type Checked = Result<(), SpecError>;

fn wrong(field: &str, problem: String) -> Checked {
    Err(SpecError::field(field, problem))
}

/// Everything.
pub(super) fn all(spec: &Spec) -> Checked {
    if !(60.0..=100_000.0).contains(&spec.rpm) {
        return wrong("rpm", format!("{} lies outside 60 to 100000", spec.rpm));
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
    ] {
        time(field, value)?;
    }
    if !(-1000.0..=1000.0).contains(&spec.write_settle_ms) {
        let problem = format!("{} lies outside -1000 to 1000 ms", spec.write_settle_ms);
        return wrong("write_settle_ms", problem);
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
    rules(spec)?;
    let (offered, held) = (spec.capacity_sectors.unwrap_or(0), spec.capacity_sectors());
    if offered > held {
        let problem = format!("{offered} sectors, but the zones hold {held}");
        return wrong("capacity_sectors", problem);
    }
    if held < 8 {
        return wrong("zones", format!("{held} sectors are left for data: not one 4 KiB block"));
    }
    Ok(())
}

fn time(field: &str, ms: f64) -> Checked {
    match (0.0..=1000.0).contains(&ms) {
        true => Ok(()),
        false => wrong(field, format!("{ms} lies outside 0 to 1000 ms")),
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
        (Mapping::Serpentine { band: 0 }, _) => {
            return wrong("mapping.serpentine.band", "must be at least 1".into());
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
    Ok(())
}

fn electronics(spec: &Spec) -> Checked {
    if spec.buffer.bus_mb_per_s.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        return wrong("buffer.bus_mb_per_s", "must be above zero".into());
    }
    let o = &spec.overheads;
    for (field, ms) in [
        ("overheads.read_hit_after_read_ms", o.read_hit_after_read_ms),
        ("overheads.read_hit_after_write_ms", o.read_hit_after_write_ms),
        ("overheads.read_miss_after_read_ms", o.read_miss_after_read_ms),
        ("overheads.read_miss_after_write_ms", o.read_miss_after_write_ms),
        ("overheads.write_hit_after_read_ms", o.write_hit_after_read_ms),
        ("overheads.write_hit_after_write_ms", o.write_hit_after_write_ms),
        ("overheads.write_miss_after_read_ms", o.write_miss_after_read_ms),
        ("overheads.write_miss_after_write_ms", o.write_miss_after_write_ms),
        ("overheads.read_completion_ms", o.read_completion_ms),
        ("overheads.write_completion_ms", o.write_completion_ms),
        ("overheads.minimum_seek_delay_ms", o.minimum_seek_delay_ms),
    ] {
        time(field, ms)?;
    }
    if let Some(bus) = &spec.bus {
        time("bus.read_sector_ms", bus.read_sector_ms)?;
        time("bus.write_sector_ms", bus.write_sector_ms)?;
        time("bus.arbitration_ms", bus.arbitration_ms)?;
    }
    let Some(cache) = &spec.cache else { return Ok(()) };
    if cache.segments == 0 || cache.segments > 1 << 16 {
        return wrong("cache.segments", format!("{} lies outside 1 to 65536", cache.segments));
    }
    if cache.segment_sectors == 0 || cache.segment_sectors > 1 << 24 {
        let problem = format!("{} lies outside 1 to 16777216", cache.segment_sectors);
        return wrong("cache.segment_sectors", problem);
    }
    if cache.write_segments > cache.segments {
        let problem = format!("{} of {} segments", cache.write_segments, cache.segments);
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

fn rules(spec: &Spec) -> Checked {
    for (field, queue) in [("queue", spec.queue), ("host_queue", spec.host_queue)] {
        if !(0.0..=1e6).contains(&queue.age_weight) {
            return wrong(field, format!("age_weight {} is below zero", queue.age_weight));
        }
    }
    if let Some(simple) = &spec.simple {
        time("simple.positioning_ms", simple.positioning_ms)?;
        if !(1e-6..=1e6).contains(&simple.mb_per_s) {
            return wrong("simple.mb_per_s", "must be above zero".into());
        }
    }
    let Some(zoned) = &spec.zoned else { return Ok(()) };
    if zoned.zone_sectors == 0 || !zoned.zone_sectors.is_multiple_of(8) {
        return wrong("zoned.zone_sectors", "must be a multiple of 8 above zero".into());
    }
    if zoned.max_open == 0 {
        return wrong("zoned.max_open", "must be at least 1".into());
    }
    let zones = spec.capacity_sectors().div_ceil(zoned.zone_sectors);
    if u64::from(zoned.conventional_zones) > zones || zones > 1 << 20 {
        let problem = format!("{} of {zones} zones", zoned.conventional_zones);
        return wrong("zoned.conventional_zones", problem);
    }
    Ok(())
}
