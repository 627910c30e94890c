//! Prints how many metadata operations a second FFS makes when all blocks are cached.
//!
//! `cargo run --release -p seekless-fs --example cached_speed`
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use bytes::Bytes;
use seekless_engine::client::Below;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_formats::ffs::{self, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Call, Credentials, Ino, New, ROOT, Reply, Request};
use seekless_fs::system::{FileSystem, FsCx};
use std::slice::from_mut;
use std::time::Instant;

/// Names in the directory, so that lookups have something to search.
const NAMES: u64 = 50;
const PAIRS: u64 = 300_000;

fn main() {
    let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(16_384)))));
    let mut now = 0;
    mkfs(&mut NodeDisk::new(&mut node, &mut now), &MkfsOptions::default()).expect("fits");
    let mounted = ffs::mount(&mut NodeDisk::new(&mut node, &mut now), &MountOptions::default());
    let mut fs = mounted.expect("just made");
    let mut replies: Vec<Reply> = Vec::new();
    let mut answers = Vec::new();
    let mut run = |request: Request| -> Option<Answer> {
        let is_silent = matches!(request, Request::Forget { .. });
        let call = Call { id: 1, who: Credentials::default(), now: 5, request };
        let mut below = Below::new(now, from_mut(&mut node));
        fs.submit(call, &mut FsCx { below: &mut below, replies: &mut replies });
        loop {
            let mut below = Below::new(now, from_mut(&mut node));
            fs.pump(&mut FsCx { below: &mut below, replies: &mut replies });
            if let Some(reply) = replies.pop() {
                return Some(reply.result.expect("nothing fails"));
            }
            if is_silent {
                return None;
            }
            node.settle(now, &mut answers);
            for done in answers.drain(..) {
                let mut below = Below::new(now, from_mut(&mut node));
                fs.complete(0, done, &mut FsCx { below: &mut below, replies: &mut replies });
            }
        }
    };
    let make = |run: &mut dyn FnMut(Request) -> Option<Answer>, name: Bytes| -> Ino {
        let request = Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: false };
        match run(request) {
            Some(Answer::Object(attr, _)) => attr.ino,
            other => panic!("{other:?}"),
        }
    };
    for number in 0..NAMES {
        make(&mut run, Bytes::from(format!("name{number}")));
    }
    let names: Vec<Bytes> = (0..16).map(|n| Bytes::from(format!("file{n}"))).collect();
    let start = Instant::now();
    for pair in 0..PAIRS {
        let name = names[pair as usize % names.len()].clone();
        let ino = make(&mut run, name.clone());
        run(Request::Forget { ino, count: 1 });
        run(Request::Unlink { dir: ROOT, name });
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("create, unlink: {:.2} million/s", PAIRS as f64 * 2.0 / seconds / 1e6);
    let start = Instant::now();
    for pair in 0..PAIRS * 2 {
        let name = Bytes::from(format!("name{}", pair % NAMES));
        run(Request::Lookup { dir: ROOT, name });
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("lookup: {:.2} million/s", PAIRS as f64 * 2.0 / seconds / 1e6);
}
