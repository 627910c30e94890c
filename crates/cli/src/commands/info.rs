//! `seekless info`: what an image is, from its superblock, and how much of a Loge volume is used.

use crate::clock::host_clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::volume::{Volume, json_members, json_recovery, print_members};
use seekless_engine::disk::Disk as _;
use seekless_engine::layout::{Clock, MountOptions, MountReport};
use seekless_engine::objects::WITHIN_BITS;
use seekless_engine::size::Size;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::loge::TableForm;
use seekless_layouts::{Kind, dcd, read_superblock};
use seekless_serve::image::array::{is_member, open_members, peek_members};
use seekless_serve::image::{self, ImageError};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Arguments of `seekless info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless info disk.img
  seekless info disk.img --json | jq .volume_bytes
  seekless info a.img b.img c.img        # an array
  seekless info origin.img --log log.img

Of an array that is being served it says what the members say, a rebuild's progress included.
Reads the superblock, and of a volume of layout `loge` its labels, which say how much is stored;
`seekless check` reads and verifies everything.")]
pub struct Args {
    /// The image; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Go on without members of an array that should be there.
    #[arg(long)]
    degraded: bool,
    /// The log of a disk caching disk, if it is on a device of its own.
    #[arg(long, value_name = "LOG", conflicts_with = "degraded")]
    log: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Those of one image.
    pub fn of_image(image: &Path, json: bool) -> Args {
        Args { images: vec![image.to_owned()], degraded: false, log: None, json }
    }
}

/// Prints what the superblock says.
///
/// # Errors
/// If the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if let Some(log) = &args.log {
        let [origin] = args.images.as_slice() else {
            let problem = "--log: only a volume in one image has a log of its own";
            return Err(Failure::usage(problem).hint("give the origin alone, and its log"));
        };
        return of_pair(args, origin, log, out);
    }
    match args.images.as_slice() {
        [image] if !is_member(image)? => of_image(args, image, out),
        // One member is enough to describe its array.
        images => of_array(args, images, out),
    }
}

fn of_array(args: &Args, images: &[PathBuf], out: &mut dyn Write) -> Outcome {
    let members = match open_members(images, true, args.degraded) {
        Err(ImageError::InUse { pid, .. }) => return of_served(args, images, pid, out),
        found => found?,
    };
    let complete = members.images().iter().all(Option::is_some) || args.degraded;
    if args.json {
        let mut facts = json!({ "array": json_members(&members) });
        drop(members);
        if complete {
            let mut volume = Volume::open(images, args.degraded, None)?;
            let superblock = volume.with(read_superblock)?;
            facts["layout"] = json!(Kind::of(&superblock).name());
            facts["volume_blocks"] = json!(superblock.blocks);
            facts["volume_bytes"] = json!(superblock.blocks * BLOCK_BYTES as u64);
        }
        writeln!(out, "{facts}")?;
        return Ok(());
    }
    print_members(&members, out)?;
    drop(members);
    if complete {
        let mut volume = Volume::open(images, args.degraded, None)?;
        let superblock = volume.with(read_superblock)?;
        let (kind, Superblock { blocks, id, .. }) = (Kind::of(&superblock), superblock);
        writeln!(out, "layout   {kind} ({})", kind.summary)?;
        writeln!(out, "volume   {} ({blocks} blocks of 4 KiB)", Size::from_blocks(blocks))?;
        writeln!(out, "id       {id:032x}")?;
    }
    Ok(())
}

/// Prints what the members of an array in use say, without the volume on it.
fn of_served(args: &Args, images: &[PathBuf], pid: Option<u32>, out: &mut dyn Write) -> Outcome {
    let members = peek_members(images, args.degraded)?;
    if args.json {
        let facts = json!({ "array": json_members(&members), "served": true, "pid": pid });
        writeln!(out, "{facts}")?;
        return Ok(());
    }
    print_members(&members, out)?;
    let by = pid.map_or("by a process".to_owned(), |pid| format!("by process {pid}"));
    writeln!(out, "in use   {by}: the progress of a rebuild is the last one recorded")?;
    Ok(())
}

/// What a Loge volume stores, and the cost of the mount that found it.
struct Usage {
    stored: u64,
    capacity: u64,
    form: TableForm,
    table: u64,
    /// Bits of the address of a block, and the number of exceptions. None if the cylinders of the
    /// disk that serves the volume decide them.
    address_bits: Option<f64>,
    exceptions: Option<(u64, u64)>,
    mount: MountReport,
    ms: f64,
}

/// Mounts a volume of layout `loge` without writing: how much of it is in use.
fn usage(image: &mut image::Image, superblock: &Superblock) -> Result<Usage, Failure> {
    let began = host_clock();
    let clock: Option<Clock> = Some(host_clock);
    let options = MountOptions { read_only: true, clock, ..MountOptions::default() };
    let (layer, _, report) =
        seekless_layouts::mount(image, &options).map_err(|error| image.blame(error))?;
    let ms = host_clock().saturating_sub(began) as f64 / 1e6;
    let stats = layer.status().stats();
    let find = |name: &str| stats.iter().find(|stat| stat.0 == name).map(|&(_, value)| value);
    let stat = |name: &str| find(name).map_or(0, |value| value as u64);
    let form = TableForm::of(superblock);
    let by_disk = matches!(form, TableForm::Sorted(_)) && image.has_labels();
    let exceptions = find("exceptions").map(|now| (now as u64, stat("exceptions_most")));
    Ok(Usage {
        stored: stat("stored_blocks"),
        capacity: stat("capacity_blocks"),
        form,
        table: stat("table_bytes"),
        address_bits: find("address_bits").filter(|_| !by_disk),
        exceptions: exceptions.filter(|_| !by_disk),
        mount: report,
        ms,
    })
}

/// An origin and its log.
fn of_pair(args: &Args, origin: &Path, log: &Path, out: &mut dyn Write) -> Outcome {
    let mut images = [image::open(origin, true)?, image::open_log(log, true)?];
    let read =
        |image: &mut image::Image| read_superblock(image).map_err(|error| image.blame(error));
    let [first, second] = &mut images;
    let superblock = read(second)?;
    let Superblock { id, blocks, device_blocks, .. } = superblock;
    let alone = dcd::is_half(&superblock) && matches!(dcd::stands_alone(first, second), Ok(true));
    let bound = !alone && read(first).is_ok_and(|one| dcd::is_binding(&one) && one.id == id);
    if !alone && !bound {
        let (origin, log) = (origin.display(), log.display());
        let cause = format!("{log} is not the log of {origin}");
        return Err(Failure::new(Exit::Image, cause)
            .hint("`seekless info` of each alone says what they are"));
    }
    if args.json {
        let facts = json!({
            "image": origin,
            "log": log,
            "layout": Kind::of(&superblock).name(),
            "id": format!("{id:032x}"),
            "volume_blocks": blocks,
            "volume_bytes": blocks * BLOCK_BYTES as u64,
            "log_bytes": device_blocks * BLOCK_BYTES as u64,
            "origin_is_whole": alone,
        });
        writeln!(out, "{facts}")?;
        return Ok(());
    }
    writeln!(out, "origin   {}", origin.display())?;
    writeln!(out, "log      {} ({})", log.display(), Size::from_blocks(device_blocks))?;
    writeln!(out, "layout   {} ({})", Kind::of(&superblock), Kind::of(&superblock).summary)?;
    writeln!(out, "volume   {} ({blocks} blocks of 4 KiB)", Size::from_blocks(blocks))?;
    writeln!(out, "id       {id:032x}")?;
    let state = match alone {
        true => "the log is empty, and the origin is usable without it",
        false => "the origin is not usable without the log",
    };
    writeln!(out, "state    {state}")?;
    Ok(())
}

/// The facts about an image, as JSON.
fn facts(path: &Path, superblock: &Superblock, stored_bytes: u64, used: Option<&Usage>) -> Value {
    let &Superblock { version, id, blocks, device_blocks, .. } = superblock;
    let mut facts = json!({
        "image": path,
        "layout": Kind::of(superblock).name(),
        "format_version": version,
        "id": format!("{id:032x}"),
        "image_blocks": device_blocks,
        "image_bytes": device_blocks * BLOCK_BYTES as u64,
        "stored_bytes": stored_bytes,
    });
    if Kind::of(superblock).has_objects() {
        facts["objects"] = json!(blocks >> WITHIN_BITS);
    } else {
        facts["volume_blocks"] = json!(blocks);
        facts["volume_bytes"] = json!(blocks * BLOCK_BYTES as u64);
    }
    if let Some(used) = used {
        facts["stored_blocks"] = json!(used.stored);
        facts["capacity_blocks"] = json!(used.capacity);
        facts["table"] = json!(used.form.to_string());
        facts["table_bytes"] = json!(used.table);
        facts["address_bits"] = json!(used.address_bits);
        if let Some((now, most)) = used.exceptions {
            facts["exceptions"] = json!(now);
            facts["exceptions_most"] = json!(most);
        }
        facts["mount_blocks_read"] = json!(used.mount.blocks_read);
        facts["mount_ms"] = json!(used.ms);
        facts["recovery"] = json_recovery(&used.mount);
    }
    facts
}

fn of_image(args: &Args, path: &Path, out: &mut dyn Write) -> Outcome {
    let mut image = image::open(path, true)?;
    let superblock = read_superblock(&mut image).map_err(|error| image.blame(error))?;
    let stored_bytes = std::fs::metadata(path).map_or(0, |found| found.blocks() * 512);
    let Superblock { id, blocks, device_blocks, .. } = superblock;
    let kind = Kind::of(&superblock);
    let used = (kind == Kind::LOGE).then(|| usage(&mut image, &superblock).ok());
    if args.json {
        let used = used.as_ref().and_then(Option::as_ref);
        writeln!(out, "{}", facts(path, &superblock, stored_bytes, used))?;
        return Ok(());
    }
    writeln!(out, "image    {}", path.display())?;
    writeln!(out, "layout   {kind} ({})", kind.summary)?;
    if dcd::is_binding(&superblock) {
        writeln!(out, "role     origin of the volume whose log is {id:032x}: serve it with --log")?;
    } else if dcd::is_half(&superblock) {
        writeln!(out, "role     log of a volume whose origin is another device")?;
    }
    match kind.has_objects() {
        true => writeln!(out, "objects  {} at most", blocks >> WITHIN_BITS)?,
        false => {
            writeln!(out, "volume   {} ({blocks} blocks of 4 KiB)", Size::from_blocks(blocks))?
        }
    }
    writeln!(out, "size     {} ({device_blocks} blocks)", Size::from_blocks(device_blocks))?;
    if !image.is_block_device() {
        let stored = Size::from_blocks(stored_bytes.div_ceil(BLOCK_BYTES as u64));
        writeln!(out, "stored   {stored}")?;
    }
    if let Some(None) = used {
        writeln!(out, "used     unknown: it cannot be mounted; `seekless check` says why")?;
    }
    if let Some(Some(used)) = used {
        let Usage { stored, capacity, form, table, ms, .. } = used;
        let read = used.mount.blocks_read;
        let (size, most) = (Size::from_blocks(stored), Size::from_blocks(capacity));
        writeln!(out, "used     {size} of {most} ({stored} of {capacity} blocks)")?;
        writeln!(out, "table    {table} bytes in memory, found with {read} reads in {ms:.1} ms")?;
        if form != TableForm::Plain {
            match (used.address_bits, used.exceptions) {
                (Some(bits), Some((now, most))) => writeln!(
                    out,
                    "form     {form}, {bits:.1} bits for the place of a block, {now} of {most} \
                     exceptions"
                )?,
                (None, _) => {
                    writeln!(out, "form     {form}, in cylinders of the disk that serves it")?
                }
                (Some(_), None) => {
                    writeln!(
                        out,
                        "form     {form}; plain in memory: blocks lie at home locations of others"
                    )?;
                }
            }
        }
    }
    writeln!(out, "id       {id:032x}")?;
    writeln!(out, "format   {}", superblock.version)?;
    Ok(())
}
