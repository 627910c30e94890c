//! Writes of parts of blocks on simulated disks: content, time, and power cuts.

use seekless_disk::{Disk, Spec, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Done, Io, Part};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES, Time};

const BLOCKS: u64 = 32;

/// A disk of one zone without a cache, one with two zones, and one of one zone with short tracks.
fn disks() -> [Disk; 3] {
    let parse = |zones| {
        let text = "name='t'\nsummary=''\nrpm=6000\nheads=4\ncylinders=20\nhead_switch_ms=1\n\
             overhead_ms=0.1\nseek={stroke={constant_ms=1,root_ms=9}}\nzones=";
        Spec::parse(&format!("{text}{zones}\n")).expect("a sound specification")
    };
    let zones = "[{sectors=20,track_skew=5,cylinder_skew=5,last_cylinder=9},\
                 {sectors=12,track_skew=3,cylinder_skew=3}]";
    let plain = specs::find("st19101").expect("a built-in disk");
    [plain, parse(zones), parse("[{sectors=16,track_skew=5,cylinder_skew=5}]")]
        .map(|spec| Disk::new(&spec, Box::new(Cells::new(BLOCKS))).expect("a disk"))
}

fn one(disk: &mut Disk, now: Time, io: Io) -> (Time, Done) {
    disk.submit(now, io);
    let at = disk.next_event().expect("an answer");
    let mut done = Vec::new();
    disk.reap(at, &mut done);
    assert_eq!(done.len(), 1);
    (at, done.remove(0))
}

fn random(rng: &mut Rng, version: u64) -> Io {
    let at = rng.below(BLOCKS);
    let count = 1 + rng.below((BLOCKS - at).min(3)) as u32;
    let write = Io::write(version, at, Data::stamp(count, at, version));
    let (a, b) = (rng.below(8) as u32, rng.below(8) as u32 + (count - 1) * 8);
    match rng.below(4) {
        0 => write,
        _ => write.of_part(Part { first: a.min(b), sectors: b + 1 - a.min(b) }),
    }
}

/// Puts the first `sectors` sectors of a write into the model.
fn put(model: &mut [u8], io: &Io, sectors: u32) {
    let skip = (io.first_sector() - io.at * 8) as usize * SECTOR_BYTES;
    let (from, length) = (io.at as usize * BLOCK_BYTES + skip, sectors as usize * SECTOR_BYTES);
    model[from..from + length].copy_from_slice(&io.data.to_bytes()[skip..skip + length]);
}

#[test]
fn parts_change_their_sectors_only() {
    for mut disk in disks() {
        assert!(disk.status().takes_parts());
        let mut model = vec![0; BLOCKS as usize * BLOCK_BYTES];
        let (mut rng, mut now) = (Rng::stream(3, "parts"), 0);
        for version in 1..300 {
            let io = random(&mut rng, version);
            put(&mut model, &io, io.sectors());
            now = one(&mut disk, now, io).0;
            let (at, found) = one(&mut disk, now, Io::read(0, 0, BLOCKS as u32));
            assert_eq!(found.outcome.expect("memory").to_bytes(), model, "version {version}");
            now = at;
        }
    }
}

#[test]
fn a_power_cut_leaves_a_prefix_of_a_part() {
    let mut torn = 0;
    for seed in 0..400 {
        for mut disk in disks() {
            let mut rng = Rng::stream(seed, "cuts");
            let mut model = vec![0; BLOCKS as usize * BLOCK_BYTES];
            let first = Io::write(1, 0, Data::stamp(BLOCKS as u32, 0, 1));
            put(&mut model, &first, first.sectors());
            let (now, _) = one(&mut disk, 0, first);
            let io = random(&mut rng, 2);
            disk.submit(now, io.clone());
            let end = disk.next_event().expect("an answer");
            // The last part of the time is that of the transfer.
            let back = rng.below((end - now).min(20_000_000)) * rng.below(2) + rng.below(2_000_000);
            let mut medium = disk.power_cut(end - back.min(end - now));
            let found = medium.read(0, BLOCKS as u32).expect("memory").to_bytes();
            let prefix = (0..=io.sectors()).find(|&sectors| {
                let mut expected = model.clone();
                put(&mut expected, &io, sectors);
                expected == found
            });
            let prefix = prefix.unwrap_or_else(|| panic!("seed {seed}: {io:?}"));
            torn += u32::from(io.part.is_some() && prefix > 0 && prefix < io.sectors());
        }
    }
    assert!(torn > 20, "{torn} parts were torn");
}

/// A part that is cut off has the sectors that a shorter part would have written by then; also
/// where a track ends in it.
#[test]
fn a_power_cut_leaves_what_has_passed_the_head() {
    const SECTORS: u32 = 5;
    let write = |at, sectors| {
        let part = Part { first: 6, sectors };
        Io::write(1, at, Data::stamp(part.end().div_ceil(8), at, 1)).of_part(part)
    };
    for (index, at) in (0..3).flat_map(|index| (0..8).map(move |at| (index, at))) {
        let disk = || disks().into_iter().nth(index).expect("there are three");
        let end = |sectors| one(&mut disk(), 0, write(at, sectors)).0;
        for sectors in 1..SECTORS {
            for now in [end(sectors), end(sectors + 1) - 1] {
                let mut disk = disk();
                disk.submit(0, write(at, SECTORS));
                let found = disk.power_cut(now).read(at, 2).expect("memory").to_bytes();
                let mut expected = vec![0; BLOCKS as usize * BLOCK_BYTES];
                put(&mut expected, &write(at, SECTORS), sectors);
                let expected = &expected[at as usize * BLOCK_BYTES..][..2 * BLOCK_BYTES];
                assert_eq!(found, expected, "disk {index}, block {at}, {sectors} sectors");
            }
        }
    }
}

#[test]
fn a_part_takes_the_time_of_its_sectors() {
    for index in 0..2 {
        let [mut whole, mut part] = [(); 2].map(|()| {
            let [plain, zones, _] = disks();
            if index == 0 { plain } else { zones }
        });
        let write = Io::write(1, 0, Data::stamp(1, 0, 1));
        let all = one(&mut whole, 0, write.clone()).1.spent;
        let some = one(&mut part, 0, write.of_part(Part { first: 2, sectors: 2 })).1.spent;
        assert_eq!(all.overhead_ns, some.overhead_ns);
        let (long, short) = (all.transfer_ns, some.transfer_ns);
        assert!(long.abs_diff(4 * short) < 8, "8 sectors in {long} ns, 2 in {short} ns");
        // Its first sector comes two sectors later, perhaps in this turn.
        let turn = [6_000_000, 10_000_000][index];
        let off = (turn + some.rotation_ns - all.rotation_ns % turn + turn - short) % turn;
        assert!(off < 8 || off > turn - 8, "{off} ns too late");
    }
}
