//! `pairs`: an empty file is made and removed, 50,000 times in one directory (claim J20).

use super::{Amount, Phase, steps};
use crate::files::steps::Step;

const PAIRS: u32 = 50_000;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let pairs = amount.files.unwrap_or(PAIRS);
    let users = amount.users;
    vec![
        Phase::prepares(users, |_| steps([Step::MakeDir { dir: 1, parent: 0 }].into_iter())),
        Phase::warm("create and delete", users, |_| {
            steps((1..=pairs).flat_map(|file| {
                [Step::Create { file, dir: 1 }, Step::Close { file }, Step::Unlink { file }]
            }))
        }),
    ]
}
