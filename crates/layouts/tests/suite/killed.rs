//! A process is killed: the cache of the device has its writes. A mount shows them; then the power
//! goes, and what the mount has shown is still there.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;

const BLOCKS: u64 = 60;

fn mount(medium: &CutMedium) -> Node {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let mut disk = medium.clone();
    let mounted = seekless_layouts::mount(&mut MediumDisk(&mut disk), &options).unwrap();
    Node::new(mounted.0, vec![Box::new(Ram::volatile(Box::new(medium.clone())))], 1)
}

fn content(node: &mut Node) -> Vec<Data> {
    (0..BLOCKS).map(|at| node.run(&mut 0, Io::read(0, at, 1)).unwrap()).collect()
}

fn what_a_mount_has_shown_stays(kind: Kind) {
    let mut cells = Cells::new(kind.device_blocks(BLOCKS) + 200);
    let format = FormatOptions::new(kind, BLOCKS, 7);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &format).unwrap();
    for seed in 0..20 {
        let mut rng = Rng::stream(seed, "killed");
        let medium = CutMedium::new(cells.clone());
        let mut node = mount(&medium);
        for version in 1..12 {
            let (at, count) = (rng.below(BLOCKS - 4), 1 + rng.below(4) as u32);
            node.run(&mut 0, Io::write(0, at, Data::stamp(count, at, version))).unwrap();
            if version == 4 {
                node.run(&mut 0, Io::flush(0)).unwrap();
            }
        }
        drop(node);
        let shown = content(&mut mount(&medium));
        for number in 0..8 {
            let chance = f64::from(number) / 7.0;
            let fates: Vec<bool> = (0..medium.pending()).map(|_| rng.chance(chance)).collect();
            let fate = |one: usize| if fates[one] { Fate::Kept } else { Fate::Lost };
            let left = CutMedium::new(medium.cut(fate));
            assert!(content(&mut mount(&left)) == shown, "{kind}, seed {seed}, cut {number}");
        }
    }
}

// `inplace` has nothing to recover, and its mount flushes nothing.

#[test]
fn what_a_mount_of_vlog_has_shown_stays() {
    what_a_mount_has_shown_stays(Kind::VLOG);
}

#[test]
fn what_a_mount_of_loge_has_shown_stays() {
    what_a_mount_has_shown_stays(Kind::LOGE);
}

#[test]
fn what_a_mount_of_dcd_has_shown_stays() {
    what_a_mount_has_shown_stays(Kind::DCD);
}

#[test]
fn what_a_mount_of_a_log_has_shown_stays() {
    Kind::LOG_STRUCTURED.into_iter().for_each(what_a_mount_has_shown_stays);
}
