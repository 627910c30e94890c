//! Prints how long a fork of a mounted file system takes, against its goal, and what the first
//! operation after it costs.
//!
//! `cargo run --release -p seekless-fs --example fork_speed`
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_formats::ffs::{self, Ffs, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Handle, New, ROOT, Request};
use seekless_fs::core::CoreOptions;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of one write.
const PIECE: usize = 1 << 20;

fn mounted(blocks: u64, cache_bytes: u64) -> Blocking<Ffs> {
    let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(blocks)))));
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &MkfsOptions::default()).expect("fits");
    let core = CoreOptions { cache_bytes, ..CoreOptions::default() };
    let options = MountOptions { core, ..MountOptions::default() };
    Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("just made")
}

fn open(files: &mut Blocking<Ffs>, name: String) -> Handle {
    let (name, what) = (Bytes::from(name), New::File);
    match files.run(Request::Make { dir: ROOT, name, what, mode: 0o644, open: true }) {
        Ok(Answer::Object(_, Some(handle))) => handle,
        other => panic!("{other:?}"),
    }
}

/// Files until the cache has so many buffers; the last half of them is dirty.
fn fill(files: &mut Blocking<Ffs>, buffers: u64, bytes_of_file: usize) {
    let data = Bytes::from(vec![7; PIECE.min(bytes_of_file)]);
    for number in 0.. {
        let handle = open(files, format!("file{number}"));
        for at in (0..bytes_of_file).step_by(PIECE) {
            let (at, data) = (at as u64, data.clone());
            files.run(Request::Write { handle, at, data, append: false }).expect("fits");
        }
        if number % 3 != 0 {
            files.run(Request::Release { handle }).expect("it is open");
        }
        if files.fs().core().buffers() as u64 >= buffers {
            return;
        }
    }
}

/// Median of the time of one run.
fn median(runs: usize, mut run: impl FnMut() -> Duration) -> f64 {
    let mut times: Vec<Duration> = (0..runs).map(|_| run()).collect();
    times.sort_unstable();
    times[runs / 2].as_secs_f64() * 1e6
}

fn report(name: &str, files: &mut Blocking<Ffs>, goal: f64) {
    let fs = files.fs_mut();
    let fork = median(201, || {
        let mut forks = Vec::with_capacity(100);
        let start = Instant::now();
        (0..100).for_each(|_| forks.push(black_box(fs.fork())));
        start.elapsed() / 100
    });
    let goes = median(201, || {
        let forks: Vec<Ffs> = (0..100).map(|_| fs.fork()).collect();
        let start = Instant::now();
        drop(black_box(forks));
        start.elapsed() / 100
    });
    let (buffers, dirty) = (fs.core().buffers(), fs.core().dirty_buffers());
    println!(
        "{name}, {buffers} buffers, {dirty} dirty: fork {fork:.2} us \
         ({:.2} of the goal of {goal} us), drop {goes:.2} us",
        fork / goal
    );
}

/// Time of a create and unlink in a file system that was forked just before, and in one that was
/// not.
fn first_operation(files: &mut Blocking<Ffs>) {
    let pair = |files: &mut Blocking<Ffs>| {
        let (name, what) = (Bytes::from_static(b"new"), New::File);
        let start = Instant::now();
        let make = Request::Make { dir: ROOT, name: name.clone(), what, mode: 0o644, open: false };
        let Ok(Answer::Object(made, _)) = files.run(make) else { panic!("it fits") };
        files.run(Request::Forget { ino: made.ino, count: 1 }).expect("it is known");
        files.run(Request::Unlink { dir: ROOT, name }).expect("it is there");
        start.elapsed()
    };
    let alone = median(201, || pair(files));
    let after = median(201, || {
        let kept = files.fs_mut().fork();
        let time = pair(files);
        drop(black_box(kept));
        time
    });
    println!("  create, unlink: {alone:.2} us, right after a fork {after:.2} us");
}

fn main() {
    let mut small = mounted(1024, 64 << 20);
    fill(&mut small, 300, 40_000);
    report("4 MB", &mut small, 1.0);
    first_operation(&mut small);
    let mut large = mounted(160_000, 640 << 20);
    fill(&mut large, 65_536, 200_000);
    report("640 MB", &mut large, 10.0);
    first_operation(&mut large);
}
