//! `postmark`: the rules of PostMark 1.5 with the sizes of paper 001: files of 512 to 16,384 bytes,
//! reads and writes of 512 bytes, and both biases 5. Names are increasing numbers in one directory.

use super::{Amount, Phase, steps};
use crate::files::steps::{Nr, Step, read_all};
use seekless_engine::rng::Rng;

const FILES: u32 = 500;
const TRANSACTIONS: u32 = 500;
const LOW: u64 = 512;
const HIGH: u64 = 16_384;
const UNIT: u32 = 512;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let files = amount.files.unwrap_or(FILES);
    let transactions = amount.transactions.unwrap_or(TRANSACTIONS);
    let users = amount.users;
    let seed = amount.seed;
    let plan = move |user: usize| Plan::new(seed.wrapping_add(user as u64), files, transactions);
    vec![
        Phase::prepares(users, |_| steps([Step::MakeDir { dir: 1, parent: 0 }].into_iter())),
        Phase::warm("create", users, move |user| steps(plan(user).created.into_iter())),
        Phase::warm("transactions", users, move |user| steps(plan(user).done.into_iter())),
        Phase::warm("delete", users, move |user| steps(plan(user).deleted.into_iter())),
    ]
}

/// All that one user does.
struct Plan {
    created: Vec<Step>,
    done: Vec<Step>,
    deleted: Vec<Step>,
}

/// The pool of files: those that are there with their sizes.
struct Pool {
    rng: Rng,
    files: Vec<(Nr, u64)>,
    next: Nr,
    steps: Vec<Step>,
}

impl Plan {
    fn new(seed: u64, files: u32, transactions: u32) -> Plan {
        let rng = Rng::stream(seed, "postmark");
        let mut pool = Pool { rng, files: Vec::new(), next: 1, steps: Vec::new() };
        (0..files).for_each(|_| pool.create());
        let created = std::mem::take(&mut pool.steps);
        for _ in 0..transactions {
            if pool.rng.chance(0.5) {
                pool.read()
            } else {
                pool.append()
            }
            if pool.rng.chance(0.5) { pool.create() } else { pool.delete() }
        }
        let done = std::mem::take(&mut pool.steps);
        let deleted = pool.files.iter().map(|&(file, _)| Step::Unlink { file }).collect();
        Plan { created, done, deleted }
    }
}

impl Pool {
    fn create(&mut self) {
        let (file, size) = (self.next, LOW + self.rng.below(HIGH - LOW));
        self.next += 1;
        self.steps.push(Step::Create { file, dir: 1 });
        self.write(file, 0, size);
        self.steps.push(Step::Close { file });
        self.files.push((file, size));
    }

    fn write(&mut self, file: Nr, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let length = u64::from(UNIT).min(to - at) as u32;
            self.steps.push(Step::Write { file, at, length });
            at += u64::from(length);
        }
    }

    fn any(&mut self) -> Option<usize> {
        if self.files.is_empty() {
            return None;
        }
        Some(self.rng.below(self.files.len() as u64) as usize)
    }

    fn read(&mut self) {
        let Some(index) = self.any() else { return };
        let (file, size) = self.files[index];
        self.steps.push(Step::Open { file });
        self.steps.extend(read_all(file, size, UNIT));
        self.steps.push(Step::Close { file });
    }

    fn append(&mut self) {
        let Some(index) = self.any() else { return };
        let (file, size) = self.files[index];
        if size >= HIGH {
            return;
        }
        let new = size + 1 + self.rng.below(HIGH - size);
        self.steps.push(Step::Open { file });
        self.write(file, size, new);
        self.steps.push(Step::Close { file });
        self.files[index].1 = new;
    }

    fn delete(&mut self) {
        let Some(index) = self.any() else { return };
        let (file, _) = self.files.swap_remove(index);
        self.steps.push(Step::Unlink { file });
    }
}
