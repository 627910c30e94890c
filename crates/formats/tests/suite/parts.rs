//! Small files over volumes that take parts of blocks, and over others.

use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Io, Part};
use seekless_engine::layout::FormatOptions;
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, New, ROOT, Request};
use seekless_fs::system::FileSystem as _;
use seekless_layouts::Kind;
use std::collections::BTreeMap;

const SIZES: [(u32, u32); 2] = [(4096, 1024), (8192, 1024)];

fn volume(parts: bool, (block, fragment): (u32, u32)) -> Node {
    let ram = Ram::new(Box::new(Cells::new(8192)));
    let ram = if parts { ram } else { ram.in_whole_blocks() };
    let mut node = Plain::node(Box::new(ram));
    let options = MkfsOptions { block, fragment, ..MkfsOptions::default() };
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("fits");
    node
}

fn mount(node: Node) -> Blocking<Ffs> {
    let options = MountOptions { core: Default::default(), now: 1, ..MountOptions::default() };
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

fn content(file: usize) -> Bytes {
    (0..1024).map(|at| (at * 7 + file * 13 + 1) as u8).collect()
}

fn create(fs: &mut Blocking<Ffs>, file: usize) {
    let name = Bytes::from(format!("file-{file}"));
    let make = Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true };
    let handle = match fs.run(make) {
        Ok(Answer::Object(_, Some(handle))) => handle,
        other => panic!("{other:?}"),
    };
    let data = content(file);
    let written = fs.run(Request::Write { handle, at: 0, data, append: false });
    assert_eq!(written, Ok(Answer::Written(1024)));
    assert_eq!(fs.run(Request::Release { handle }), Ok(Answer::Done));
}

fn read(fs: &mut Blocking<Ffs>, file: usize) -> Bytes {
    let name = Bytes::from(format!("file-{file}"));
    let Ok(Answer::Object(attr, _)) = fs.run(Request::Lookup { dir: ROOT, name }) else {
        panic!("file {file} is missing");
    };
    let handle = match fs.run(Request::Open { ino: attr.ino, truncate: false }) {
        Ok(Answer::Opened(handle)) => handle,
        other => panic!("{other:?}"),
    };
    match fs.run(Request::Read { handle, at: 0, length: 4096 }) {
        Ok(Answer::Bytes(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn stats(fs: &Blocking<Ffs>) -> BTreeMap<&'static str, f64> {
    fs.fs().stats().into_iter().collect()
}

/// Creates files on a cold image, in rounds with a sync after each; gives the counters.
fn run(parts: bool, sizes: (u32, u32), rounds: usize, each: usize) -> BTreeMap<&'static str, f64> {
    let mut fs = mount(volume(parts, sizes));
    for round in 0..rounds {
        (round * each..(round + 1) * each).for_each(|file| create(&mut fs, file));
        assert_eq!(fs.run(Request::Sync), Ok(Answer::Done));
    }
    let counted = stats(&fs);
    let (mut node, stopped) = fs.unmount();
    stopped.expect("memory does not fail");
    let found = check(&mut NodeDisk::new(&mut node, &mut 0)).expect("it can be read");
    assert!(found.list.is_empty(), "{sizes:?}, parts {parts}: {:?}", found.list);
    let mut fs = mount(node);
    for file in 0..rounds * each {
        assert_eq!(read(&mut fs, file), content(file), "{sizes:?}, parts {parts}: file {file}");
    }
    counted
}

#[test]
fn small_files_cost_no_reads() {
    for sizes in SIZES {
        for parts in [true, false] {
            let counted = run(parts, sizes, 1, 100);
            // A tail of the directory that has moved stays on the volume, in a block that is
            // written as a whole.
            let most = if parts { 0.0 } else { 1.0 };
            assert!(counted["hidden reads"] <= most, "{sizes:?}, parts {parts}: {counted:?}");
        }
    }
}

/// Files that come one by one: the device gets a fragment for each, or a block.
#[test]
fn a_synced_file_writes_its_fragment_only() {
    for sizes in SIZES {
        let (parts, whole) = (run(true, sizes, 100, 1), run(false, sizes, 100, 1));
        assert!(parts["sectors written"] < whole["sectors written"], "{parts:?} {whole:?}");
        assert_eq!(parts["hidden reads"], 0.0);
    }
}

/// A volume of this layout in memory, as a device under a volume without one.
fn nested(kind: Kind) -> Node {
    let mut cells = Cells::new(2048);
    let options = FormatOptions::new(kind, 64, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).expect("fits");
    let mount = seekless_engine::layout::MountOptions::default();
    let (layer, _, _) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &mount).expect("just formatted");
    let node = Node::new(layer, vec![Box::new(Ram::new(Box::new(cells)))], 1);
    Plain::node(Box::new(Nested::new(node)))
}

#[test]
fn a_layout_in_place_hands_parts_on() {
    let mut node = nested(Kind::INPLACE);
    assert!(node.takes_parts() && !nested(Kind::VLOG).takes_parts());
    let (mut model, mut now) = (vec![0; 4 * 4096], 0);
    let mut rng = Rng::stream(9, "parts");
    for version in 1..200 {
        let count = 1 + rng.below(3) as u32;
        let at = rng.below(5 - u64::from(count));
        let (first, last) = (rng.below(8) as u32, (count - 1) * 8 + rng.below(8) as u32);
        let part = Part { first: first.min(last), sectors: last + 1 - first.min(last) };
        let data = Data::stamp(count, at, version);
        let range = part.first as usize * 512..part.end() as usize * 512;
        let from = at as usize * 4096 + range.start;
        model[from..from + range.len()].copy_from_slice(&data.to_bytes()[range]);
        node.run(&mut now, Io::write(0, at, data).of_part(part)).expect("memory");
        let found = node.run(&mut now, Io::read(0, 0, 4)).expect("memory");
        assert_eq!(found.to_bytes(), model, "version {version}");
    }
}

#[test]
#[should_panic(expected = "part: Some")]
fn a_node_refuses_a_part_that_was_not_announced() {
    let write = Io::write(0, 0, Data::zeros(1)).of_part(Part { first: 1, sectors: 1 });
    let _ = nested(Kind::VLOG).run(&mut 0, write);
}

/// The figures of `docs/decisions/077-writes-name-sectors.md`.
#[test]
fn a_thousand_synced_files_read_next_to_nothing() {
    for sizes in SIZES {
        let [parts, whole] = [true, false].map(|parts| run(parts, sizes, 1000, 1));
        let sectors = [&parts, &whole].map(|counted| counted["sectors written"]);
        let reads = whole["hidden reads"];
        eprintln!("{sizes:?}: sectors written {sectors:?}, reads of a rest 0 and {reads}");
        assert_eq!(parts["hidden reads"], 0.0, "{sizes:?}: {parts:?}");
        assert!(reads < 20.0, "{sizes:?}: {whole:?}");
        assert!(sectors[0] < 0.7 * sectors[1], "{sizes:?}: {sectors:?}");
    }
}
