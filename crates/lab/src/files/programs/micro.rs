//! `micro`: for each size, files are made, read, overwritten and removed in the same order, with a
//! cold cache at each phase and 50 files in a directory (claim J11).

use super::{Amount, Phase, steps};
use crate::files::steps::{Nr, Step, read_all, write_all};

/// The sizes of paper 001, in bytes.
const SIZES: [u64; 13] = [
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    96 << 10,
    104 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
];
const PER_DIRECTORY: u32 = 50;
const LEAST_FILES: u64 = 512;
const LEAST_BYTES: u64 = 128 << 20;
/// Bytes of a read or write. The paper does not say.
const UNIT: u32 = 8 << 10;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let sizes = if amount.sizes.is_empty() { &SIZES[..] } else { &amount.sizes[..] };
    let mut phases = Vec::new();
    let (mut first_file, mut first_dir) = (1, 1);
    for &size in sizes {
        let all = LEAST_FILES.max(LEAST_BYTES / size.max(1));
        let files = amount.files.unwrap_or(u32::try_from(all).unwrap_or(u32::MAX)).max(1);
        let set = Set { size, first_file, files, first_dir };
        set.add(amount, &mut phases);
        first_file += files;
        first_dir += set.dirs();
    }
    phases
}

/// The files of one size.
#[derive(Clone, Copy)]
struct Set {
    size: u64,
    first_file: Nr,
    files: u32,
    first_dir: Nr,
}

impl Set {
    fn dirs(self) -> u32 {
        self.files.div_ceil(PER_DIRECTORY)
    }

    fn each(self) -> impl Iterator<Item = (Nr, Nr)> {
        (0..self.files).map(move |n| (self.first_file + n, self.first_dir + n / PER_DIRECTORY))
    }

    fn add(self, amount: &Amount, phases: &mut Vec<Phase>) {
        let users = amount.users;
        let (size, name) = (self.size, label(self.size));
        let dirs = move || self.first_dir..self.first_dir + self.dirs();
        phases.push(Phase::prepares(users, |_| {
            steps(dirs().map(|dir| Step::MakeDir { dir, parent: 0 }))
        }));
        phases.push(Phase::cold(format!("create {name}"), users, |_| {
            steps(self.each().flat_map(move |(file, dir)| {
                let write = write_all(file, size, UNIT);
                [Step::Create { file, dir }].into_iter().chain(write).chain([Step::Close { file }])
            }))
        }));
        phases.extend(amount.rest().map(|pause| Phase {
            measured: false,
            ..Phase::rests(format!("after create {name}"), users, pause)
        }));
        phases.push(Phase::cold(format!("read {name}"), users, |_| {
            steps(self.each().flat_map(move |(file, _)| {
                let read = read_all(file, size, UNIT);
                [Step::Open { file }].into_iter().chain(read).chain([Step::Close { file }])
            }))
        }));
        phases.push(Phase::cold(format!("write {name}"), users, |_| {
            steps(self.each().flat_map(move |(file, _)| {
                let write = write_all(file, size, UNIT);
                [Step::Open { file }].into_iter().chain(write).chain([Step::Close { file }])
            }))
        }));
        phases.push(Phase::cold(format!("delete {name}"), users, |_| {
            steps(self.each().map(|(file, _)| Step::Unlink { file }))
        }));
        phases.push(Phase::prepares(users, |_| steps(dirs().map(|dir| Step::RemoveDir { dir }))));
    }
}

fn label(size: u64) -> String {
    match size {
        size if size > 0 && size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        size if size > 0 && size.is_multiple_of(1 << 10) => format!("{}K", size >> 10),
        size => format!("{size}B"),
    }
}
