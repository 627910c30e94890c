//! What can be chosen about Loge: some when the volume is made, some at each mount.

use super::{Heuristic, TableForm};
use crate::shared::parse;
use seekless_engine::options::Choice;
use seekless_engine::size::Size;

/// How places are chosen on a device with a head.
pub static HEURISTIC: Choice<Heuristic> = Choice {
    name: "heuristic",
    value: "NAME",
    help: "How `loge` chooses places on a disk with a head: soonest, ls, cr, fr, r or pl, each \
           with or without `+sg`",
    needs_arm: false,
    default: Heuristic::default,
    parse,
    show: Heuristic::to_string,
};

/// Form of the table, which says where blocks may lie.
pub static TABLE: Choice<TableForm> = Choice {
    name: "table",
    value: "FORM",
    help: "Form of the table of `loge`: plain, sorted:N with N cylinders on either side of where a \
           block belongs (2 if left out), or compressed:P with P percent of exceptions (5 if left \
           out)",
    needs_arm: false,
    default: TableForm::default,
    parse,
    show: TableForm::to_string,
};

/// Addresses of a volume that has more of them than it can store blocks, in blocks.
pub static SPARSE: Choice<Option<u64>> = Choice {
    name: "sparse",
    value: "SIZE",
    help: "Give a `loge` volume so many addresses, as a size, though it can store no more than \
           --size: clients free what they need no longer with trims, and a write that finds no \
           room is refused with ENOSPC. At most 32 times the image",
    needs_arm: false,
    default: || None,
    parse: |text| text.parse().map(|size: Size| Some(size.blocks())),
    show: |_| String::new(),
};

/// Put neighbouring blocks of the volume back beside each other while idle.
pub static SORT: Choice<bool> = Choice::switch(
    "sort",
    "`loge` puts neighbouring blocks of the volume back beside each other while idle",
)
.on_arm();

/// Put blocks that were read in succession beside each other while idle.
pub static CLUSTERS: Choice<bool> = Choice::switch(
    "clusters",
    "`loge` puts blocks that were read in succession beside each other while idle",
)
.on_arm();

/// Keep the arm on its way to the next free block while idle, on devices that carry out seeks.
pub static ANTICIPATE: Choice<bool> = Choice::switch(
    "anticipate",
    "`loge` keeps the arm on its way to the next free block while idle, on disks of one zone \
     without a cache",
)
.on_arm();
