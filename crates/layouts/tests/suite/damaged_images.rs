//! Seeded random damage and forgery of images of every layout; the fuzz target `mount` does the
//! same, guided by coverage.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::damage;

use seekless_engine::rng::Rng;

fn bytes(rng: &mut Rng, count: u64) -> Vec<u8> {
    (0..count).map(|_| rng.next() as u8).collect()
}

#[test]
fn undamaged_images_are_whole() {
    for base in 0..28 {
        damage::exercise(&[base]);
    }
    for array in 0..8 {
        damage::arrays::exercise(&[array]);
    }
    for volume in 0..2 {
        damage::attached::exercise(&[volume]);
    }
}

#[test]
fn damaged_and_forged_arrays_are_survived() {
    let mut rng = Rng::stream(3, "arrays");
    for round in 0..2500_u64 {
        let changes = 1 + rng.below(6);
        let mut input = vec![round as u8];
        input.extend(bytes(&mut rng, changes * 7));
        damage::arrays::exercise(&input);
    }
}

#[test]
fn damaged_and_forged_logs_apart_are_survived() {
    let mut rng = Rng::stream(4, "attached");
    for round in 0..2500_u64 {
        let changes = 1 + rng.below(6);
        let mut input = vec![round as u8];
        input.extend(bytes(&mut rng, changes * 7));
        damage::attached::exercise(&input);
    }
    for number in [u64::MAX, 1 << 63, u64::MAX / 2, u64::from(u32::MAX)] {
        for (base, structure) in (0..12).map(|at| (at % 2, at / 2)) {
            for offset in (24..80).step_by(4) {
                for half in 0..2 {
                    let forged = forged_number(structure, offset, number);
                    let changes = forged.chunks(6).flat_map(|one| [&[half], one].concat());
                    let input: Vec<u8> = [base].into_iter().chain(changes).collect();
                    damage::attached::exercise(&input);
                }
            }
        }
    }
    // Fields that both halves share.
    for base in 0..2 {
        for offset in (52..68).step_by(4) {
            // Both copies of the log binding, and the superblock of the log.
            let all = [(0, 0), (0, 1), (1, 0)].into_iter();
            let one = |(half, structure)| {
                let forged = forged_number(structure, offset, u64::MAX);
                forged.chunks(6).flat_map(|one| [&[half], one].concat()).collect::<Vec<u8>>()
            };
            let input: Vec<u8> = [base].into_iter().chain(all.flat_map(one)).collect();
            damage::attached::exercise(&input);
        }
    }
}

/// Extreme numbers in each structure of each member of arrays, with corrected checksums.
#[test]
fn forged_numbers_of_arrays_are_survived() {
    for number in [u64::MAX, 1 << 63, u64::MAX / 2, 1 << 32] {
        for base in 0..8 {
            for structure in 0..6 {
                for offset in (24..88).step_by(8) {
                    let forged = forged_number(structure, offset, number);
                    let member = |change: &[u8]| [&[base % 3], change].concat();
                    let all: Vec<u8> = forged.chunks(6).flat_map(member).collect();
                    damage::arrays::exercise(&[&[base], &all[..]].concat());
                }
            }
        }
    }
}

/// Some random changes of each of many images. The seventh bit of a change decides whether the
/// checksum over it is corrected.
fn exercise_changes(rng: &mut Rng, rounds: u64, most_changes: u64, fitting: bool) {
    for round in 0..rounds {
        let changes = 1 + rng.below(most_changes);
        let mut input = vec![round as u8 % 64];
        input.extend(bytes(rng, changes * 6));
        for change in input[1..].chunks_exact_mut(6) {
            change[0] = change[0] & 0x7f | if fitting { 0x80 } else { 0 };
        }
        damage::exercise(&input);
    }
}

#[test]
fn damage_is_survived_and_never_read_as_data() {
    exercise_changes(&mut Rng::stream(1, "damage"), 2000, 5, false);
}

#[test]
fn forged_images_are_survived() {
    exercise_changes(&mut Rng::stream(2, "forgery"), 3000, 8, true);
}

/// A forged change of the 64-bit number at `offset` of the structure with this index.
fn forged_number(structure: u8, offset: u8, number: u64) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    let change = |at: usize| [0xb2, structure, 0, offset + at as u8, bytes[at], bytes[at + 1]];
    (0..8).step_by(2).flat_map(change).collect()
}

#[test]
fn forged_numbers_neither_overflow_nor_repeat() {
    for number in [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        for base in 4..12 {
            for (structure, offset) in (0..5).flat_map(|at| [24, 32, 40, 48].map(|to| (at, to))) {
                let forged = forged_number(structure, offset, number);
                damage::exercise(&[vec![base], forged].concat());
            }
        }
    }
}

#[test]
fn arbitrary_images_are_survived() {
    let mut rng = Rng::stream(3, "raw");
    let superblocks = [1, 2, 3].map(|kind| [b"SEEKLESS\x01\0\0\0", &[kind, 0, 0, 0][..]].concat());
    for magic in std::iter::once(&b""[..]).chain(superblocks.iter().map(|it| &it[..])) {
        for _ in 0..60 {
            let blocks = rng.below(12);
            let mut image = bytes(&mut rng, blocks * 4096 + blocks % 3);
            for (block, chunk) in image.chunks_exact_mut(4096).enumerate() {
                let magic: &[u8] = if block == 0 { magic } else { b"SKLSMAP1" };
                chunk[..magic.len()].copy_from_slice(magic);
                // Sizes that are not absurd at once.
                chunk[34..40].fill(0);
                chunk[42..48].fill(0);
            }
            damage::exercise(&[vec![0x80 | rng.below(2) as u8], image].concat());
        }
    }
}
