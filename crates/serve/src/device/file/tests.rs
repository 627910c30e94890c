use super::*;
use crate::image::{CreateOptions, create};
use bytes::Bytes;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use seekless_engine::io::Part;
use seekless_layouts::Kind;
use std::os::fd::AsFd;

const MODES: [IoMode; 2] = [IoMode::Uring, IoMode::Threads];

struct Rig {
    device: FileDevice,
    wait: OwnedFd,
    // Dropped after the device.
    dir: tempfile::TempDir,
}

fn rig(blocks: u64, mode: IoMode, direct: bool) -> Rig {
    rig_in(tempfile::tempdir().expect("a directory"), blocks, mode, direct)
}

fn rig_in(dir: tempfile::TempDir, blocks: u64, mode: IoMode, direct: bool) -> Rig {
    let options = CreateOptions {
        kind: Kind::INPLACE,
        blocks: Some(blocks - 2),
        force: false,
        headers: false,
        options: Default::default(),
    };
    let image = create(&dir.path().join("image"), &options).expect("creates");
    let device = FileDevice::new(image, mode, direct).expect("a device");
    let wait = device.wait_fd().expect("a descriptor");
    Rig { device, wait, dir }
}

impl Rig {
    /// Waits as the driver does until `count` answers are there.
    fn answers(&mut self, count: usize) -> Vec<Done> {
        let mut done = Vec::new();
        self.device.reap(0, &mut done);
        while done.len() < count {
            let mut fds = [PollFd::from_borrowed_fd(self.wait.as_fd(), PollFlags::IN)];
            poll(&mut fds, None).expect("polls");
            self.device.reap(0, &mut done);
        }
        assert_eq!(done.len(), count, "more answers than requests");
        done
    }

    fn one(&mut self, io: Io) -> Outcome {
        let tag = io.tag;
        self.device.submit(0, io);
        let mut answers = self.answers(1);
        assert_eq!(answers[0].tag, tag);
        answers.remove(0).outcome
    }
}

fn filled(blocks: u32, byte: u8) -> Data {
    Data::bytes(Bytes::from(vec![byte; blocks as usize * BLOCK_BYTES]))
}

fn each_kind(test: impl Fn(IoMode, bool)) {
    for mode in MODES {
        for direct in [false, true] {
            test(mode, direct);
        }
    }
}

#[test]
fn unwritten_blocks_read_zeros_and_trimmed_ones_too() {
    each_kind(|mode, direct| {
        let mut rig = rig(100, mode, direct);
        assert_eq!(rig.one(Io::read(1, 10, 5)).expect("reads").to_bytes(), filled(5, 0).to_bytes());
        rig.one(Io::write(2, 10, filled(5, 9))).expect("writes");
        rig.one(Io::trim(3, 11, 2)).expect("trims");
        rig.one(Io::flush(4)).expect("flushes");
        let read = rig.one(Io::read(5, 9, 7)).expect("reads").to_bytes();
        let bytes: Vec<u8> = read.chunks(BLOCK_BYTES).map(|block| block[100]).collect();
        assert_eq!(bytes, [0, 9, 0, 0, 9, 9, 0], "{mode:?} direct {direct}");
    });
}

#[test]
fn what_is_in_memory_is_read_at_once() {
    for place in ["/dev/shm", "/tmp"] {
        let Ok(dir) = tempfile::tempdir_in(place) else {
            eprintln!("skipped {place}: it takes no files");
            continue;
        };
        for mode in MODES {
            let dir = tempfile::tempdir_in(dir.path()).expect("a directory");
            let mut rig = rig_in(dir, 64, mode, false);
            assert!(rig.one(Io::write(1, 5, filled(3, 7))).is_ok());
            rig.device.submit(0, Io::read(2, 5, 3));
            if rig.device.no_wait {
                assert_eq!(rig.device.engine.pending(), 0, "{place}, {mode:?}");
            }
            assert!(rig.device.no_wait || place != "/dev/shm", "{mode:?}");
            let found = rig.answers(1).remove(0).outcome.expect("it reads").to_bytes();
            assert!(found.iter().all(|&byte| byte == 7), "{place}, {mode:?}");
        }
    }
}

#[test]
fn ropes_are_written_in_order() {
    each_kind(|mode, direct| {
        let mut rig = rig(800, mode, direct);
        let mut rope = filled(1, 1);
        rope.append(Data::zeros(2));
        rope.append(Data::stamp(1, 7, 3));
        for byte in 2..200 {
            rope.append(filled(1, byte));
        }
        rope.append(Data::zeros(300));
        rig.one(Io::write(1, 0, filled(700, 0xff))).expect("writes");
        rig.one(Io::write(2, 5, rope.clone()).with_fua()).expect("writes");
        let read = rig.one(Io::read(3, 5, rope.blocks())).expect("reads");
        assert_eq!(read.to_bytes(), rope.to_bytes(), "{mode:?} direct {direct}");
        assert_eq!(rig.one(Io::read(3, 4, 1)).expect("reads").to_bytes()[0], 0xff);
    });
}

#[test]
fn ranges_outside_are_refused() {
    each_kind(|mode, direct| {
        let mut rig = rig(100, mode, direct);
        for (at, count) in [(100, 1), (99, 2), (u64::MAX, 1)] {
            let error = IoError::OutOfRange { at, count };
            assert_eq!(rig.one(Io::read(1, at, count)), Err(error));
            assert_eq!(rig.one(Io::trim(1, at, count)), Err(error));
        }
    });
}

#[test]
fn flushes_share_and_clean_ones_cost_nothing() {
    let mut rig = rig(100, IoMode::Threads, false);
    rig.one(Io::write(1, 3, filled(1, 1))).expect("writes");
    for tag in 10..14 {
        rig.device.submit(0, Io::flush(tag));
    }
    rig.device.start_sync();
    assert_eq!(rig.device.engine.pending(), 1, "one sync for all");
    // A flush that arrives while the sync runs must not be answered by it alone if something was
    // written since it started.
    rig.device.submit(0, Io::write(20, 4, filled(1, 1)));
    rig.device.submit(0, Io::flush(21));
    rig.device.start_sync();
    assert_eq!(rig.device.engine.pending(), 2, "one of its own");
    assert_eq!(rig.answers(6).len(), 6);
    rig.device.submit(0, Io::flush(30));
    assert_eq!(rig.device.engine.pending(), 0, "nothing is dirty");
    assert_eq!(rig.answers(1).len(), 1);
}

#[test]
fn a_flush_waits_for_the_sync_that_covers_its_writes() {
    let mut rig = rig(100, IoMode::Threads, false);
    rig.one(Io::write(1, 3, filled(1, 1))).expect("writes");
    rig.device.submit(0, Io::flush(10));
    rig.device.start_sync();
    // No write is dirty, but the sync that covers the last one still runs.
    rig.device.submit(0, Io::flush(11));
    assert!(rig.device.ready.is_empty(), "answered before the running sync");
    assert_eq!(rig.answers(2).len(), 2);
}

#[test]
fn a_read_only_image_is_not_written() {
    each_kind(|mode, direct| {
        let rig = rig(100, mode, direct);
        let Rig { device, wait, dir } = rig;
        drop((device, wait));
        let image = crate::image::open(&dir.path().join("image"), true).expect("opens");
        let device = FileDevice::new(image, mode, direct).expect("a device");
        let wait = device.wait_fd().expect("a descriptor");
        let mut rig = Rig { device, wait, dir };
        assert_eq!(rig.one(Io::write(1, 3, filled(1, 1))), Err(IoError::ReadOnly));
        assert_eq!(rig.one(Io::trim(1, 3, 1)), Err(IoError::ReadOnly));
        rig.one(Io::flush(1)).expect("has nothing to do");
        rig.one(Io::read(1, 3, 4)).expect("reads");
    });
}

#[test]
fn what_a_file_cut_short_has_lost_is_an_error() {
    each_kind(|mode, direct| {
        let mut rig = rig(100, mode, direct);
        rig.one(Io::write(1, 0, filled(100, 5))).expect("writes");
        rig.device.image.handle().expect("a handle").set_len(10 * 4096 + 512).expect("cuts");
        let read = rig.one(Io::read(2, 8, 2)).expect("reads").to_bytes();
        assert!(read.iter().all(|&byte| byte == 5));
        for (at, count) in [(8, 8), (10, 1), (50, 2)] {
            let lost = Err(IoError::Media { block: at });
            assert_eq!(rig.one(Io::read(3, at, count)), lost, "{mode:?} {direct}");
        }
    });
}

#[test]
fn hundreds_of_requests_in_flight_are_answered_once_each() {
    each_kind(|mode, direct| {
        let mut rig = rig(2000, mode, direct);
        for tag in 0..1000 {
            rig.device.submit(0, Io::write(tag, tag, filled(1, tag as u8)));
        }
        assert_eq!(rig.answers(1000).len(), 1000);
        // Drop the page cache, so that buffered reads go through the engine too.
        rig.one(Io::flush(1)).expect("flushes");
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&*rig.device.file, 0, None, advice).expect("advises");
        for tag in 0..1000 {
            rig.device.submit(0, Io::read(tag, tag, 1));
        }
        let mut answers = rig.answers(1000);
        answers.sort_by_key(|done| done.tag);
        for (tag, done) in (0..).zip(&answers) {
            assert_eq!(done.tag, tag);
            let bytes = done.outcome.as_ref().expect("reads").to_bytes();
            assert!(bytes.iter().all(|&byte| byte == tag as u8), "block {tag} {mode:?} {direct}");
        }
    });
}

#[test]
fn dropping_a_busy_device_is_safe() {
    each_kind(|mode, direct| {
        let mut rig = rig(2000, mode, direct);
        for tag in 0..500 {
            rig.device.submit(0, Io::read(tag, tag * 2, 2));
            rig.device.submit(0, Io::write(1000 + tag, tag * 2, filled(2, 1)));
        }
        rig.device.submit(0, Io::flush(1));
        rig.device.reap(0, &mut Vec::new());
    });
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u32, u8, bool),
    Trim(u64, u32),
    Read(u64, u32),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0_u64..60, 1_u32..40);
    prop_oneof![
        (range(), any::<u8>(), any::<bool>())
            .prop_map(|((at, n), b, fua)| Step::Write(at, n, b, fua)),
        range().prop_map(|(at, n)| Step::Trim(at, n)),
        range().prop_map(|(at, n)| Step::Read(at, n)),
        Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_kind_of_device_is_an_array_of_blocks(steps in prop::collection::vec(step(), 1..60)) {
        each_kind(|mode, direct| {
            let mut rig = rig(100, mode, direct);
            let mut model = [0_u8; 100];
            for step in &steps {
                match *step {
                    Step::Write(at, count, byte, fua) => {
                        let mut io = Io::write(1, at, filled(count, byte));
                        io.fua = fua;
                        rig.one(io).expect("writes");
                        model[at as usize..][..count as usize].fill(byte);
                    }
                    Step::Trim(at, count) => {
                        rig.one(Io::trim(1, at, count)).expect("trims");
                        model[at as usize..][..count as usize].fill(0);
                    }
                    Step::Read(at, count) => {
                        let at_zero = at == 0;
                        let read = rig.one(Io::read(1, at, count)).expect("reads").to_bytes();
                        for (index, block) in read.chunks(BLOCK_BYTES).enumerate() {
                            // Block 0 holds the superblock until it is overwritten.
                            if !(at_zero && index == 0) {
                                let byte = model[at as usize + index];
                                assert!(block.iter().all(|&found| found == byte));
                            }
                        }
                    }
                    Step::Flush => drop(rig.one(Io::flush(1)).expect("flushes")),
                }
            }
        });
    }
}

#[test]
fn parts_change_their_sectors_only() {
    for mode in MODES {
        let mut rig = rig(16, mode, false);
        assert!(rig.device.status().takes_parts());
        let mut model = vec![0; 4 * BLOCK_BYTES];
        let mut rng = seekless_engine::rng::Rng::stream(5, "parts");
        for version in 1..100_u64 {
            let count = 1 + rng.below(2) as u32;
            // Behind the superblock.
            let at = 4 + rng.below(5 - u64::from(count));
            let (first, last) = (rng.below(8) as u32, (count - 1) * 8 + rng.below(8) as u32);
            let part = Part { first: first.min(last), sectors: last + 1 - first.min(last) };
            let io = Io::write(1, at, filled(count, version as u8));
            let from = (at as usize - 4) * BLOCK_BYTES + part.first as usize * SECTOR_BYTES;
            let range = from..from + part.sectors as usize * SECTOR_BYTES;
            model[range].fill(version as u8);
            rig.one(io.of_part(part)).expect("writes");
            let found = rig.one(Io::read(2, 4, 4)).expect("reads").to_bytes();
            assert_eq!(found, model, "version {version}");
        }
    }
}
