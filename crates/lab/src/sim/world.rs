//! Builds what is simulated: a device over a medium with a freshly made volume on it.

use super::SimOptions;
use seekless_disk::{Disk, ReadAhead, Spec, SpecError};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::{self, lfs, FormatOptions, Kind, LayoutError, MountOptions};
use seekless_engine::node::Node;
use std::fmt;

type Make = Box<dyn Fn(Box<dyn Medium>) -> Box<dyn Device>>;

/// What a volume is simulated on.
pub struct Target {
    name: String,
    blocks: u64,
    /// Its sectors have headers that layouts may use.
    headers: bool,
    make: Make,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} blocks", self.name, self.blocks)
    }
}

impl Target {
    /// Any device: `make` builds one over a medium of at most `blocks` blocks. Its mechanics must
    /// not depend on the medium.
    pub fn new(
        name: &str,
        blocks: u64,
        make: impl Fn(Box<dyn Medium>) -> Box<dyn Device> + 'static,
    ) -> Target {
        Target { name: name.to_owned(), blocks, headers: false, make: Box::new(make) }
    }

    /// The same target with sector headers that layouts may use, as disks have them.
    pub fn with_headers(self) -> Target {
        Target { headers: true, ..self }
    }

    /// A mechanical disk, with its own read-ahead policy or another one.
    ///
    /// # Errors
    /// A specification that cannot be simulated.
    pub fn disk(spec: &Spec, read_ahead: Option<ReadAhead>) -> Result<Target, SpecError> {
        let mut spec = spec.clone();
        if let Some(policy) = read_ahead {
            spec.buffer.read_ahead = policy;
            if spec.buffer.fence_sectors == 0 {
                // A disk that does not read ahead by itself says nothing about how far it would.
                spec.buffer.fence_sectors = spec.zones.first().map_or(0, |zone| zone.sectors);
            }
        }
        let blocks = spec.capacity_blocks();
        // Tried once here, so that building it can only fail for a medium that is too large.
        Disk::new(&spec, Box::new(Cells::new(1)))?;
        let (name, plain) = (spec.name.clone(), spec.is_plain());
        let target = Target::new(&name, blocks, move |medium| {
            Box::new(Disk::new(&spec, medium).expect("specification and size have been checked"))
        });
        // A cache that reports writes early does not keep the headers that they replace.
        Ok(if plain { target.with_headers() } else { target })
    }

    /// Memory that answers at once: shows what the software alone costs.
    pub fn ram(blocks: u64) -> Target {
        Target::new("ram", blocks, |medium| Box::new(Ram::new(medium)))
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in blocks of 4 KiB.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The device over a medium of that size.
    pub fn device(&self, medium: Box<dyn Medium>) -> Box<dyn Device> {
        (self.make)(medium)
    }
}

/// Makes a volume of `blocks` blocks and mounts it.
///
/// # Errors
/// Sizes that do not fit.
pub(super) fn build(
    target: &Target,
    options: &SimOptions,
    blocks: u64,
) -> Result<Node, LayoutError> {
    let SimOptions { kind, seed, tuning, heuristic, headers, segment, .. } = *options;
    let mut cells = Cells::new(target.blocks());
    if target.headers && headers && kind == Kind::Loge {
        cells = cells.with_labels();
    }
    let id = u128::from(seed) << 64 | u128::from(blocks);
    // Mounting needs the mechanics and the medium at once; the device that lends its mechanics
    // here has next to nothing on it.
    let lender = target.device(Box::new(Cells::new(1)));
    let suits = |arm| lfs::segment_for(arm, target.blocks());
    let segment = segment.or_else(|| lender.arm().map(suits));
    let options = FormatOptions { heuristic, segment, ..FormatOptions::new(kind, blocks, id) };
    layout::format(&mut MediumDisk(&mut cells), &options)?;
    let options =
        MountOptions { arm: lender.arm(), volatile: lender.volatile(), read_only: false, tuning };
    let (layer, _, _) = layout::mount(&mut MediumDisk(&mut cells), &options)?;
    Ok(Node::new(layer, vec![target.device(Box::new(cells))], seed))
}
