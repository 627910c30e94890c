//! `disksim_disk` and `dm_disk`: controller, cache, queue, and the model of the mechanics.

use super::fields::{self, Fields};
use super::lexer::shorten;
use super::parser::{Block, Document};
use super::system::BusTimes;
use super::{Fetch, ImportError, Mapping, g1, g4, mechanics};
use crate::spec::{
    Bus, Cache, Discipline, ExtraDisconnect, FastWrite, Overheads, Prefetch, Spec, SpecError,
};

/// The specification of a disk.
pub(super) fn map(
    disk: &Block,
    document: &Document,
    bus: BusTimes,
    m: &mut Mapping<'_>,
    fetch: Fetch<'_>,
) -> Result<Spec, ImportError> {
    let mut spec = empty(disk.name.as_deref().unwrap_or("disk"))?;
    if fields::base(disk, document) == "dm_disk" {
        m.warn(disk.place, "this is the mechanics only: no controller, cache or bus");
        model(disk, document, &mut spec, m, fetch)?;
        return Ok(spec);
    }
    let mut f = Fields::of(disk, document, m);
    let block = f.block("Model", m)?;
    let block = f.must("Model", block, m)?;
    model(block, document, &mut spec, m, fetch)?;
    let scale = f.number("Time scale for overheads", m)?.unwrap_or(1.0);
    spec.overhead_ms = scale * f.ms("Per-request overhead time", m)?.unwrap_or(0.0);
    m.source("overhead_ms", f.place("Per-request overhead time"));
    spec.overheads = overheads(&mut f, scale, m)?;
    spec.overheads.extra_disconnect = extra_disconnect(&mut f, scale, m)?;
    let mut way = way(&mut f, bus, m)?;
    watermark(&mut f, &mut way, m)?;
    spec.bus = Some(way);
    if let (Some(simple), Some(bus)) = (&mut spec.simple, &spec.bus)
        && bus.read_sector_ms > 0.0
    {
        simple.mb_per_s = 0.512 / bus.read_sector_ms;
    }
    spec.cache = cache(&mut f, m)?;
    if spec.cache.is_some_and(|cache| cache.fast_write != FastWrite::None) {
        // In recordings an early write costs the same whatever was before it, and this much.
        spec.overheads.early_write_ms = Some(spec.overheads.write_hit_after_read_ms);
    }
    for (value, key) in SOURCES {
        if f.get(key).is_some() {
            m.source(value, f.place(key));
        }
    }
    queue(&mut f, document, &mut spec, m)?;
    unmodelled(&mut f, m);
    f.name_the_rest(m);
    Ok(spec)
}

/// A specification with only a name. Keys that the files do not set have their defaults.
fn empty(name: &str) -> Result<Spec, ImportError> {
    let bare = "name = ''\nsummary = ''\nrpm = 0\nheads = 0\ncylinders = 0\nhead_switch_ms = 0\n\
                overhead_ms = 0\nseek.constant.ms = 0";
    let spec: Spec = toml::from_str(bare)
        .map_err(|error| ImportError::Spec { error: SpecError::Syntax(error.to_string()) })?;
    Ok(Spec { name: name.to_owned(), ..spec })
}

/// `dm_disk`.
fn model(
    block: &Block,
    document: &Document,
    spec: &mut Spec,
    m: &mut Mapping<'_>,
    fetch: Fetch<'_>,
) -> Result<(), ImportError> {
    let kind = fields::base(block, document);
    if kind != "dm_disk" {
        let problem = format!("a model of type `{}`", shorten(kind));
        return Err(m.error(block.place, problem, "dm_disk is known"));
    }
    let mut f = Fields::of(block, document, m);
    let key = "Number of data surfaces";
    let heads = f.count(key, m)?;
    spec.heads = f.must(key, heads, m)?;
    m.source("heads", f.place(key));
    let key = "Number of cylinders";
    let cylinders = f.count(key, m)?;
    spec.cylinders = f.must(key, cylinders, m)?;
    m.source("cylinders", f.place(key));
    let layout = f.block("Layout Model", m)?;
    let layout = f.must("Layout Model", layout, m)?;
    match fields::base(layout, document) {
        "dm_layout_g1" => g1::map(layout, document, spec, m)?,
        "dm_layout_g4" => g4::map(layout, document, spec, m)?,
        other => {
            let problem = format!("a layout of type `{}`", shorten(other));
            return Err(m.error(layout.place, problem, "dm_layout_g1 and dm_layout_g4 are known"));
        }
    }
    let mechanical = f.block("Mechanical Model", m)?;
    let mechanical = f.must("Mechanical Model", mechanical, m)?;
    mechanics::map(mechanical, document, spec, m, fetch)?;
    g1::defects(spec, m);
    capacity(&mut f, spec, m)?;
    f.name_the_rest(m);
    Ok(())
}

/// The number of sectors that the drive offers, where the layout holds more.
fn capacity(f: &mut Fields<'_>, spec: &mut Spec, m: &mut Mapping<'_>) -> Result<(), ImportError> {
    let key = "Block count";
    let Some(node) = f.get(key) else { return Ok(()) };
    let count = fields::size(node, key, m)?;
    // The zones are checked only later, and the capacity needs valid ones.
    if spec.validate().is_err() || count == 0 {
        return Ok(());
    }
    let held = spec.capacity_sectors();
    if count < held {
        spec.capacity_sectors = Some(count);
        m.source("capacity_sectors", node.place);
        let rest = "the rest is not offered";
        m.warn(node.place, format!("`{key}` is {count}, the layout holds {held} sectors; {rest}"));
    } else if count > held {
        m.warn(node.place, format!("`{key}` is {count}, but the layout holds {held} sectors"));
    }
    Ok(())
}

fn overheads(
    f: &mut Fields<'_>,
    scale: f64,
    m: &mut Mapping<'_>,
) -> Result<Overheads, ImportError> {
    let mut ms =
        |key: &str| -> Result<f64, ImportError> { Ok(scale * f.ms(key, m)?.unwrap_or(0.0)) };
    Ok(Overheads {
        read_hit_after_read_ms: ms("Read hit over. after read")?,
        read_hit_after_write_ms: ms("Read hit over. after write")?,
        read_miss_after_read_ms: ms("Read miss over. after read")?,
        read_miss_after_write_ms: ms("Read miss over. after write")?,
        write_hit_after_read_ms: ms("Write hit over. after read")?,
        write_hit_after_write_ms: ms("Write hit over. after write")?,
        write_miss_after_read_ms: ms("Write miss over. after read")?,
        write_miss_after_write_ms: ms("Write miss over. after write")?,
        read_completion_ms: ms("Read completion overhead")?,
        write_completion_ms: ms("Write completion overhead")?,
        minimum_seek_delay_ms: ms("Minimum seek delay")?,
        data_preparation_ms: ms("Data preparation overhead")?,
        reselect_ms: ms("First reselect overhead")?,
        later_reselect_ms: ms("Other reselect overhead")?,
        read_disconnect_after_read_ms: ms("Read disconnect afterread")?,
        read_disconnect_after_write_ms: ms("Read disconnect afterwrite")?,
        write_disconnect_ms: ms("Write disconnect overhead")?,
        ..Overheads::default()
    })
}

/// The writes that disconnect from the bus once more.
fn extra_disconnect(
    f: &mut Fields<'_>,
    scale: f64,
    m: &mut Mapping<'_>,
) -> Result<Option<ExtraDisconnect>, ImportError> {
    let has = f.flag("Extra write disconnect", m)?.unwrap_or(false);
    let mut ms =
        |key: &str| -> Result<f64, ImportError> { Ok(scale * f.ms(key, m)?.unwrap_or(0.0)) };
    let extra = ExtraDisconnect {
        command_ms: ms("Extradisc command overhead")?,
        disconnect_ms: ms("Extradisc disconnect overhead")?,
        gap_ms: ms("Extradisc inter-disconnect delay")? / scale.max(f64::MIN_POSITIVE),
        second_disconnect_ms: ms("Extradisc 2nd disconnect overhead")?,
        seek_delta_ms: ms("Extradisc seek delta")?,
    };
    Ok(has.then_some(extra))
}

/// How much of a read must be there before the disk takes the bus for it.
fn watermark(f: &mut Fields<'_>, bus: &mut Bus, m: &mut Mapping<'_>) -> Result<(), ImportError> {
    let key = "High (read) water mark";
    let share = f.number(key, m)?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&share) {
        let remedy = "a share of a request or a segment lies from 0 to 1";
        return Err(m.error(f.place(key), format!("`{key}` is {share}"), remedy));
    }
    let segment = f.count("Segment size (in blks)", m)?.unwrap_or(0);
    if f.flag("Set watermark by reqsize", m)?.unwrap_or(false) {
        bus.read_watermark = share;
    } else {
        bus.read_watermark_sectors = (f64::from(segment) * share).ceil() as u32;
    }
    Ok(())
}

/// The slowest link on its way decides how long a sector takes.
fn way(f: &mut Fields<'_>, bus: BusTimes, m: &mut Mapping<'_>) -> Result<Bus, ImportError> {
    let key = "Bulk sector transfer time";
    let mut own = f.number(key, m)?.unwrap_or(0.0);
    if own < 0.0 {
        // DiskSim takes the longest of three times, so 0 means: no slower than the others.
        m.warn(f.place(key), format!("`{key}` = {own} is treated as 0"));
        own = 0.0;
    }
    if !bus.known && own == 0.0 {
        m.warn(
            f.place(key),
            "the files name no bus, so data reaches the host at once; import the .parv",
        );
    }
    m.source(if own >= bus.read_ms { "bus.read_sector_ms" } else { "bus" }, f.place(key));
    Ok(Bus {
        read_sector_ms: own.max(bus.read_ms),
        write_sector_ms: own.max(bus.write_ms),
        arbitration_ms: bus.arbitration_ms,
        ..Bus::default()
    })
}

fn cache(f: &mut Fields<'_>, m: &mut Mapping<'_>) -> Result<Option<Cache>, ImportError> {
    let segments = f.count("Number of buffer segments", m)?.unwrap_or(0);
    let enabled = f.flag("Enable caching in buffer", m)?.unwrap_or(true);
    let segment_sectors = f.count("Segment size (in blks)", m)?.unwrap_or(0);
    let mut flag =
        |key: &str| -> Result<bool, ImportError> { Ok(f.flag(key, m)?.unwrap_or(false)) };
    let mut cache = Cache {
        segments,
        segment_sectors,
        separate_write_segment: flag("Use separate write segment")?,
        forgets: !enabled,
        read_ahead_on_idle_hit: flag("Read-ahead on idle hit")?,
        stops_at_sector: !flag("Stop prefetch in sector")?,
        read_hits_on_writes: flag("Allow read hits on write data")?,
        reads_free_sectors: flag("Read any free blocks")?,
        zero_latency_reads: flag("Immediate buffer read")?,
        zero_latency_writes: flag("Immediate buffer write")?,
        combine_writes: flag("Combine seq writes")?,
        ..Cache::default()
    };
    cache.write_segments = f.count("Maximum number of write segments", m)?.unwrap_or(1);
    cache.read_ahead_over_requested = f.int("Read-ahead over requested", m)?.unwrap_or(0) > 0;
    cache.read_ahead = choice(
        f,
        "Buffer continuous read",
        &[
            Prefetch::None,
            Prefetch::Track,
            Prefetch::Cylinder,
            Prefetch::Segment,
            Prefetch::SequentialTrack,
        ],
        m,
    )?;
    cache.fast_write =
        choice(f, "Fast write level", &[FastWrite::None, FastWrite::Any, FastWrite::Any], m)?;
    if f.int("Fast write level", m)? == Some(1) {
        m.warn(
            f.place("Fast write level"),
            "`Fast write level` = 1 (sequential writes) is taken for 2: all are reported early",
        );
    }
    cache.min_read_ahead = f.count("Minimum read-ahead (blks)", m)?.unwrap_or(0);
    let most = f.count("Maximum read-ahead (blks)", m)?.unwrap_or(0).max(cache.min_read_ahead);
    cache.max_read_ahead = most;
    if most == 0 {
        cache.read_ahead = Prefetch::None;
    }
    if segments == 0 || segment_sectors == 0 {
        m.warn(
            f.place("Number of buffer segments"),
            "the drive has no buffer: no cache is modelled",
        );
        return Ok(None);
    }
    Ok(Some(cache))
}

/// A parameter that is a number of a list.
fn choice<T: Copy>(
    f: &mut Fields<'_>,
    key: &str,
    known: &[T],
    m: &Mapping<'_>,
) -> Result<T, ImportError> {
    let number = f.int(key, m)?.unwrap_or(0);
    match usize::try_from(number).ok().and_then(|index| known.get(index)) {
        Some(&value) => Ok(value),
        None => {
            let remedy = format!("0 to {} are known", known.len() - 1);
            Err(m.error(f.place(key), format!("`{key}` is {number}"), remedy))
        }
    }
}

fn queue(
    f: &mut Fields<'_>,
    document: &Document,
    spec: &mut Spec,
    m: &mut Mapping<'_>,
) -> Result<(), ImportError> {
    spec.queue.depth = f.count("Max queue length", m)?.unwrap_or(0);
    m.source("queue", f.place("Max queue length"));
    let Some(block) = f.block("Scheduler", m)? else { return Ok(()) };
    let mut f = Fields::of(block, document, m);
    let policy = f.int("Scheduling policy", m)?.unwrap_or(1);
    let discipline = match policy {
        1 => Discipline::Fcfs,
        2 | 5 => Discipline::Look,
        3 | 6 => Discipline::CLook,
        4 | 7 => Discipline::Sstf,
        8 => Discipline::Sptf,
        14 => Discipline::AgedSptf,
        _ => Discipline::Fcfs,
    };
    spec.queue.discipline = discipline;
    if discipline == Discipline::Fcfs && policy != 1 {
        let (near, name) = match policy {
            9 | 10 | 24..=26 => (Discipline::Sptf, "shortest positioning time"),
            11..=13 | 15 | 16 | 20 | 21 => (Discipline::AgedSptf, "aged positioning time"),
            17..=19 => (Discipline::Look, "LOOK"),
            _ => (Discipline::Fcfs, "the order of arrival"),
        };
        spec.queue.discipline = near;
        m.warn(
            f.place("Scheduling policy"),
            format!("scheduling policy {policy} is not in the model; it is served by {name}"),
        );
    }
    let weight = f.number("Timeout time/weight", m)?.unwrap_or(0.0);
    if spec.queue.discipline == Discipline::AgedSptf {
        spec.queue.age_weight = weight.clamp(0.0, 1e6);
    }
    let depth = spec.queue.depth;
    if depth != 1 {
        f.only("Sequential stream scheme", 0.0, "requests are not concatenated", m);
        f.only("Overlapping request scheme", 0.0, "overlapping requests are independent", m);
        f.only("Scheduling timeout scheme", 0.0, "there is one queue", m);
        f.only("Scheduling priority scheme", 0.0, "there is one queue", m);
    }
    // How well a scheduler knows the disk: here it knows everything. The rest is part of the keys
    // above.
    f.ignore(&[
        "Cylinder mapping strategy",
        "Write initiation delay",
        "Read initiation delay",
        "Sequential stream scheme",
        "Maximum concat size",
        "Overlapping request scheme",
        "Sequential stream diff maximum",
        "Scheduling timeout scheme",
        "Timeout scheduling",
        "Scheduling priority scheme",
        "Priority scheduling",
    ]);
    f.name_the_rest(m);
    Ok(())
}

/// Parameters that the model lacks, reported if they would change the result.
fn unmodelled(f: &mut Fields<'_>, m: &mut Mapping<'_>) {
    let alone = "commands are served one at a time";
    let held = "a write leaves the bus when its data has come";
    for (key, value, why) in [
        ("Hold bus entire write xfer", 0.0, held),
        ("Never disconnect", 0.0, "what it saves is not charged"),
        ("Write hit stop prefetch", 1.0, "a write takes the arm at once"),
        ("Allow almost read hits", 0.0, "a sector on its way is no hit"),
        ("Allow sneaky full read hits", 0.0, alone),
        ("Allow sneaky partial read hits", 0.0, alone),
        ("Allow sneaky intermediate read hits", 0.0, alone),
        ("Allow write prebuffering", 0.0, alone),
        ("Preseeking level", 0.0, alone),
        ("Low (write) water mark", 0.0, "a write that has begun to come goes on coming"),
        ("Disconnect write if seek", 0.0, "the bus is released by need"),
        ("Read directly to buffer", 1.0, "sectors go to the buffer as they pass"),
        ("Immed transfer partial hit", 1.0, "what is there is sent at once"),
    ] {
        f.only(key, value, why, m);
    }
    let leaves = "Read disconnect afterread";
    if f.number(leaves, m).is_ok_and(|ms| ms.is_some_and(|ms| ms > 0.0)) {
        let why = "a read that has taken the bus back keeps it to its end";
        f.only("Hold bus entire read xfer", 1.0, why, m);
    }
    // Output, approximations for schedulers, and switches without effect.
    f.ignore(&[
        "Print stats",
        "Avg sectors per cylinder",
        "Hold bus entire read xfer",
        "Calc sector by sector",
        "Constant access time",
    ]);
}

/// The parameter that a value comes from.
const SOURCES: [(&str, &str); 43] = [
    ("overheads.read_hit_after_read_ms", "Read hit over. after read"),
    ("overheads.read_hit_after_write_ms", "Read hit over. after write"),
    ("overheads.read_miss_after_read_ms", "Read miss over. after read"),
    ("overheads.read_miss_after_write_ms", "Read miss over. after write"),
    ("overheads.write_hit_after_read_ms", "Write hit over. after read"),
    ("overheads.write_hit_after_write_ms", "Write hit over. after write"),
    ("overheads.write_miss_after_read_ms", "Write miss over. after read"),
    ("overheads.write_miss_after_write_ms", "Write miss over. after write"),
    ("overheads.early_write_ms", "Write hit over. after read"),
    ("overheads.read_completion_ms", "Read completion overhead"),
    ("overheads.write_completion_ms", "Write completion overhead"),
    ("overheads.minimum_seek_delay_ms", "Minimum seek delay"),
    ("overheads.data_preparation_ms", "Data preparation overhead"),
    ("overheads.reselect_ms", "First reselect overhead"),
    ("overheads.later_reselect_ms", "Other reselect overhead"),
    ("overheads.read_disconnect_after_read_ms", "Read disconnect afterread"),
    ("overheads.read_disconnect_after_write_ms", "Read disconnect afterwrite"),
    ("overheads.write_disconnect_ms", "Write disconnect overhead"),
    ("overheads.extra_disconnect", "Extra write disconnect"),
    ("overheads.extra_disconnect.command_ms", "Extradisc command overhead"),
    ("overheads.extra_disconnect.disconnect_ms", "Extradisc disconnect overhead"),
    ("overheads.extra_disconnect.gap_ms", "Extradisc inter-disconnect delay"),
    ("overheads.extra_disconnect.second_disconnect_ms", "Extradisc 2nd disconnect overhead"),
    ("overheads.extra_disconnect.seek_delta_ms", "Extradisc seek delta"),
    ("bus.read_watermark", "High (read) water mark"),
    ("bus.read_watermark_sectors", "High (read) water mark"),
    ("cache.segments", "Number of buffer segments"),
    ("cache.segment_sectors", "Segment size (in blks)"),
    ("cache.write_segments", "Maximum number of write segments"),
    ("cache.separate_write_segment", "Use separate write segment"),
    ("cache.forgets", "Enable caching in buffer"),
    ("cache.read_ahead", "Buffer continuous read"),
    ("cache.min_read_ahead", "Minimum read-ahead (blks)"),
    ("cache.max_read_ahead", "Maximum read-ahead (blks)"),
    ("cache.read_ahead_over_requested", "Read-ahead over requested"),
    ("cache.read_ahead_on_idle_hit", "Read-ahead on idle hit"),
    ("cache.stops_at_sector", "Stop prefetch in sector"),
    ("cache.read_hits_on_writes", "Allow read hits on write data"),
    ("cache.reads_free_sectors", "Read any free blocks"),
    ("cache.zero_latency_reads", "Immediate buffer read"),
    ("cache.zero_latency_writes", "Immediate buffer write"),
    ("cache.fast_write", "Fast write level"),
    ("cache.combine_writes", "Combine seq writes"),
];
