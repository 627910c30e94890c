//! `small`: 1,500 files of 1 KB in one directory are made, read with a cold cache, and removed
//! (paper 000, section 5.1).

use super::{Amount, Phase, steps};
use crate::files::steps::Step;

const FILES: u32 = 1500;
const SIZE: u32 = 1024;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let files = amount.files.unwrap_or(FILES);
    let each = move || 1..=files;
    let users = amount.users;
    vec![
        Phase::prepares(users, |_| steps([Step::MakeDir { dir: 1, parent: 0 }].into_iter())),
        Phase::cold("create", users, |_| {
            steps(each().flat_map(|file| {
                let write = Step::Write { file, at: 0, length: SIZE };
                [Step::Create { file, dir: 1 }, write, Step::Close { file }]
            }))
        }),
        Phase::cold("read", users, |_| {
            steps(each().flat_map(|file| {
                let read = Step::Read { file, at: 0, length: SIZE };
                [Step::Open { file }, read, Step::Close { file }]
            }))
        }),
        Phase::warm("delete", users, |_| steps(each().map(|file| Step::Unlink { file }))),
    ]
}
