//! Images of earlier versions, kept in `fixtures`: each must mount, hold its written content, pass
//! its check and accept new writes, forever.
//!
//! When the format changes, fixtures of the new version join the old ones, which stay as they are:
//!
//! ```text
//! SEEKLESS_FIXTURES=write cargo test -p seekless-layouts old_images
//! ```
//!
//! A fixture is text. `device`, `volume` and `mount` describe it. Each `holds AT VERSION` states
//! that block `AT` of the volume has the content of that version (the other blocks are zeros), and
//! each `block AT …` has the bytes of a device block in hexadecimal, 16 at a time, with `*N` after
//! a unit that is there N times, up to the last one that is not zero.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods, missing_docs)]

use crate::striped::Striped;
use seekless_engine::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Io, IoError, Outcome};
use seekless_engine::layout::{FormatOptions, MountOptions, MountPath, MountReport};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECONDS};
use seekless_layouts::Kind;
use seekless_layouts::shared::SEGMENT;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Bytes in a unit of the text.
const UNIT: usize = 16;
/// Largest fixture.
const MOST_TEXT: u64 = 60_000;
/// The last word of a block that is torn in the middle has not reached the device.
const TORN_BYTES: usize = 1536;

/// Content of block `at` of a volume in a version. Fixtures depend on it: never change it.
fn content(at: BlockNr, version: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK_BYTES];
    if version == 0 {
        return out;
    }
    for unit in out.chunks_exact_mut(UNIT) {
        unit[..8].copy_from_slice(&(at ^ 0x5eed_0000).to_le_bytes());
        unit[8..].copy_from_slice(&version.to_le_bytes());
    }
    out[BLOCK_BYTES - 8..].copy_from_slice(&(at * 31 + version).to_le_bytes());
    // Some look like the layout's own blocks.
    if at % 16 == 7 {
        out[..8].copy_from_slice(b"SKLSMAP1");
    }
    out
}

/// Blocks and the content written to them, in order.
type Writes = Vec<(BlockNr, Vec<u8>)>;

/// A medium that outlives its device and keeps the writes after the last flush.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<(Cells, Writes)>>);

impl Shared {
    fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new((cells, Vec::new()))))
    }
    fn cells(&self) -> Cells {
        self.0.lock().unwrap().0.clone()
    }
    /// Block by block, in order of writing.
    fn unflushed(&self) -> Writes {
        self.0.lock().unwrap().1.clone()
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.0.lock().unwrap().0.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.0.lock().unwrap().0.read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let (cells, log) = &mut *self.0.lock().unwrap();
        let bytes = data.to_bytes();
        log.extend((at..).zip(bytes.chunks_exact(BLOCK_BYTES).map(<[u8]>::to_vec)));
        cells.write(at, data)
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.0.lock().unwrap().0.trim(at, count)
    }
    fn sync(&mut self) -> Result<(), IoError> {
        self.0.lock().unwrap().1.clear();
        Ok(())
    }
}

/// A mounted volume that answers one request at a time, and its content: versions by block.
struct Volume {
    medium: Shared,
    node: Node,
    now: u64,
    report: MountReport,
    holds: BTreeMap<BlockNr, u64>,
}

impl Volume {
    fn mount(medium: &Shared, volatile: bool, holds: BTreeMap<BlockNr, u64>) -> Volume {
        let options = MountOptions { volatile, ..MountOptions::default() };
        let mounted = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options);
        let (layer, _, report) = mounted.expect("an image of an earlier version mounts");
        let boxed = Box::new(medium.clone());
        let device = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
        let node = Node::new(layer, vec![Box::new(device)], 1);
        Volume { medium: medium.clone(), node, now: 0, report, holds }
    }

    fn run(&mut self, io: Io) -> Outcome {
        self.node.run(&mut self.now, io)
    }

    fn write(&mut self, at: BlockNr, count: u64, version: u64) {
        let bytes: Vec<u8> = (at..at + count).flat_map(|at| content(at, version)).collect();
        self.run(Io::write(0, at, Data::bytes(Bytes::from(bytes)))).unwrap();
        self.holds.extend((at..at + count).map(|at| (at, version)));
    }

    fn trim(&mut self, at: BlockNr, count: u64) {
        self.run(Io::trim(0, at, count as u32)).unwrap();
        self.holds.retain(|block, _| !(at..at + count).contains(block));
    }

    fn flush(&mut self) {
        self.run(Io::flush(0)).unwrap();
    }

    /// Lets time pass, so that background work is done.
    fn pause(&mut self) {
        self.node.idle(&mut self.now, SECONDS);
    }

    fn stop(&mut self) {
        self.node.finish(&mut self.now);
    }

    fn verify(&mut self, name: &str) {
        for at in 0..self.node.layer.blocks() {
            let version = self.holds.get(&at).copied().unwrap_or(0);
            let found = self.run(Io::read(0, at, 1)).unwrap().to_bytes();
            assert!(found == content(at, version), "{name}: block {at} is not version {version}");
        }
    }
}

/// An image as an earlier version left it.
struct Fixture {
    volume: u64,
    mount: MountPath,
    cells: Cells,
    holds: BTreeMap<BlockNr, u64>,
}

fn path_name(path: MountPath) -> &'static str {
    match path {
        MountPath::Stateless => "stateless",
        MountPath::Tail => "tail",
        MountPath::Scan => "scan",
    }
}

impl Fixture {
    fn to_text(&self) -> String {
        let device = self.cells.blocks();
        let mut out = format!("device {device}\nvolume {}\n", self.volume);
        writeln!(out, "mount {}", path_name(self.mount)).unwrap();
        for (at, version) in &self.holds {
            writeln!(out, "holds {at} {version}").unwrap();
        }
        for at in 0..device {
            let bytes = self.cells.clone().read(at, 1).unwrap().to_bytes();
            let units: Vec<&[u8]> = bytes.chunks(UNIT).collect();
            let Some(last) = units.iter().rposition(|unit| **unit != [0; UNIT]) else { continue };
            write!(out, "block {at}").unwrap();
            for run in units[..=last].chunk_by(|a, b| a == b) {
                out.push(' ');
                run[0].iter().for_each(|byte| write!(out, "{byte:02x}").unwrap());
                if run.len() > 1 {
                    write!(out, "*{}", run.len()).unwrap();
                }
            }
            out.push('\n');
        }
        out
    }

    fn from_text(text: &str) -> Fixture {
        let mut fixture = Fixture {
            volume: 0,
            mount: MountPath::Stateless,
            cells: Cells::new(0),
            holds: BTreeMap::new(),
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "device" => fixture.cells = Cells::new(number(1)),
                "volume" => fixture.volume = number(1),
                "mount" => {
                    let all = [MountPath::Stateless, MountPath::Tail, MountPath::Scan];
                    fixture.mount = all.into_iter().find(|it| path_name(*it) == words[1]).unwrap();
                }
                "holds" => {
                    fixture.holds.insert(number(1), number(2));
                }
                "block" => {
                    let bytes = block_bytes(&words[2..]);
                    fixture.cells.set(number(1), Body::Bytes(Bytes::from(bytes)));
                }
                other => panic!("`{other}` in a fixture"),
            }
        }
        fixture
    }
}

fn block_bytes(words: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words {
        let (unit, count) = word.split_once('*').unwrap_or((word, "1"));
        let byte = |at: usize| u8::from_str_radix(&unit[at * 2..at * 2 + 2], 16).unwrap();
        let unit: Vec<u8> = (0..UNIT).map(byte).collect();
        bytes.extend(unit.repeat(count.parse().unwrap()));
    }
    bytes.resize(BLOCK_BYTES, 0);
    bytes
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

each_layout!(old_images_hold_what_was_written, old_images_are_written_to);

/// Every fixture of a layout: name and content.
fn fixtures_of(kind: Kind) -> Vec<(String, Fixture)> {
    let mut all = fixtures();
    all.retain(|(name, _)| name.split('-').next() == Some(kind.name()));
    all
}

/// Every fixture: name and content.
fn fixtures() -> Vec<(String, Fixture)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() as u64 <= MOST_TEXT, "{name}: {} bytes", text.len());
        out.push((name, Fixture::from_text(&text)));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

fn is_whole(medium: &Shared, name: &str) {
    let before = medium.cells();
    let (_, _, report) = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).unwrap();
    assert_eq!(report.problems, Vec::<String>::new(), "{name}");
    assert!(medium.cells() == before, "{name}: a check wrote");
}

#[test]
fn every_layout_has_old_images() {
    let names: Vec<String> = fixtures().into_iter().map(|(name, _)| name).collect();
    let old = ["inplace-1", "inplace-1-large", "vlog-1", "vlog-1-cut", "loge-1", "loge-1-cut"];
    let logs = ["loge-2", "loge-2-cut", "lfs-1", "lfs-1-cut", "wolf-1-cut", "hylog-1-cut"];
    let later = ["lfs-2", "lfs-2-cut", "wolf-2-cut", "hylog-2-cut", "lfs-3-cut"];
    let caches = ["dcd-1", "dcd-1-killed", "dcd-4", "dcd-4-killed"];
    let sums = ["vlog-4", "vlog-4-cut", "loge-4", "loge-4-cut", "lfs-4", "lfs-4-cut"];
    let more = ["lfs-4-striped-cut", "wolf-4-cut", "hylog-4-cut"];
    let mixed = ["vlog-5-cut", "loge-5-cut", "lfs-5-cut", "dcd-5-killed", "hylog-5-cut"];
    let disk = ["lld-5", "lld-5-cut"];
    let all = old.into_iter().chain(logs).chain(later).chain(caches).chain(sums).chain(more);
    let all = all.chain(mixed).chain(disk);
    for expected in all {
        let expected = format!("{expected}.img.txt");
        assert!(names.contains(&expected), "{expected} is missing in {names:?}");
    }
}

fn holds_what_was_written(name: &str, fixture: &Fixture) {
    for volatile in [false, true] {
        let medium = Shared::new(fixture.cells.clone());
        is_whole(&medium, name);
        let mut volume = Volume::mount(&medium, volatile, fixture.holds.clone());
        assert_eq!(volume.node.layer.blocks(), fixture.volume, "{name}");
        assert_eq!(volume.report.path, fixture.mount, "{name}");
        assert!(!volume.holds.is_empty(), "{name} is empty");
        if name.ends_with("-cut.img.txt") {
            // A whole commit that no flush covered holds, a torn one does not.
            let MountReport { commits_accepted, commits_dropped, .. } = volume.report;
            assert_eq!((commits_accepted, commits_dropped), (1, 1), "{name}");
        }
        volume.verify(name);
    }
}

fn old_images_hold_what_was_written(kind: Kind) {
    for (name, fixture) in fixtures_of(kind) {
        holds_what_was_written(&name, &fixture);
    }
}

fn old_images_are_written_to(kind: Kind) {
    for (name, fixture) in fixtures_of(kind) {
        for volatile in [false, true] {
            let medium = Shared::new(fixture.cells.clone());
            let mut volume = Volume::mount(&medium, volatile, fixture.holds.clone());
            let last = fixture.volume - 1;
            for round in 0..20 {
                volume.write(last, 1, 100 + round);
                volume.write(round * 2, 3, 200 + round);
                volume.trim(round * 3, 2);
            }
            volume.flush();
            // The server is killed, then it is shut down cleanly.
            for clean in [false, true] {
                let holds = volume.holds.clone();
                is_whole(&medium, &name);
                volume = Volume::mount(&medium, volatile, holds);
                volume.verify(&name);
                volume.write(5, 20, 300 + u64::from(clean));
                volume.stop();
            }
            is_whole(&medium, &name);
            let holds = volume.holds.clone();
            volume = Volume::mount(&medium, volatile, holds);
            assert_ne!(volume.report.path, MountPath::Scan, "{name}");
            volume.verify(&name);
        }
    }
}

#[test]
fn the_text_says_it_all() {
    for (name, fixture) in fixtures() {
        let text = std::fs::read_to_string(directory().join(&name)).unwrap();
        assert!(fixture.to_text() == text, "{name} comes back different");
    }
}

/// A fresh volume on a device as small as it can be, used for a while and flushed.
fn used(kind: Kind, blocks: u64) -> Volume {
    let mut device = blocks;
    while kind.largest_volume(device) < blocks {
        device += 1;
    }
    let medium = Shared::new(Cells::new(device));
    seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), &options(kind, blocks)).unwrap();
    used_on(medium)
}

/// The same on a device of stripes as long as a segment.
fn used_in_stripes(kind: Kind, blocks: u64) -> Volume {
    let medium = Shared::new(Cells::new(2000));
    let options = options(kind, blocks).with(Options::default().with(&SEGMENT, Some(16)));
    seekless_layouts::format(&mut Striped(MediumDisk(&mut medium.clone()), 16), &options).unwrap();
    used_on(medium)
}

fn options(kind: Kind, blocks: u64) -> FormatOptions {
    FormatOptions::new(kind, blocks, 0x0123_4567_89ab_cdef_0011_2233_4455_6677)
}

fn used_on(medium: Shared) -> Volume {
    let mut volume = Volume::mount(&medium, true, BTreeMap::new());
    let blocks = volume.node.layer.blocks();
    for version in 1..=6 {
        // Both ends, runs, single blocks, and every slice of a map.
        volume.write(version * 3, 8, version);
        volume.write(blocks - 1 - version % 2, 1, version);
        volume.write((version * 97) % (blocks - 1), 1, version);
        if version % 2 == 0 {
            volume.trim(version * 4, 2);
            volume.flush();
        }
    }
    if volume.node.transaction_blocks() > 0 {
        let mut all = Transaction::new();
        for at in [10, 50, 90] {
            all.write(at, &Data::bytes(content(at, 9).into()));
            volume.holds.insert(at, 9);
        }
        volume.node.run_transaction(&mut volume.now, all).unwrap().unwrap();
    }
    volume.flush();
    volume
}

/// Writes a fixture, unless there is one of that name: old ones stay as they are.
fn save(name: &str, fixture: &Fixture) {
    let path = directory().join(name);
    if !path.exists() {
        std::fs::write(&path, fixture.to_text()).unwrap();
    }
}

fn stopped(mut volume: Volume) -> Fixture {
    volume.stop();
    // A mount for writing uses the record of the clean shutdown up.
    let cells = volume.medium.cells();
    let mount = Volume::mount(&volume.medium, true, BTreeMap::new()).report.path;
    Fixture { volume: volume.node.layer.blocks(), mount, cells, holds: volume.holds }
}

/// The image of a server that was killed while blocks were in the log only.
fn killed(mut volume: Volume) -> Fixture {
    volume.write(40, 6, 7);
    volume.flush();
    let cells = volume.medium.cells();
    Fixture {
        volume: volume.node.layer.blocks(),
        mount: MountPath::Scan,
        cells,
        holds: volume.holds,
    }
}

/// The image after a power cut: the last flush, one complete commit after it, and one with a torn
/// block.
fn cut(mut volume: Volume) -> Fixture {
    volume.write(40, 6, 7);
    volume.pause();
    let cut_off = (volume.medium.cells(), volume.medium.unflushed().len());
    let holds = volume.holds.clone();
    volume.write(42, 6, 8);
    volume.pause();
    let written = volume.medium.unflushed();
    let (mut cells, begin) = cut_off;
    assert!(written.len() > begin + 6, "the second commit has its map block as well");
    for (index, (at, bytes)) in written[begin..].iter().enumerate() {
        let mut bytes = bytes.clone();
        if index == 3 {
            bytes[TORN_BYTES..].fill(0);
        }
        cells.set(*at, Body::Bytes(Bytes::from(bytes)));
    }
    Fixture { volume: volume.node.layer.blocks(), mount: MountPath::Scan, cells, holds }
}

/// The images of the layouts of this version, by the names of their fixtures.
fn fresh() -> Vec<(String, Fixture)> {
    let made = [
        ("inplace-#", stopped(used(Kind::INPLACE, 64))),
        // From 64 MiB on the first block lies at a megabyte.
        ("inplace-#-large", stopped(used(Kind::INPLACE, 20_000))),
        ("vlog-#", stopped(used(Kind::VLOG, 500))),
        ("vlog-#-cut", cut(used(Kind::VLOG, 500))),
        ("loge-#", stopped(used(Kind::LOGE, 200))),
        ("loge-#-cut", cut(used(Kind::LOGE, 200))),
        ("lfs-#", stopped(used(Kind::LFS, 200))),
        ("lfs-#-cut", cut(used(Kind::LFS, 200))),
        ("lfs-#-striped-cut", cut(used_in_stripes(Kind::LFS, 200))),
        ("dcd-#", stopped(used(Kind::DCD, 200))),
        ("dcd-#-killed", killed(used(Kind::DCD, 200))),
        ("wolf-#-cut", cut(used(Kind::WOLF, 200))),
        ("hylog-#-cut", cut(used(Kind::HYLOG, 200))),
        ("lld-#", stopped(used(Kind::LLD, 900))),
        ("lld-#-cut", cut(used(Kind::LLD, 900))),
    ];
    let name = |(name, fixture): (&str, Fixture)| {
        let superblock = fixture.cells.clone().read(0, 1).unwrap().to_bytes();
        let name = name.replace('#', &superblock[8].to_string());
        (format!("{name}.img.txt"), fixture)
    };
    made.into_iter().map(name).collect()
}

/// Images of this version pass the same test, because later versions must read them.
#[test]
fn fixtures_of_this_version_can_be_made() {
    for (name, fixture) in fresh() {
        let text = fixture.to_text();
        assert!(text.len() as u64 <= MOST_TEXT, "{name}: {} bytes", text.len());
        assert!(Fixture::from_text(&text).to_text() == text, "{name}");
        holds_what_was_written(&name, &fixture);
        if std::env::var_os("SEEKLESS_FIXTURES").is_some_and(|value| value == "write") {
            save(&name, &fixture);
        }
    }
}
