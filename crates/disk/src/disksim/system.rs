//! The system round a disk: which blocks are disks, and the bus of a disk.

use super::fields::{Fields, base, named};
use super::parser::{Block, Document, Node, Value};
use super::{ImportError, Mapping};

/// Types that describe a drive or are part of one.
const OF_A_DRIVE: [&str; 9] = [
    "disksim_disk",
    "dm_disk",
    "disksim_bus",
    "disksim_ctlr",
    "disksim_ioqueue",
    "dm_mech_g1",
    "dm_layout_g1",
    "dm_layout_g1_zone",
    "dm_layout_g4",
];

/// The drives; if there are none, the bare models of mechanics. If several are described and one is
/// used, that one.
pub(super) fn disks(document: &Document) -> Vec<&Block> {
    let of = |kind: &str| -> Vec<&Block> {
        document.blocks.iter().filter(|block| base(block, document) == kind).collect()
    };
    let mut found = of("disksim_disk");
    if found.is_empty() {
        found = of("dm_disk");
    }
    // A block that is redefined is ignored, as the language says.
    let mut names = Vec::new();
    found.retain(|block| {
        let new = !names.contains(&&block.name);
        names.push(&block.name);
        new
    });
    let used: Vec<&Block> = found
        .iter()
        .copied()
        .filter(|block| {
            document.instances.iter().any(|made| Some(&made.block) == block.name.as_ref())
        })
        .collect();
    if used.len() == 1 { used } else { found }
}

/// Costs of the way to the host beyond those in the disk's own block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BusTimes {
    /// For a sector to the host, in milliseconds.
    pub(super) read_ms: f64,
    /// For a sector from the host.
    pub(super) write_ms: f64,
    /// Arbitration for the bus.
    pub(super) arbitration_ms: f64,
    /// The files name a bus.
    pub(super) known: bool,
}

/// True if a disk of that name is part of the system that the files describe.
pub(super) fn is_attached(document: &Document, disk: &str) -> bool {
    document.topology.iter().any(|top| path_to(top, disk, document, &mut Vec::new()))
}

/// The bus of the disk.
pub(super) fn bus(
    document: &Document,
    disk: &Block,
    m: &mut Mapping<'_>,
) -> Result<BusTimes, ImportError> {
    name_the_rest(document, m);
    let mut times = BusTimes::default();
    let Some(name) = disk.name.as_deref() else { return Ok(times) };
    let mut path = Vec::new();
    let found = document.topology.iter().any(|top| path_to(top, name, document, &mut path));
    if !found {
        return Ok(times);
    }
    // From the disk upwards: its bus, the controller of that bus, then the host's part.
    let mut controlled = false;
    for (kind, component) in path.iter().rev().skip(1) {
        let block = component_block(document, component);
        let Some(block) = block.filter(|block| base(block, document) == *kind) else { continue };
        let mut fields = Fields::of(block, document, m);
        match *kind {
            "disksim_bus" if !times.known => own_bus(&mut fields, &mut times, m)?,
            "disksim_bus" => far_bus(&mut fields, m)?,
            "disksim_ctlr" if !controlled => {
                controlled = true;
                controller(&mut fields, &mut times, m)?;
            }
            _ => {}
        }
    }
    Ok(times)
}

/// The bus next to the disk.
fn own_bus(
    f: &mut Fields<'_>,
    times: &mut BusTimes,
    m: &mut Mapping<'_>,
) -> Result<(), ImportError> {
    let mut time = |key: &str| -> Result<f64, ImportError> { Ok(f.ms(key, m)?.unwrap_or(0.0)) };
    times.read_ms = time("Read block transfer time")?;
    times.write_ms = time("Write block transfer time")?;
    times.arbitration_ms = time("Arbitration time")?;
    times.known = true;
    m.source("bus", f.place("Read block transfer time"));
    // The arbitration type does not matter with one requester.
    f.ignore(&["type", "Arbitration type", "Print stats"]);
    f.name_the_rest(m);
    Ok(())
}

/// A bus between controller and host is not part of the model.
fn far_bus(f: &mut Fields<'_>, m: &mut Mapping<'_>) -> Result<(), ImportError> {
    for key in ["Arbitration time", "Read block transfer time", "Write block transfer time"] {
        if f.ms(key, m)?.is_some() {
            f.only(key, 0.0, "it is that of a bus beyond the controller", m);
        }
    }
    f.ignore(&["type", "Arbitration type", "Print stats"]);
    f.name_the_rest(m);
    Ok(())
}

/// The controller of the disk's bus, which passes requests on.
fn controller(
    f: &mut Fields<'_>,
    times: &mut BusTimes,
    m: &mut Mapping<'_>,
) -> Result<(), ImportError> {
    let bulk = f.ms("Bulk sector transfer time", m)?.unwrap_or(0.0);
    times.read_ms = times.read_ms.max(bulk);
    times.write_ms = times.write_ms.max(bulk);
    if f.int("type", m)? == Some(3) {
        let why = "it has a cache and a queue of its own, and the model's controller has neither";
        m.warn(f.place("type"), format!("`type` = 3 of the controller is not in the model: {why}"));
    }
    f.only("Scale for delays", 0.0, "the controller takes no time of its own", m);
    f.only("Maximum queue length", 0.0, "the controller holds no commands back", m);
    f.ignore(&["Print stats"]);
    f.name_the_rest(m);
    Ok(())
}

/// Reports the blocks that say nothing about a drive, in one line.
fn name_the_rest(document: &Document, m: &mut Mapping<'_>) {
    let mut others = Vec::new();
    let mut place = None;
    for block in &document.blocks {
        let kind = base(block, document);
        let host = !OF_A_DRIVE.contains(&kind) && !kind.ends_with("_stats");
        if let (true, Some(name)) = (host, &block.name) {
            place.get_or_insert(block.place);
            others.push(format!("{kind} {name}"));
        }
    }
    if let Some(place) = place {
        others.truncate(40);
        let list = others.join(", ");
        m.warn(place, format!("left out, because they describe the host or a run: {list}"));
    }
}

fn component_block<'d>(document: &'d Document, component: &str) -> Option<&'d Block> {
    let made = document.instances.iter().find(|made| made.names.iter().any(|n| n == component));
    named(document, made.map_or(component, |made| &made.block))
}

/// Collects types and names from a component down to one that is made from `disk`.
fn path_to<'d>(
    node: &'d Node,
    disk: &str,
    document: &Document,
    path: &mut Vec<(&'d str, &'d str)>,
) -> bool {
    let Value::Component(kind, name, below) = &node.value else { return false };
    path.push((kind, name));
    let here = component_block(document, name).and_then(|block| block.name.as_deref());
    if here == Some(disk) || below.iter().any(|node| path_to(node, disk, document, path)) {
        return true;
    }
    path.pop();
    false
}
