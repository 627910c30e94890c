//! Prints what a check and a repair of FFS cost for each inode, and how much memory they take.
//!
//! `MALLOC_MMAP_THRESHOLD_=65536 cargo run --release -p seekless-fs --example check_speed`
//!
//! With that variable large tables are memory of their own, which the kernel counts. Memory that an
//! earlier step has freed is not counted again.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::unwrap_used)]

use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_formats::ffs::{self, Ffs, check, load, mkfs, repair};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Ino, New, ROOT, Request};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A line of the kernel's status of this process, in MiB; 0 where there is none.
fn status(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Cells that outlive a mount.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Cells>>);

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.0.lock().unwrap().blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.0.lock().unwrap().read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.0.lock().unwrap().write(at, data)
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.0.lock().unwrap().trim(at, count)
    }
}

/// Files in a directory.
const IN_DIRECTORY: u64 = 200;

fn make(fs: &mut Blocking<Ffs>, dir: Ino, name: String, what: New) -> Ino {
    let name = Bytes::from(name);
    match fs.run(Request::Make { dir, name, what, mode: 0o644, open: false }) {
        Ok(Answer::Object(attr, _)) => {
            fs.run(Request::Forget { ino: attr.ino, count: 1 }).unwrap();
            attr.ino
        }
        other => panic!("{other:?}"),
    }
}

/// Fills a file system with files of 1 KiB.
fn filled(bytes: u64, files: u64) -> Cells {
    let mut cells = Cells::new(bytes / 4096);
    let bytes_per_inode = if bytes > 16 << 30 { 65_536 } else { 8192 };
    let options = MkfsOptions { id: 1, bytes_per_inode, ..MkfsOptions::default() };
    mkfs(&mut MediumDisk(&mut cells), &options).unwrap();
    let medium = Shared(Arc::new(Mutex::new(cells)));
    let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
    let mut fs = Blocking::mount(node, |disk| ffs::mount(disk, &MountOptions::default())).unwrap();
    let data = Bytes::from(vec![7; 1024]);
    let mut dir = ROOT;
    for number in 0..files {
        if number % IN_DIRECTORY == 0 {
            dir = make(&mut fs, ROOT, format!("dir{number}"), New::Directory);
        }
        let ino = make(&mut fs, dir, format!("file{number}"), New::File);
        let Ok(Answer::Opened(handle)) = fs.run(Request::Open { ino, truncate: false }) else {
            panic!("not open");
        };
        fs.run(Request::Write { handle, at: 0, data: data.clone(), append: false }).unwrap();
        fs.run(Request::Release { handle }).unwrap();
    }
    fs.unmount().1.unwrap();
    medium.0.lock().unwrap().clone()
}

/// Runs something; seconds, and the MiB by which the process grew meanwhile.
fn measured<T>(run: impl FnOnce() -> T) -> (T, f64, f64) {
    // Resets the peak, where the kernel allows it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS");
    let start = Instant::now();
    let result = run();
    let seconds = start.elapsed().as_secs_f64();
    (result, seconds, status("VmHWM") - before)
}

/// Damages a sector of maps and one of inodes.
fn damage(disk: &mut dyn Disk) {
    let geometry = load(disk).unwrap().superblock.geometry().unwrap();
    let each = u64::from(geometry.engine_blocks());
    let inode = geometry.inode_place(20).block;
    for block in [geometry.header_of(0).block, inode] {
        let mut bytes = disk.read(block * each, 1).unwrap().to_bytes().to_vec();
        bytes[1500] ^= 1;
        disk.write(block * each, Data::bytes(bytes.into())).unwrap();
    }
}

fn main() {
    println!(
        "{:>8} {:>8} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8}",
        "GiB", "files", "check s", "ns/inode", "MiB", "repair s", "ns/inode", "MiB"
    );
    for (gib, files) in [(1, 20_000), (4, 100_000), (64, 20_000), (64, 100_000)] {
        let mut cells = filled(gib << 30, files);
        let mut disk = MediumDisk(&mut cells);
        let (found, seconds, most) = measured(|| check(&mut disk).unwrap());
        assert!(found.is_clean(), "{found}");
        damage(&mut disk);
        let (report, repair_seconds, repair_most) = measured(|| repair(&mut disk).unwrap());
        assert!(!report.repaired.is_empty());
        let each = |seconds: f64| seconds * 1e9 / files as f64;
        println!(
            "{gib:>8} {files:>8} {seconds:>9.3} {:>9.0} {most:>8.1} {repair_seconds:>9.3} \
             {:>9.0} {repair_most:>8.1}",
            each(seconds),
            each(repair_seconds)
        );
    }
}
