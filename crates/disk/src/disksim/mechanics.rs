//! `dm_mech_g1`: rotation, seek, head switch, settling.

use super::fields::{self, Fields};
use super::lexer::{Place, shorten};
use super::parser::{Block, Document};
use super::{Fetch, ImportError, Mapping};
use crate::spec::{Seek, SeekPiece, Simple, Spec};

/// Fills in the mechanics.
pub(super) fn map(
    block: &Block,
    document: &Document,
    spec: &mut Spec,
    m: &mut Mapping<'_>,
    fetch: Fetch<'_>,
) -> Result<(), ImportError> {
    let kind = fields::base(block, document);
    if kind != "dm_mech_g1" {
        let problem = format!("mechanics of type `{}`", shorten(kind));
        return Err(m.error(block.place, problem, "dm_mech_g1 is known"));
    }
    let mut f = Fields::of(block, document, m);
    let key = "Rotation speed (in rpms)";
    let rpm = f.number(key, m)?;
    spec.rpm = f.must(key, rpm, m)?;
    m.source("rpm", f.place(key));
    let key = "Head switch time";
    spec.head_switch_ms = f.ms(key, m)?.unwrap_or(0.0);
    m.source("head_switch_ms", f.place(key));
    let key = "Add. write settling delay";
    let settle = f.number(key, m)?.unwrap_or(0.0);
    spec.write_settle_ms = settle.max(0.0);
    m.source("write_settle_ms", f.place(key));
    if settle < 0.0 {
        let why = "a write's move takes no less than a read's";
        m.warn(f.place(key), format!("`{key}` = {settle} is treated as 0: {why}"));
    }
    f.only("Percent error in rpms", 0.0, "the platter turns at a constant speed", m);
    access(&mut f, spec, m)?;
    (spec.seek, spec.write_seek) = seek(&mut f, spec.cylinders, m, fetch)?;
    f.name_the_rest(m);
    Ok(())
}

fn access(f: &mut Fields<'_>, spec: &mut Spec, m: &mut Mapping<'_>) -> Result<(), ImportError> {
    let constant = f.ms("Constant access time", m)?;
    match f.word("Access time type", m)? {
        None | Some("trackSwitchPlusRotation") => {}
        Some("averageRotation") => {
            spec.average_rotation = true;
            m.source("average_rotation", f.place("Access time type"));
        }
        Some("constant") => {
            let key = "Constant access time";
            let positioning_ms = f.must(key, constant, m)?;
            // The bus sets the bandwidth, once it is known.
            spec.simple = Some(Simple { positioning_ms, mb_per_s: 1e6 });
            m.source("simple", f.place(key));
        }
        Some(other) => {
            let problem = format!("`Access time type` is `{}`", shorten(other));
            let remedy = "constant, averageRotation and trackSwitchPlusRotation are known";
            return Err(m.error(f.place("Access time type"), problem, remedy));
        }
    }
    Ok(())
}

/// The curve of reads, and that of writes if it was measured separately.
fn seek(
    f: &mut Fields<'_>,
    cylinders: u32,
    m: &mut Mapping<'_>,
    fetch: Fetch<'_>,
) -> Result<(Seek, Option<Seek>), ImportError> {
    let mut writes = None;
    let kind = f.word("Seek type", m)?;
    let kind = f.must("Seek type", kind, m)?;
    m.source("seek", f.place(values_of(kind)));
    let result = match kind {
        "constant" => {
            let ms = f.ms("Constant seek time", m)?;
            Seek::Constant { ms: f.must("Constant seek time", ms, m)? }
        }
        "linear" | "curve" => {
            let mut time = |key: &str| -> Result<f64, ImportError> {
                let ms = f.ms(key, m)?;
                f.must(key, ms, m)
            };
            Seek::ThreePoints {
                single_ms: time("Single cylinder seek time")?,
                average_ms: time("Average seek time")?,
                full_ms: time("Full strobe seek time")?,
                curve: kind == "curve",
            }
        }
        "hpl" => hpl(f, Vec::new(), m)?,
        "hplplus10" => {
            let first = f.list("First ten seek times", m)?;
            let first = f.must("First ten seek times", first, m)?;
            let mut times = Vec::new();
            for node in first.iter().take(64) {
                times.push(fields::number(node, "First ten seek times", m)?);
            }
            if times.len() < 10 {
                let problem = format!("{} first seek times", times.len());
                let place = f.place("First ten seek times");
                return Err(m.error(place, problem, "hplplus10 needs ten"));
            }
            times.truncate(10);
            hpl(f, times, m)?
        }
        "extracted" => {
            let (reads, apart) = extracted(f, cylinders, m, fetch)?;
            writes = apart;
            reads
        }
        other => {
            let problem = format!("`Seek type` is `{}`", shorten(other));
            let remedy = "linear, curve, constant, hpl, hplplus10 and extracted are known";
            return Err(m.error(f.place("Seek type"), problem, remedy));
        }
    };
    // The parameters of the other types have no effect with this one.
    f.ignore(&[
        "Average seek time",
        "Constant seek time",
        "Single cylinder seek time",
        "Full strobe seek time",
        "Full seek curve",
        "First ten seek times",
        "HPL seek equation values",
    ]);
    Ok((result, writes))
}

/// The parameter that has the numbers of a type of curve.
fn values_of(kind: &str) -> &'static str {
    match kind {
        "constant" => "Constant seek time",
        "linear" | "curve" => "Average seek time",
        "hpl" | "hplplus10" => "HPL seek equation values",
        "extracted" => "Full seek curve",
        _ => "Seek type",
    }
}

/// Six values: the distance that divides the pieces, constant and factor of the square root below
/// it, constant and factor of the distance beyond it, and the time for one cylinder or -1.
fn hpl(f: &mut Fields<'_>, first: Vec<f64>, m: &mut Mapping<'_>) -> Result<Seek, ImportError> {
    let key = "HPL seek equation values";
    let list = f.list(key, m)?;
    let list = f.must(key, list, m)?;
    let mut values = Vec::new();
    for node in list.iter().take(64) {
        values.push(fields::number(node, key, m)?);
    }
    let [divide, constant, root, offset, linear, single, ..] = values[..] else {
        let problem = format!("{} values in `{key}`", values.len());
        return Err(m.error(f.place(key), problem, "there must be six"));
    };
    if !(0.0..=f64::from(u32::MAX)).contains(&divide) {
        return Err(m.error(f.place(key), format!("it divides at {divide}"), "write cylinders"));
    }
    let below = SeekPiece {
        below: Some(divide as u32),
        constant_ms: constant,
        root_ms: root,
        linear_ms: 0.0,
    };
    let beyond = SeekPiece { below: None, constant_ms: offset, root_ms: 0.0, linear_ms: linear };
    let pieces = vec![below, beyond];
    Ok(match (first.is_empty(), single) {
        (true, single) if single < 0.0 => Seek::Pieces(pieces),
        (true, single) => Seek::Listed { first_ms: vec![single], pieces },
        (false, _) => Seek::Listed { first_ms: first, pieces },
    })
}

/// A file of measured points. Beyond the last one the line through the last two goes on, unless it
/// falls: no measured arm is faster over a longer distance.
fn extracted(
    f: &mut Fields<'_>,
    cylinders: u32,
    m: &mut Mapping<'_>,
    fetch: Fetch<'_>,
) -> Result<(Seek, Option<Seek>), ImportError> {
    let key = "Full seek curve";
    let name = f.word(key, m)?;
    let name = f.must(key, name, m)?;
    let place = f.place(key);
    let from = m.files.name(place).to_owned();
    let text = fetch(&from, name).map_err(|problem| {
        let problem = format!("cannot read {}: {problem}", shorten(name));
        m.error(place, problem, "the seek curve lies beside the file that names it")
    })?;
    let mut curve = parse_curve(name, &text, place, m)?;
    let full = cylinders.saturating_sub(1);
    let last = curve.reads.last().map_or(0, |&(distance, _)| distance);
    if curve.reads.len() > 1 && last < full {
        let falls = |points: &[(u32, f64)]| matches!(points, [.., (_, a), (_, b)] if b < a);
        let level = if falls(&curve.reads) || falls(&curve.writes) {
            "; where it falls at its end, its last time"
        } else {
            ""
        };
        let text = format!(
            "the seek curve ends at {last} of {full} cylinders; its end was carried on{level}"
        );
        m.warn(place, text);
    }
    go_on(&mut curve.reads, full);
    go_on(&mut curve.writes, full);
    let writes = (!curve.writes.is_empty()).then_some(Seek::Points(curve.writes));
    if writes.is_some() {
        m.source("write_seek", place);
    }
    Ok((Seek::Points(curve.reads), writes))
}

/// Extends a curve to the full stroke.
fn go_on(points: &mut Vec<(u32, f64)>, full: u32) {
    if let [.., (d1, t1), (d2, t2)] = points[..]
        && d2 < full
    {
        let slope = ((t2 - t1) / f64::from(d2 - d1)).max(0.0);
        let ms = t2 + slope * f64::from(full - d2);
        points.push((full, (ms * 1e6).round() / 1e6));
    }
}

/// Content of a file of seek times.
#[derive(Debug, Default)]
struct Curve {
    reads: Vec<(u32, f64)>,
    /// Empty, or for each distance of `reads` the time before a write.
    writes: Vec<(u32, f64)>,
}

/// Lines of `distance, milliseconds`, an optional third number being the deviation and an optional
/// fourth the time before a write, in all lines or in none (the tables of Western Digital's branch
/// of DiskSim).
fn parse_curve(
    file: &str,
    text: &str,
    place: Place,
    m: &mut Mapping<'_>,
) -> Result<Curve, ImportError> {
    let mut curve = Curve::default();
    let mut deviations = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let wrong = |problem: String, remedy: &str| ImportError::At {
            file: file.to_owned(),
            line: u32::try_from(index + 1).unwrap_or(u32::MAX),
            problem,
            remedy: remedy.to_owned(),
        };
        let parts: Vec<&str> =
            line.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect();
        let time = |column: usize| {
            let ms = parts.get(column).and_then(|part| part.parse::<f64>().ok());
            ms.filter(|ms| (0.0..=1000.0).contains(ms))
        };
        let distance = parts.first().and_then(|part| part.parse::<u32>().ok());
        let (Some(distance), Some(ms), 2..=4) = (distance, time(1), parts.len()) else {
            let problem = format!("`{}` is not a point of a seek curve", shorten(line));
            return Err(wrong(problem, "each line is: cylinders, milliseconds (0 to 1000)"));
        };
        deviations |= parts.len() > 2;
        if curve.reads.last().is_some_and(|&(last, _)| distance <= last) {
            let text = format!("{file}:{}: distance {distance} comes too late", index + 1);
            m.warn(place, format!("{text}: left out"));
            continue;
        }
        if distance == 0 {
            continue;
        }
        let apart = match (time(3), parts.len() == 4) {
            (Some(ms), _) => Some(ms),
            (None, false) => None,
            (None, true) => {
                let problem = format!("`{}` is not a time before a write", shorten(parts[3]));
                return Err(wrong(problem, "the fourth column holds milliseconds"));
            }
        };
        if !curve.reads.is_empty() && apart.is_some() == curve.writes.is_empty() {
            let problem = "the fourth column, times before writes, is there in some lines only";
            return Err(wrong(problem.to_owned(), "give it in all lines or in none"));
        }
        curve.reads.push((distance, ms));
        curve.writes.extend(apart.map(|ms| (distance, ms)));
    }
    if deviations {
        m.warn(place, format!("{file}: the third column, deviations, is not in the model"));
    }
    if curve.reads.is_empty() {
        return Err(ImportError::At {
            file: file.to_owned(),
            line: 1,
            problem: "the file holds no point of a seek curve".to_owned(),
            remedy: "each line is: cylinders, milliseconds".to_owned(),
        });
    }
    Ok(curve)
}
