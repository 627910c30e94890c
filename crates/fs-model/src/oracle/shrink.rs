//! Leaves out calls of a script for as long as it still shows a difference.

use seekless_fs::call::Call;

/// Runs at most.
const MOST_RUNS: usize = 600;

/// The calls that are needed, and what they show. Tries to leave out halves, then quarters, down to
/// single calls, and again from the start of a size as long as that helps.
pub(super) fn shrink(
    first: (Vec<Call>, String),
    shows: &mut dyn FnMut(&[Call]) -> Option<String>,
) -> (Vec<Call>, String) {
    let (mut calls, mut what) = first;
    let mut runs = 0;
    let mut piece = calls.len().div_ceil(2).max(1);
    loop {
        let (mut at, mut helped) = (0, false);
        while at < calls.len() && runs < MOST_RUNS {
            let end = (at + piece).min(calls.len());
            let without = [&calls[..at], &calls[end..]].concat();
            runs += 1;
            match shows(&without) {
                Some(shown) => (calls, what, helped) = (without, shown, true),
                None => at = end,
            }
        }
        if runs >= MOST_RUNS || (piece == 1 && !helped) {
            return (calls, what);
        }
        piece = piece.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_fs::call::{Credentials, Request};

    #[test]
    fn only_the_calls_that_are_needed_stay() {
        let call = |id| Call { id, who: Credentials::default(), now: 0, request: Request::Sync };
        let calls: Vec<Call> = (0..200).map(call).collect();
        let needed = [3, 77, 78, 199];
        let shows = |calls: &[Call]| {
            let has = |id: &u64| calls.iter().any(|call| call.id == *id);
            needed.iter().all(has).then(|| "all four".to_owned())
        };
        let (left, what) = shrink((calls, String::new()), &mut { shows });
        assert_eq!(left.iter().map(|call| call.id).collect::<Vec<_>>(), needed);
        assert_eq!(what, "all four");
    }
}
