//! A block that the medium cannot read costs only what it holds and what it leads to.
#![allow(clippy::disallowed_types)]

use super::damage::sample;
use super::{BLOCKS, options_of};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_formats::FsError;
use seekless_formats::minix::{self, Minix};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, ROOT, Request, by_inode};
use seekless_fs::policy::PolicyKind;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Blocks that were read, shared with the medium.
type Blocks = Arc<Mutex<BTreeSet<BlockNr>>>;

/// What each of these holds is compared. The first one has indirect blocks of two levels.
const PATHS: [&[&str]; 5] =
    [&["a", "b", "file"], &["small"], &["a", "b", "other"], &["a", "pipe"], &["a", "b", "name7"]];
/// Bytes of a read.
const PIECE: u32 = 64 << 10;

/// Memory that notes which blocks are read, and cannot read one of them.
#[derive(Debug)]
struct Watched {
    cells: Cells,
    bad: Option<BlockNr>,
    read: Blocks,
}

impl Medium for Watched {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let range = at..at + u64::from(count);
        self.read.lock().expect("one thread").extend(range.clone());
        match self.bad.filter(|bad| range.contains(bad)) {
            Some(block) => Err(IoError::Media { block }),
            None => self.cells.read(at, count),
        }
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.cells.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.cells.trim(at, count)
    }

    fn sync(&mut self) -> Result<(), IoError> {
        self.cells.sync()
    }
}

/// What is at a path, as words and bytes.
type Content = Result<(String, Vec<u8>), Errno>;

fn content(fs: &mut Blocking<Minix>, path: &[&str]) -> Content {
    let mut ino = ROOT;
    let mut found = None;
    for name in path {
        let lookup = Request::Lookup { dir: ino, name: (*name).to_owned().into() };
        let Answer::Object(attr, _) = fs.run(lookup)? else { panic!("a lookup finds an object") };
        (ino, found) = (attr.ino, Some(attr));
    }
    let attr = found.expect("a path has names");
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < attr.size {
        let at = bytes.len() as u64;
        match fs.run(Request::Read { handle: by_inode(ino), at, length: PIECE })? {
            Answer::Bytes(more) if !more.is_empty() => bytes.extend_from_slice(&more),
            other => panic!("a read answers {other:?}"),
        }
    }
    Ok((format!("{:?} {:o} {}", attr.kind, attr.mode, attr.links), bytes))
}

/// A mount of the sample, and the blocks that it reads.
fn mounted(cells: &Cells, bad: Option<BlockNr>) -> (Result<Blocking<Minix>, FsError>, Blocks) {
    let read = Arc::default();
    let watched = Watched { cells: cells.clone(), bad, read: Arc::clone(&read) };
    let node = Plain::node(Box::new(Ram::new(Box::new(watched))));
    (Blocking::mount(node, |disk| minix::mount(disk, &options_of(PolicyKind::Async))), read)
}

#[test]
fn a_block_that_cannot_be_read_costs_only_what_it_maps() {
    for block in BLOCKS {
        let cells = sample(block);
        let (mut needed, mut right) = (Vec::new(), Vec::new());
        let mut by_mount = BTreeSet::new();
        for path in PATHS {
            let (fs, read) = mounted(&cells, None);
            by_mount = std::mem::take(&mut *read.lock().expect("one thread"));
            right.push(content(&mut fs.expect("it is whole"), path));
            needed.push(read.lock().expect("one thread").clone());
        }
        assert!(right.iter().all(Result::is_ok));
        let mut tried: BTreeSet<BlockNr> = needed.iter().flatten().copied().collect();
        tried.extend(&by_mount);
        let (mut lost, mut kept) = (0, 0);
        for bad in tried {
            let (fs, _) = mounted(&cells, Some(bad));
            let mut fs = match fs {
                Ok(fs) => fs,
                Err(error) => {
                    assert!(by_mount.contains(&bad), "block {bad}: {error}");
                    continue;
                }
            };
            for ((path, right), needed) in PATHS.iter().zip(&right).zip(&needed) {
                let found = content(&mut fs, path);
                match needed.contains(&bad) && found.is_err() {
                    true => lost += 1,
                    false => {
                        assert_eq!(found, *right, "block {bad}, {path:?}");
                        kept += 1;
                    }
                }
            }
        }
        assert!(lost > 5 && kept > 5, "{block}: {lost} lost, {kept} kept");
    }
}
