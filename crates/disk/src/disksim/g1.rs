//! `dm_layout_g1`: zones.

use super::fields::{self, Fields};
use super::lexer::{Place, shorten};
use super::parser::{Block, Document, Node, Value};
use super::{ImportError, Mapping};
use crate::spec::{self, Defect, Sparing, Spec, SpecError, Zone, wrong_defects};

/// Units of skews.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Sectors,
    Turns,
}

/// Fills in the zones.
pub(super) fn map(
    block: &Block,
    document: &Document,
    spec: &mut Spec,
    m: &mut Mapping<'_>,
) -> Result<(), ImportError> {
    let mut f = Fields::of(block, document, m);
    let key = "LBN-to-PBN mapping scheme";
    spec.mapping = match f.int(key, m)?.unwrap_or(0) {
        0 => spec::Mapping::CylinderMajor,
        1 => spec::Mapping::AlternatingInZone,
        2 => spec::Mapping::Alternating,
        other => {
            let problem = format!("mapping scheme {other}");
            return Err(m.error(f.place(key), problem, "0 to 2 are known"));
        }
    };
    m.source("mapping", f.place(key));
    let scheme = sparing(&mut f, spec, m)?;
    let unit = unit(&mut f, m)?.unwrap_or(Unit::Sectors);
    let zones = f.list("Zones", m)?;
    let zones = f.must("Zones", zones, m)?;
    m.source("zones", f.place("Zones"));
    if zones.len() > 4096 {
        let problem = format!("{} zones", zones.len());
        return Err(m.error(f.place("Zones"), problem, "a disk has at most 4096"));
    }
    for (index, node) in zones.iter().enumerate() {
        let Value::Block(block) = &node.value else {
            let problem = "a zone that is not a block";
            return Err(m.error(node.place, problem, "write dm_layout_g1_zone"));
        };
        let zone = zone(block, document, unit, scheme, m)?;
        m.source(format!("zones[{index}]"), block.place);
        reach(&zone, spec, node, m);
        spec.zones.push(zone);
    }
    unused(f.place("Zones"), spec, m);
    f.name_the_rest(m);
    Ok(())
}

/// Zones may leave cylinders out.
fn unused(place: Place, spec: &mut Spec, m: &mut Mapping<'_>) {
    let mut next = 0;
    let mut gaps = Vec::new();
    for zone in &spec.zones {
        if let (Some(first), Some(last)) = (zone.first_cylinder, zone.last_cylinder) {
            if first > next {
                gaps.push(format!("{next} to {}", first - 1));
            }
            next = next.max(last.saturating_add(1));
        }
    }
    if next < spec.cylinders {
        gaps.push(format!("{next} to {}", spec.cylinders - 1));
    }
    if !gaps.is_empty() {
        spec.unused_cylinders = true;
        gaps.truncate(20);
        let gaps = gaps.join(", ");
        m.warn(place, format!("no zone has the cylinders {gaps}: they are empty"));
    }
}

/// Where spares are; returns the number of the scheme.
fn sparing(f: &mut Fields<'_>, spec: &mut Spec, m: &mut Mapping<'_>) -> Result<i64, ImportError> {
    let key = "Rangesize for sparing";
    let cylinders = f.count(key, m)?.unwrap_or(1).max(1);
    let key = "Sparing scheme used";
    let scheme = f.int(key, m)?.unwrap_or(0);
    spec.sparing = match scheme {
        0 | 9 => Sparing::Zone,
        1 => Sparing::Tracks,
        2 => Sparing::Cylinder,
        3 => Sparing::Track,
        4 => Sparing::CylinderSlipToEnd,
        5 => Sparing::CylinderFront,
        6 => Sparing::CylinderFrontSlipToEnd,
        7 => Sparing::End,
        8 => Sparing::Range { cylinders },
        10 => Sparing::ZoneSlipToEnd,
        other => {
            let problem = format!("sparing scheme {other}");
            return Err(m.error(f.place(key), problem, "0 to 10 are known"));
        }
    };
    m.source("sparing", f.place(key));
    Ok(scheme)
}

fn unit(f: &mut Fields<'_>, m: &Mapping<'_>) -> Result<Option<Unit>, ImportError> {
    match f.word("Skew units", m)? {
        None => Ok(None),
        Some("sectors") => Ok(Some(Unit::Sectors)),
        Some("revolutions") => Ok(Some(Unit::Turns)),
        Some(other) => {
            let problem = format!("`Skew units` is `{}`", shorten(other));
            Err(m.error(f.place("Skew units"), problem, "sectors and revolutions are known"))
        }
    }
}

/// Zones may reach beyond the number of cylinders; the disk then has as many as they need.
fn reach(zone: &Zone, spec: &mut Spec, node: &Node, m: &mut Mapping<'_>) {
    let Some(last) = zone.last_cylinder else { return };
    if last >= spec.cylinders && last < 1 << 22 {
        m.warn(
            node.place,
            format!(
                "the zone ends at cylinder {last}, but the disk has {}: it gets {} of them",
                spec.cylinders,
                last + 1
            ),
        );
        spec.cylinders = last + 1;
    }
}

fn zone(
    block: &Block,
    document: &Document,
    unit: Unit,
    scheme: i64,
    m: &mut Mapping<'_>,
) -> Result<Zone, ImportError> {
    let mut f = Fields::of(block, document, m);
    let unit = self::unit(&mut f, m)?.unwrap_or(unit);
    let mut must = |key: &str| -> Result<u32, ImportError> {
        let count = f.count(key, m)?;
        f.must(key, count, m)
    };
    let (first, last) = (must("First cylinder number")?, must("Last cylinder number")?);
    let sectors = must("Blocks per track")?;
    if sectors == 0 {
        let place = f.place("Blocks per track");
        return Err(m.error(place, "a track of 0 sectors", "a track has at least one"));
    }
    let track_skew = skew(&mut f, "Skew for track switch", sectors, unit, m)?;
    let cylinder_skew = skew(&mut f, "Skew for cylinder switch", sectors, unit, m)?;
    let offset = skew(&mut f, "Offset of first block", sectors, unit, m)?;
    let empty = f.count("Empty space at zone front", m)?.unwrap_or(0);
    let mut spares = f.count("Number of spares", m)?.unwrap_or(0);
    let (mut slips, mut defects) = (slips(&mut f, m)?, listed_defects(&mut f, m)?);
    if scheme == 0 && !(slips.is_empty() && defects.is_empty() && spares == 0) {
        m.warn(block.place, "spares, slips and defects have no effect without a sparing scheme");
        (slips, defects, spares) = (Vec::new(), Vec::new(), 0);
    }
    f.name_the_rest(m);
    Ok(Zone {
        first_cylinder: Some(first),
        last_cylinder: Some(last),
        sectors,
        track_skew,
        cylinder_skew,
        offset,
        empty,
        spares,
        slips,
        defects,
    })
}

/// A skew in sectors, less than a turn. Fractions of sectors are cut off, as the format defines; a
/// fraction of a turn is exact.
fn skew(
    f: &mut Fields<'_>,
    key: &str,
    sectors: u32,
    unit: Unit,
    m: &mut Mapping<'_>,
) -> Result<f64, ImportError> {
    let value = f.number(key, m)?.unwrap_or(0.0);
    let turn = f64::from(sectors);
    let (skew, full) = match unit {
        Unit::Sectors => (value.trunc(), format!("the {sectors} sectors of a track")),
        Unit::Turns => (value * turn, "one revolution".to_owned()),
    };
    if value < 0.0 {
        let problem = format!("`{key}` = {value} is negative: sectors come later, never sooner");
        return Err(m.error(f.place(key), problem, format!("it lies between 0 and {full}")));
    }
    if !(0.0..turn).contains(&skew) {
        let problem = format!("`{key}` = {value} is not less than {full}");
        return Err(m.error(f.place(key), problem, "leave whole turns out"));
    }
    if unit == Unit::Sectors && skew != value {
        let text = format!("`{key}` = {value} is cut to {skew}: sectors are counted whole");
        m.warn(f.place(key), text);
    }
    Ok(skew)
}

fn slips(f: &mut Fields<'_>, m: &mut Mapping<'_>) -> Result<Vec<u64>, ImportError> {
    let mut slips = Vec::new();
    for node in f.list("slips", m)?.unwrap_or_default() {
        slips.push(fields::size(node, "slips", m)?);
    }
    if !slips.is_sorted_by(|a, b| a < b) {
        m.warn(f.place("slips"), "the slips were sorted; those given twice count once");
        slips.sort_unstable();
        slips.dedup();
    }
    Ok(slips)
}

/// Leaves out defects that contradict the rest of the disk. Programs extract such lists from
/// drives, and a few sectors make no difference.
pub(super) fn defects(spec: &mut Spec, m: &mut Mapping<'_>) {
    for _ in 0..spec.zones.len() {
        let Err(SpecError::Field { field, problem }) = spec.validate() else { return };
        let index = super::finish::zone_in(&problem).filter(|_| field == "zones.defects");
        let Some(index) = index.filter(|&index| index < spec.zones.len()) else { return };
        let wrong = wrong_defects(spec, index);
        let Some((_, first)) = wrong.first() else { return };
        let (key, all) = (format!("zones[{index}]"), spec.zones[index].defects.len());
        let place = m.sources.iter().find(|(of, _)| *of == key).map(|&(_, place)| place);
        let text = format!("{} of {all} defects were left out: {first}", wrong.len());
        m.warn(place.unwrap_or_default(), text);
        let mut number = 0;
        spec.zones[index].defects.retain(|_| {
            number += 1;
            wrong.binary_search_by_key(&(number - 1), |&(at, _)| at).is_err()
        });
    }
}

fn listed_defects(f: &mut Fields<'_>, m: &mut Mapping<'_>) -> Result<Vec<Defect>, ImportError> {
    let list = f.list("defects", m)?.unwrap_or_default();
    let (pairs, rest) = list.as_chunks::<2>();
    if let [single] = rest {
        let problem = "an odd number of defects";
        return Err(m.error(single.place, problem, "they are pairs: defective, replacement"));
    }
    let mut defects = Vec::new();
    for [at, spare] in pairs {
        let at = fields::size(at, "defects", m)?;
        let spare = fields::size(spare, "defects", m)?;
        // A sector that replaces itself is not a defect.
        if at != spare {
            defects.push(Defect { at, spare });
        }
    }
    Ok(defects)
}
