//! Recordings that no kernel makes are read or refused, and never break the reader.

use super::*;
use proptest::prelude::*;
use seekless_engine::rng::Rng;
use seekless_fs::call::AllocateHow;

/// A request with ids from a small set, whether they make sense or not.
fn any_request(rng: &mut Rng) -> Request {
    let small = |rng: &mut Rng| 2 + rng.below(5);
    let (ino, dir, to_dir) = (small(rng), small(rng), small(rng));
    let name = |rng: &mut Rng| Bytes::from(vec![b'a' + rng.below(3) as u8]);
    let (name, to_name) = (name(rng), name(rng));
    let at = [0, 100, 5000, i64::MAX as u64 - 10, u64::MAX][rng.below(5) as usize];
    let handle = if rng.chance(0.8) { by_inode(ino) } else { ino };
    let data = Bytes::from(vec![1; rng.below(9000) as usize]);
    let what =
        [New::File, New::Directory, New::Symlink(name.clone())][rng.below(3) as usize].clone();
    let how = [RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
    let how = how[rng.below(3) as usize];
    let zero = [AllocateHow::Extend, AllocateHow::Punch, AllocateHow::Zero { keep_size: false }];
    let set = SetAttr { size: rng.chance(0.7).then_some(at), mode: Some(1), ..SetAttr::default() };
    match rng.below(10) {
        0..=2 => Request::Make { dir, name, what, mode: 0, open: true },
        3 => Request::Link { ino, dir, name },
        4 => Request::Unlink { dir, name },
        5 => Request::Rename { dir, name, to_dir, to_name, how },
        6 => Request::Open { ino, truncate: rng.chance(0.5) },
        7 => Request::SetAttr { ino, set },
        8 => Request::Allocate { handle, at, length: at, how: zero[rng.below(3) as usize] },
        _ => Request::Write { handle, at, data, append: rng.chance(0.2) },
    }
}

fn any_reply(rng: &mut Rng) -> Told {
    match rng.below(4) {
        0 => Told::Object(2 + rng.below(5), 0, rng.chance(0.3).then(|| rng.below(5))),
        1 => Told::Opened(rng.below(5)),
        2 => Told::Written(rng.below(10_000) as u32),
        _ => Told::Done,
    }
}

/// A recording without sense, up to the call that is refused.
fn senseless(seed: u64) -> Script {
    let mut rng = Rng::stream(seed, "any");
    let mut script = Script::default();
    for _ in 0..60 {
        let (request, told) = (any_request(&mut rng), any_reply(&mut rng));
        let before = script.entries.len();
        match rng.chance(0.9) {
            true => drop(script.call(request, told)),
            false => drop(script.ask(request)),
        }
        if Recorded::read(&script.entries).is_err() {
            // The next one takes its number.
            script.entries.truncate(before);
            script.calls -= 1;
        }
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_recording_is_read_or_refused(seed in any::<u64>()) {
        let script = senseless(seed);
        for model in Model::ALL {
            let modelled = script.under(model);
            let mut trees = modelled.trees();
            trees.advance(u64::MAX);
            for odd in [false, true] {
                let tree = trees.tree(|index| !odd || index % 2 == 0);
                prop_assert_eq!(tree.print(), tree.clone().print());
                prop_assert!(super::super::difference(&tree, &tree).is_empty());
            }
        }
    }
}
