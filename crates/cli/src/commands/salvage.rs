//! `seekless salvage`: copies what is certain of a damaged volume, with a map of the holes.

use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress;
use crate::volume::Volume;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::size::Size;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::open_salvage;
use seekless_layouts::salvage::{Lost, Salvage};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Arguments of `seekless salvage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless salvage disk.img --to copy.raw
  seekless salvage disk.img --to copy.raw --map holes.map
  seekless salvage a.img b.img c.img --to copy.raw         # an array
  seekless salvage disk.img --to copy.raw --allow-stale

Nothing is written to the image. The copy holds the volume as a raw disk; what is lost is a hole in
it. The map lists what was copied (+) and what is lost (-) in the format of GNU ddrescue. The exit
code is 1 if anything is lost, or may be stale.

`seekless serve --salvage` serves the same without a copy.")]
pub struct Args {
    /// The image; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    image: Vec<PathBuf>,
    /// The copy, a new file.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The map of the holes, a new file; the name of the copy with `.map` if left out.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Where the newest content is not certain, take the newest that is found.
    #[arg(long)]
    allow_stale: bool,
    /// Go on without members of an array that should be there.
    #[arg(long)]
    degraded: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A report names at most so many damaged structures.
const MOST_NAMED: usize = 20;

/// Copies and prints what is lost.
///
/// # Errors
/// If anything is lost, the image holds no volume, or a file cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut volume = Volume::open(&args.image, args.degraded, None)?;
    let salvage = volume.with(open_salvage)?;
    let map = args.map.clone().unwrap_or_else(|| with_suffix(&args.to));
    let copy = create(&args.to)?;
    let mut map_file = create(&map)?;
    let copied = volume.with(|disk| Ok(copy_all(args, &salvage, disk, &copy)))?;
    let holes = copied.map_err(|error| cannot_write(&args.to, error))?;
    let written = map_file.write_all(holes.mapfile().as_bytes());
    written.and_then(|()| map_file.sync_all()).map_err(|error| cannot_write(&map, error))?;
    let lost = holes.by_map + holes.by_content;
    if args.json {
        let report = json!({
            "image": crate::volume::json_names(&args.image), "to": args.to, "map": map,
            "blocks": salvage.blocks(), "lost_by_map": holes.by_map,
            "lost_by_content": holes.by_content, "stale": holes.stale,
            "stale_allowed": args.allow_stale, "damage": salvage.damage(),
        });
        writeln!(out, "{report}")?;
    } else {
        let size = Size::from_blocks(salvage.blocks() - lost);
        let names: Vec<_> = args.image.iter().map(|image| image.display().to_string()).collect();
        writeln!(out, "{}: {size} copied to {}", names.join(", "), args.to.display())?;
        for damage in salvage.damage().iter().take(MOST_NAMED) {
            writeln!(out, "damage: {damage}")?;
        }
        writeln!(out, "lost: {} blocks as damaged metadata names them", holes.by_map)?;
        writeln!(out, "lost: {} blocks as they are damaged themselves", holes.by_content)?;
        if holes.stale > 0 {
            writeln!(out, "copied, though they may be stale: {} blocks", holes.stale)?;
        }
        writeln!(out, "map of the holes: {}", map.display())?;
    }
    if lost + holes.stale == 0 { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

fn copy_all(
    args: &Args,
    salvage: &Salvage,
    disk: &mut dyn Disk,
    copy: &File,
) -> std::io::Result<Holes> {
    copy.set_len(salvage.blocks() * BLOCK_BYTES as u64)?;
    let mut holes = Holes::default();
    let mut progress = Progress::new();
    for block in 0..salvage.blocks() {
        if block % 4096 == 0 {
            progress.show(|| format!("{} copied", Size::from_blocks(block)));
        }
        let found = salvage.read(disk, block, args.allow_stale);
        holes.add(found.is_ok());
        holes.stale += u64::from(found.is_ok() && salvage.is_in_doubt(block));
        match found {
            Ok(data) if data == Data::zeros(1) => {}
            Ok(data) => copy.write_all_at(&data.to_bytes(), block * BLOCK_BYTES as u64)?,
            Err(Lost::Map { .. }) => holes.by_map += 1,
            Err(Lost::Content(_)) => holes.by_content += 1,
        }
    }
    copy.sync_all()?;
    Ok(holes)
}

/// What was copied and what is lost, as runs of blocks.
#[derive(Default)]
struct Holes {
    runs: Vec<(bool, u64)>,
    by_map: u64,
    by_content: u64,
    /// Blocks that were copied though newer content may be lost.
    stale: u64,
}

impl Holes {
    fn add(&mut self, copied: bool) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == copied => *count += 1,
            _ => self.runs.push((copied, 1)),
        }
    }

    /// A mapfile of GNU ddrescue: a run has its first byte, its length and its state.
    fn mapfile(&self) -> String {
        let size = BLOCK_BYTES as u64;
        let mut out = String::from("# Mapfile. Written by seekless salvage\n");
        out.push_str("# current_pos  current_status  current_pass\n");
        let blocks: u64 = self.runs.iter().map(|(_, count)| count).sum();
        let _ = writeln!(out, "0x{:08X}     +               1", blocks * size);
        out.push_str("#      pos        size  status\n");
        let mut at = 0;
        for (copied, count) in &self.runs {
            let state = if *copied { '+' } else { '-' };
            let _ = writeln!(out, "0x{at:08X}  0x{:08X}  {state}", count * size);
            at += count * size;
        }
        out
    }
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".map");
    name.into()
}

fn create(path: &Path) -> Result<File, Failure> {
    let made = fs::OpenOptions::new().write(true).create_new(true).open(path);
    made.map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}
