//! The steps that a mount names: which they are after a crash and after a clean shutdown.

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions, MountPath, MountReport};
use seekless_engine::node::Node;
use seekless_engine::units::Time;
use seekless_layouts::Kind;
use seekless_layouts::dcd::{attach, mount as mount_attached};
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 2000;

each_layout!(
    steps_after_a_crash_are_named,
    steps_after_a_clean_shutdown_are_named,
    steps_add_up_to_the_mount,
);

/// The steps before anything is written.
fn reading(kind: Kind, crashed: bool) -> &'static [&'static str] {
    match kind {
        Kind::INPLACE => &["read superblock"],
        Kind::VLOG if crashed => &[
            "read superblock",
            "read tail record",
            "scan for map blocks",
            "verify young commits",
            "list blocks still needed",
            "load map",
        ],
        Kind::VLOG => &["read superblock", "read tail record", "walk the log tree", "load map"],
        Kind::LOGE => &[
            "read superblock",
            "read records of the last mount",
            "read labels",
            "read trim map",
            "verify young transactions",
            "build block table",
        ],
        Kind::DCD => &["read superblock", "scan log", "find tail of log", "replay log"],
        _ if crashed => &[
            "read superblock",
            "read checkpoint record",
            "load checkpoint",
            "walk the log",
            "look behind the end of the log",
            "verify young parts",
            "roll forward",
            "count live blocks",
        ],
        _ => &[
            "read superblock",
            "read checkpoint record",
            "load checkpoint",
            "walk the log",
            "verify young parts",
            "roll forward",
            "count live blocks",
        ],
    }
}

/// The steps that follow them in a mount that may write.
fn writing(kind: Kind, crashed: bool) -> &'static [&'static str] {
    match kind {
        Kind::INPLACE => &[],
        Kind::VLOG if crashed => &[
            "flush device",
            "erase torn map blocks",
            "write recovery marker",
            "erase dropped map blocks",
            "clear tail record",
        ],
        Kind::VLOG => &["flush device", "clear tail record"],
        Kind::LOGE => &["flush device", "erase dropped transactions", "write record of this mount"],
        Kind::DCD => &["erase dropped records"],
        _ => &["write checkpoint record"],
    }
}

/// Mounts what the medium holds.
fn mount(medium: &Shared, options: &MountOptions<'_>) -> (Node, MountReport) {
    let mut disk = medium.clone();
    let (layer, _, report) =
        seekless_layouts::mount(&mut MediumDisk(&mut disk), options).expect("it is sound");
    (Node::new(layer, vec![Box::new(Ram::volatile(Box::new(disk)))], 1), report)
}

/// A volume with some durable blocks and some that are not, left by a crash or a clean shutdown.
fn used(kind: Kind, crashed: bool) -> Shared {
    let mut cells = Cells::new(kind.device_blocks(BLOCKS));
    seekless_layouts::format(&mut MediumDisk(&mut cells), &FormatOptions::new(kind, BLOCKS, 5))
        .expect("it fits");
    let medium = Shared::new(cells);
    let (mut node, _) = mount(&medium, &writable());
    write_some(&mut node, crashed);
    medium
}

fn write_some(node: &mut Node, crashed: bool) {
    let mut now = 0;
    for at in 0..40 {
        node.run(&mut now, Io::write(0, at, Data::stamp(1, at, 1))).expect("it is written");
    }
    node.run(&mut now, Io::flush(0)).expect("it is flushed");
    let after = Io::write(0, 50, Data::stamp(3, 50, 2));
    node.run(&mut now, after).expect("it is written");
    if !crashed {
        node.finish(&mut now);
    }
}

fn writable() -> MountOptions<'static> {
    MountOptions { volatile: true, ..MountOptions::default() }
}

fn names(report: &MountReport) -> Vec<&'static str> {
    report.steps.iter().map(|step| step.name).collect()
}

fn steps_are_named(kind: Kind, crashed: bool) {
    let medium = used(kind, crashed);
    let looking = MountOptions { read_only: true, ..writable() };
    let (_, report) = mount(&medium, &looking);
    assert_eq!(names(&report), reading(kind, crashed));
    let (_, report) = mount(&medium, &writable());
    assert_eq!(names(&report), [reading(kind, crashed), writing(kind, crashed)].concat());
    let path = match kind {
        Kind::INPLACE => MountPath::Stateless,
        _ if crashed => MountPath::Scan,
        _ => MountPath::Tail,
    };
    assert_eq!(report.path, path);
}

fn steps_after_a_crash_are_named(kind: Kind) {
    steps_are_named(kind, true);
}

fn steps_after_a_clean_shutdown_are_named(kind: Kind) {
    steps_are_named(kind, false);
}

/// Each reading is a microsecond after the one before, whatever thread reads.
fn ticking() -> Time {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(1000, Ordering::Relaxed)
}

fn steps_add_up_to_the_mount(kind: Kind) {
    let medium = used(kind, true);
    let (_, report) = mount(&medium, &MountOptions { clock: Some(ticking), ..writable() });
    let read: u64 = report.steps.iter().map(|step| step.blocks_read).sum();
    assert_eq!(read, report.blocks_read);
    assert!(report.steps.iter().all(|step| step.elapsed_ns >= Some(1000)), "{report:?}");
    // Without a clock the report is a function of what the medium holds.
    let (_, report) = mount(&used(kind, true), &writable());
    assert!(report.steps.iter().all(|step| step.elapsed_ns.is_none()), "{report:?}");
}

#[test]
fn a_dcd_with_its_log_apart_names_the_steps_of_both() {
    let (mut origin, mut log) = (Cells::new(BLOCKS), Cells::new(600));
    let (mut home, mut ring) = (MediumDisk(&mut origin), MediumDisk(&mut log));
    let options = FormatOptions::new(Kind::DCD, BLOCKS, 5);
    attach(&mut home, &mut ring, &options).expect("it fits");
    let (_, _, report) = mount_attached(&mut home, &mut ring, &writable()).expect("it is sound");
    let expected = [
        "read superblock and log binding",
        "scan log",
        "find tail of log",
        "replay log",
        "erase dropped records",
        "write log binding",
    ];
    assert_eq!(names(&report), expected);
}
