//! `pairs`: an empty file is made and removed, 50,000 times (claim J20). The paper has one
//! directory; more of them, one after the other, average over the places of directories and inodes.

use super::{Amount, Phase, steps};
use crate::files::steps::Step;

const PAIRS: u32 = 50_000;

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let pairs = amount.files.unwrap_or(PAIRS);
    let users = amount.users;
    let placements = amount.placements.unwrap_or(1).clamp(1, pairs.max(1));
    let dirs = 1..=placements;
    let make = dirs.clone();
    let mut phases = vec![Phase::prepares(users, |_| {
        steps(make.clone().map(|dir| Step::MakeDir { dir, parent: 0 }))
    })];
    phases.extend(dirs.map(|dir| {
        let name = match placements {
            1 => "create and delete".to_owned(),
            _ => format!("create and delete, {dir}"),
        };
        // The last directory takes what remains.
        let share = pairs / placements;
        let first = 1 + (dir - 1) * share;
        let last = if dir == placements { pairs } else { first + share - 1 };
        Phase::warm(name, users, |_| {
            steps((first..=last).flat_map(move |file| {
                [Step::Create { file, dir }, Step::Close { file }, Step::Unlink { file }]
            }))
        })
    }));
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_share_the_pairs() {
        let amount = Amount { files: Some(11), placements: Some(3), ..Amount::one_user() };
        let made = |phase: Phase| {
            let steps = phase.users.into_iter().flatten();
            steps.filter(|step| matches!(step, Step::Create { .. })).count()
        };
        let made: Vec<usize> = phases(&amount).into_iter().map(made).collect();
        assert_eq!(made, [0, 3, 3, 5]);
    }
}
