//! Builds the simulated device: over a medium, with a new volume on it.

use super::SimOptions;
use seekless_arrays::{ArrayDisk, AssembleOptions, CreateArray, Level, VolumeError};
use seekless_disk::{Disk, ReadAhead, Spec, SpecError};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{self as engine, MediumDisk};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::dcd::{Order, Shape};
use seekless_layouts::{Kind, dcd};
use std::fmt;

/// The smallest NVRAM buffer: 256 KiB.
const LEAST_NVRAM_BLOCKS: u64 = 64;

type Make = Box<dyn Fn(Box<dyn Medium>) -> Box<dyn Device>>;

/// The device that a volume is simulated on.
pub struct Target {
    name: String,
    blocks: u64,
    /// True if its sectors have headers that layouts may use.
    headers: bool,
    /// True if it takes writes in the order of its zones only.
    zoned: bool,
    make: Make,
    /// An array of so many such devices.
    array: Option<Members>,
    /// The disk for the log of [`Kind::DCD`].
    log: Option<Box<Target>>,
    /// Blocks of an NVRAM buffer in front of log-structured layouts.
    nvram: Option<u64>,
    /// The layout below log-structured ones.
    base: Option<Kind>,
    /// The disk for the log of a file system.
    journal: Option<Box<Target>>,
}

/// An array of equal devices.
#[derive(Clone, Copy, Debug)]
struct Members {
    level: Level,
    count: usize,
    chunk: u32,
    /// Blocks of each.
    blocks: u64,
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
        let (name, make) = (name.to_owned(), Box::new(make));
        let (headers, zoned, array) = (false, false, None);
        let (log, nvram, base, journal) = (None, None, None, None);
        Target { name, blocks, headers, zoned, make, array, log, nvram, base, journal }
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
                // A disk that does not read ahead by default has no limit for it in its
                // specification.
                spec.buffer.fence_sectors = spec.zones.first().map_or(0, |zone| zone.sectors);
            }
        }
        let blocks = spec.capacity_blocks();
        // Try once here, so that building can only fail for a medium that is too large.
        Disk::new(&spec, Box::new(Cells::new(1)))?;
        let name = spec.name.clone();
        let early = spec.reports_early() || spec.shingled.is_some();
        let zoned = spec.zoned.is_some();
        let target = Target::new(&name, blocks, move |medium| {
            Box::new(Disk::new(&spec, medium).expect("specification and size have been checked"))
        });
        let target = Target { zoned, ..target };
        // A cache that reports writes early does not keep the headers that they replace, nor does
        // a disk that moves them.
        Ok(if early { target } else { target.with_headers() })
    }

    /// An array of `members` such devices, with chunks of `chunk` blocks.
    ///
    /// # Errors
    /// Numbers that make no array.
    pub fn array(self, level: Level, members: usize, chunk: u32) -> Result<Target, VolumeError> {
        let (geometry, _) = seekless_arrays::create::shape(level, members, chunk, self.blocks)?;
        let name = format!("{level} of {members} {}", self.name);
        let array = Some(Members { level, count: members, chunk, blocks: self.blocks });
        Ok(Target { name, blocks: geometry.blocks(), headers: false, array, ..self })
    }

    /// The same target with the log of [`Kind::DCD`] on a device of its own. Other layouts ignore
    /// it.
    ///
    /// # Errors
    /// If one of the two is an array.
    pub fn with_log(self, log: Target) -> Result<Target, LayoutError> {
        if self.array.is_some() || log.array.is_some() {
            let reason = "neither a disk with its log apart nor the log can be an array";
            return Err(LayoutError::BadSize(reason.to_owned()));
        }
        Ok(Target { log: Some(Box::new(log)), ..self })
    }

    /// The same target with an NVRAM buffer of `blocks` blocks in front of log-structured layouts
    /// (section 4.4 of the virtual log paper, claim V10). Other layouts ignore it.
    ///
    /// # Errors
    /// A buffer that is too small, or as large as the device.
    pub fn with_nvram(self, blocks: u64) -> Result<Target, LayoutError> {
        if blocks < LEAST_NVRAM_BLOCKS {
            let reason =
                "a buffer of less than 256 KiB has no room for the segments it is cut into";
            return Err(LayoutError::BadSize(reason.to_owned()));
        }
        if blocks >= self.blocks {
            let device = self.blocks;
            return Err(LayoutError::BadSize(format!(
                "a buffer of {blocks} blocks of 4 KiB before a disk of {device}: nothing would \
                 reach the disk; make it smaller"
            )));
        }
        Ok(Target { nvram: Some(blocks), ..self })
    }

    /// The same target with a volume of another layout below log-structured ones: LFS on the
    /// virtual log (section 5 of the virtual log paper). Other layouts ignore it.
    ///
    /// # Errors
    /// If it is an array.
    pub fn with_base(self, base: Kind) -> Result<Target, LayoutError> {
        if self.array.is_some() {
            let reason = format!("an array has no {base} between it and another layout");
            return Err(LayoutError::BadSize(reason));
        }
        Ok(Target { base: Some(base), ..self })
    }

    /// The layout below this one, if there is one.
    fn base(&self, kind: Kind) -> Option<Kind> {
        self.base.filter(|&base| kind.is_log_structured() && base != kind)
    }

    /// The same target with another device for the log of a file system. Without it, that device
    /// equals the first one. Only policies with a log on a volume of its own use it.
    #[must_use]
    pub fn with_journal(self, journal: Target) -> Target {
        Target { journal: Some(Box::new(journal)), ..self }
    }

    /// The device of such a log.
    pub(crate) fn journal(&self) -> &Target {
        self.journal.as_deref().unwrap_or(self)
    }

    /// True if it, or the log of this layout, takes writes in the order of its zones only.
    pub(crate) fn is_zoned(&self, kind: Kind) -> bool {
        self.zoned || self.log(kind).is_some_and(|log| log.zoned)
    }

    /// Refuses a layout that writes elsewhere on a disk of zones than its clients, and an array,
    /// which does so, too.
    ///
    /// # Errors
    /// [`LayoutError::InOrder`].
    pub(crate) fn check_in_order(&self, kind: Kind) -> Result<(), LayoutError> {
        match self.array {
            _ if !self.is_zoned(kind) => Ok(()),
            Some(_) => Err(self.refuse_in_order("an array")),
            None => kind.check_in_order(&self.name_for(kind)),
        }
    }

    /// Why this disk is not for one that writes elsewhere.
    pub(crate) fn refuse_in_order(&self, writer: &str) -> LayoutError {
        LayoutError::InOrder { disk: self.name.clone(), writer: writer.to_owned() }
    }

    /// The size of the buffer, if this layout uses one.
    fn nvram(&self, kind: Kind) -> Option<u64> {
        self.nvram.filter(|_| kind.is_log_structured())
    }

    /// The device of the log, if this layout uses one.
    fn log(&self, kind: Kind) -> Option<&Target> {
        self.log.as_deref().filter(|_| kind == Kind::DCD)
    }

    /// Its name in reports, under a layout.
    pub(crate) fn name_for(&self, kind: Kind) -> String {
        match (self.log(kind), self.nvram(kind)) {
            (Some(log), _) => format!("{}, log on {}", self.name, log.name),
            (None, Some(blocks)) => {
                format!("{}, {} KiB NVRAM", self.name, blocks * BLOCK_BYTES as u64 / 1024)
            }
            (None, None) => match self.base(kind) {
                Some(base) => format!("{base} on {}", self.name),
                None => self.name.clone(),
            },
        }
    }

    /// The largest volume of a layout, in blocks.
    pub(crate) fn largest_volume(&self, kind: Kind) -> u64 {
        let blocks = self.base(kind).map_or(self.blocks, |base| base.largest_volume(self.blocks));
        if self.log(kind).is_some() { self.blocks } else { kind.largest_volume(blocks) }
    }

    /// Memory that answers at once: shows the cost of the software alone.
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

    /// A new volume of a layout with `blocks` blocks on the device.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub(crate) fn volume(
        &self,
        kind: Kind,
        options: &Options,
        blocks: u64,
        seed: u64,
    ) -> Result<Node, LayoutError> {
        let options = SimOptions { seed, options: options.clone(), ..SimOptions::new(kind) };
        build(self, &options, blocks)
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
    let node = build_plain(target, options, blocks)?;
    match target.nvram(options.kind) {
        Some(buffer) => build_buffered(node, buffer, options, blocks),
        None => Ok(node),
    }
}

/// The same without a buffer in front.
fn build_plain(target: &Target, options: &SimOptions, blocks: u64) -> Result<Node, LayoutError> {
    if let Some(members) = target.array {
        return build_array(target, &members, options, blocks);
    }
    if let Some(log) = target.log(options.kind) {
        return build_attached(target, log, options, blocks);
    }
    if let Some(base) = target.base(options.kind) {
        return build_on_base(target, base, options, blocks);
    }
    let SimOptions { kind, seed, headers, ref options, .. } = *options;
    let mut cells = Cells::new(target.blocks());
    if target.headers && headers && kind == Kind::LOGE {
        cells = cells.with_labels();
    }
    let id = u128::from(seed) << 64 | u128::from(blocks);
    // Mounting needs the mechanics and the medium at the same time. A second device over an almost
    // empty medium lends its mechanics.
    let lender = target.device(Box::new(Cells::new(1)));
    let options = match lender.arm() {
        Some(arm) => (kind.suit)(arm, target.blocks(), options.clone()),
        None => options.clone(),
    };
    let format = FormatOptions::new(kind, blocks, id).with(options.clone());
    seekless_layouts::format(&mut MediumDisk(&mut cells), &format)?;
    let volatile = lender.volatile();
    let mount = MountOptions { arm: lender.arm(), volatile, options, ..MountOptions::default() };
    let (layer, _, _) = seekless_layouts::mount(&mut MediumDisk(&mut cells), &mount)?;
    Ok(Node::new(layer, vec![target.device(Box::new(cells))], seed))
}

/// The same on a volume of another layout, as large as the disk has room for. Only a mount reads
/// the superblocks of the upper one: they stay on a blank medium.
fn build_on_base(
    target: &Target,
    base: Kind,
    options: &SimOptions,
    blocks: u64,
) -> Result<Node, LayoutError> {
    let lower = SimOptions { seed: options.seed, ..SimOptions::new(base) };
    let below = Nested::new(build_plain(target, &lower, base.largest_volume(target.blocks()))?);
    let SimOptions { kind, seed, ref options, .. } = *options;
    let id = u128::from(seed) << 64 | u128::from(blocks);
    let mut blank = Cells::new(below.blocks());
    let format = FormatOptions::new(kind, blocks, id).with(options.clone());
    seekless_layouts::format(&mut MediumDisk(&mut blank), &format)?;
    let (volatile, options) = (below.volatile(), options.clone());
    let mount = MountOptions { volatile, options, ..MountOptions::default() };
    let (layer, _, _) = seekless_layouts::mount(&mut MediumDisk(&mut blank), &mount)?;
    Ok(Node::new(layer, vec![Box::new(below)], seed))
}

/// The same with the log of a disk caching disk on a device of its own. The origin is as large as
/// the volume.
fn build_attached(
    target: &Target,
    log: &Target,
    options: &SimOptions,
    blocks: u64,
) -> Result<Node, LayoutError> {
    let (mut home, mut ring) = (Cells::new(blocks), Cells::new(log.blocks()));
    let lenders = [target, log].map(|one| one.device(Box::new(Cells::new(1))));
    let volatile = lenders.iter().any(|one| one.volatile());
    let (arm, chosen) = (lenders[1].arm(), options.options.clone());
    let mount = MountOptions { arm, volatile, options: chosen, ..MountOptions::default() };
    let layer = attach(&mut home, &mut ring, options, blocks, &mount)?;
    let devices = vec![target.device(Box::new(home)), log.device(Box::new(ring))];
    Ok(Node::new(layer, devices, options.seed))
}

/// Attaches a log to a blank origin and mounts the two.
fn attach(
    home: &mut Cells,
    ring: &mut Cells,
    options: &SimOptions,
    blocks: u64,
    mount: &MountOptions<'_>,
) -> Result<Box<dyn Layer>, LayoutError> {
    let SimOptions { seed, ref options, .. } = *options;
    let id = u128::from(seed) << 64 | u128::from(blocks);
    let format = FormatOptions::new(Kind::DCD, blocks, id).with(options.clone());
    dcd::attach(&mut MediumDisk(home), &mut MediumDisk(ring), &format)?;
    let (layer, _, _) = dcd::mount(&mut MediumDisk(home), &mut MediumDisk(ring), mount)?;
    Ok(Box::new(layer))
}

/// An NVRAM buffer in front of a new volume: the log of a disk caching disk, in memory. Large
/// writes bypass it.
fn build_buffered(
    volume: Node,
    buffer: u64,
    options: &SimOptions,
    blocks: u64,
) -> Result<Node, LayoutError> {
    let chosen = Shape::default().onto(options.options.clone());
    let chosen = chosen.with(&dcd::DESTAGE, Order::Location);
    let options = SimOptions { kind: Kind::DCD, options: chosen, ..options.clone() };
    // Only a mount reads the log binding of the origin. It stays on the temporary blank origin.
    let (mut blank, mut ring) = (Cells::new(blocks), Cells::new(buffer));
    let volume = Nested::new(volume);
    let (volatile, chosen) = (volume.volatile(), options.options.clone());
    let mount = MountOptions { volatile, options: chosen, ..MountOptions::default() };
    let layer = attach(&mut blank, &mut ring, &options, blocks, &mount)?;
    let devices: Vec<Box<dyn Device>> = vec![Box::new(volume), Box::new(Ram::new(Box::new(ring)))];
    Ok(Node::new(layer, devices, options.seed))
}

/// The same on an array.
fn build_array(
    target: &Target,
    members: &Members,
    options: &SimOptions,
    blocks: u64,
) -> Result<Node, LayoutError> {
    let SimOptions { kind, seed, ref options, .. } = *options;
    let &Members { level, count, chunk, blocks: device } = members;
    let id = u128::from(seed) << 64 | u128::from(blocks);
    let mut cells: Vec<Cells> = (0..count).map(|_| Cells::new(device)).collect();
    let mut plain: Vec<_> = cells.iter_mut().map(|cells| MediumDisk(cells)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn engine::Disk).collect();
    seekless_arrays::create(&mut disks, &CreateArray { level, chunk, id, blank: true })?;
    let volatile = target.device(Box::new(Cells::new(1))).volatile();
    let mut disks: Vec<_> = disks.into_iter().map(Some).collect();
    let below = AssembleOptions { volatile, ..AssembleOptions::default() };
    let mut found = seekless_arrays::assemble(&mut disks, &below)?;
    let mut disk = ArrayDisk::new(&mut found.array, &mut disks);
    let format = FormatOptions::new(kind, blocks, id).with(options.clone());
    seekless_layouts::format(&mut disk, &format)?;
    let options = options.clone();
    let mount = MountOptions { volatile, options, ..MountOptions::default() };
    let (layer, _, _) = seekless_layouts::mount(&mut disk, &mount)?;
    let devices = cells.into_iter().map(|cells| target.device(Box::new(cells))).collect();
    let array = Node::new(Box::new(found.array), devices, seed);
    Ok(Node::new(layer, vec![Box::new(Nested::new(array))], seed))
}
