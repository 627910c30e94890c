//! Where the disk caching disk sends a write: by mode, by size, and by the writes before it.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_layouts::Kind;
use seekless_layouts::dcd::{Caching, Mode};

const BLOCKS: u64 = 8000;

fn volume(caching: Caching) -> Node {
    let mut cells = Cells::new(Kind::DCD.device_blocks(BLOCKS));
    let options = FormatOptions::new(Kind::DCD, BLOCKS, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).unwrap();
    let options = caching.onto(Options::default());
    let options = MountOptions { options, ..MountOptions::default() };
    let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(&mut cells), &options).unwrap();
    Node::new(layer, vec![Box::new(Ram::new(Box::new(cells)))], 1)
}

fn write(node: &mut Node, at: u64, count: u32) {
    let data = Data::stamp(count, at, 1);
    node.run(&mut 0, Io::write(0, at, data.clone())).unwrap();
    assert_eq!(node.run(&mut 0, Io::read(0, at, count)), Ok(data));
}

/// Blocks written to the log, written directly to their home location, and destaged from the log.
fn ways(node: &Node) -> [f64; 3] {
    let stats = node.stats();
    ["log_blocks_written", "direct_blocks_written", "destaged_blocks"]
        .map(|name| stats.iter().find(|stat| stat.0 == name).unwrap().1)
}

#[test]
fn each_mode_sends_writes_where_it_says() {
    let expected = [
        (Mode::Back, [8.0, 0.0, 0.0]),
        (Mode::Through, [8.0, 0.0, 8.0]),
        (Mode::Around, [0.0, 8.0, 0.0]),
    ];
    for (mode, expected) in expected {
        let mut node = volume(Caching { mode, ..Caching::default() });
        write(&mut node, 100, 3);
        write(&mut node, 200, 5);
        assert_eq!(ways(&node), expected, "{mode}");
    }
}

#[test]
fn large_requests_go_past_the_log() {
    let mut node = volume(Caching::default());
    write(&mut node, 100, 15);
    assert_eq!(ways(&node), [15.0, 0.0, 0.0]);
    write(&mut node, 200, 16);
    assert_eq!(ways(&node), [15.0, 16.0, 0.0]);
    let mut node = volume(Caching { bypass_blocks: 0, ..Caching::default() });
    write(&mut node, 200, 64);
    assert_eq!(ways(&node)[1], 0.0);
}

#[test]
fn long_streams_go_past_the_log_unless_they_are_flushed() {
    let stream = |caching, flush: bool| {
        let mut node = volume(caching);
        for at in (0..4096).step_by(8) {
            write(&mut node, at, 8);
            // Other streams and single writes do not end a stream.
            write(&mut node, 5000 + at * 37 % 2000, 1);
            if flush {
                node.run(&mut 0, Io::flush(0)).unwrap();
            }
        }
        ways(&node)[1]
    };
    assert_eq!(stream(Caching::default(), false), 3072.0);
    assert_eq!(stream(Caching::default(), true), 0.0);
    assert_eq!(stream(Caching { sequential_blocks: 0, ..Caching::default() }, false), 0.0);
}
