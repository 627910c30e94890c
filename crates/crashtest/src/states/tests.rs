#![allow(clippy::unwrap_used)]

mod calls;

use super::choose::{Bounds, choose};
use super::history::{Acked, Epoch, Event, History, Kind};
use super::minimise::minimise;
use super::state::{BadState, Fate, Name, SectorSize, State, ranges};
use super::story::story;
use std::collections::BTreeSet;

const BOUNDS: Bounds = Bounds { exhaustive: 5, samples: 64, sector: SectorSize::B512, seed: 1 };

/// A history told in short: `w3` asks for a write of a block at 3 with the next number, `f` for a
/// flush, `u3` for a write with FUA, `.2` answers request 2, `!2` fails it, `a5` acknowledges 5.
fn told(text: &str, multi_conn: bool) -> History {
    let mut history = History::new(1 << 20, multi_conn);
    let mut number = 0;
    for word in text.split_whitespace() {
        let (word, connection) = word.split_once('@').unwrap_or((word, "1"));
        let connection = connection.parse().unwrap();
        let (kind, rest) = word.split_at(1);
        if matches!(kind, "w" | "u" | "f") {
            number += 1;
        }
        history.push(match kind {
            "a" => Event::Mark { value: rest.into() },
            "f" => Event::Flush { number, connection },
            "." | "!" => Event::Answer { number: rest.parse().unwrap(), failed: kind == "!" },
            _ => Event::Write {
                number,
                connection,
                offset: 4096 * rest.parse::<u64>().unwrap(),
                length: 4096,
                kind: Kind::Data,
                fua: kind == "u",
            },
        });
    }
    history
}

/// Of each epoch the numbers of what becomes durable at its beginning and of what may be taken.
fn epochs(history: &History) -> Vec<(Vec<u64>, Vec<u64>)> {
    let numbers = |list: &[super::history::Unsettled]| {
        list.iter().map(|one| history.writes()[one.write].number).collect()
    };
    history.epochs().map(|e| (numbers(&e.settled), numbers(&e.unsettled))).collect()
}

#[test]
fn a_flush_covers_what_was_answered_before_it_was_asked() {
    // Request 3 is the flush; write 2 was answered only after it had been asked for.
    let history = told("w1 .1 w2 f .2 w3 .3 .4", true);
    assert_eq!(epochs(&history), [(vec![], vec![1, 2, 4]), (vec![1], vec![2, 4])]);
}

#[test]
fn forced_writes_are_durable_once_answered_and_failures_never() {
    let history = told("w1 u2 .1 .2 u3 !3 f .4", true);
    assert_eq!(epochs(&history), [(vec![], vec![1, 2]), (vec![2], vec![1, 3]), (vec![1], vec![3])]);
}

#[test]
fn an_unanswered_or_failed_flush_promises_nothing() {
    assert_eq!(epochs(&told("w1 .1 f", true)), [(vec![], vec![1])]);
    assert_eq!(epochs(&told("w1 .1 f !2", true)), [(vec![], vec![1])]);
}

#[test]
fn without_multi_conn_a_flush_covers_its_own_connection() {
    let text = "w1@1 .1 w2@2 .2 f@1 .3";
    assert_eq!(epochs(&told(text, true)).last().unwrap(), &(vec![1, 2], vec![]));
    assert_eq!(epochs(&told(text, false)).last().unwrap(), &(vec![1], vec![2]));
}

#[test]
fn a_durable_write_stays_on_top_of_an_older_one_that_is_not() {
    // The forced write came later to the same block and is durable first.
    let history = told("w1 .1 u1 .2 w9 .3", true);
    let last = history.epochs().last().unwrap();
    assert_eq!(last.unsettled[0].under, [1]);
    assert!(last.unsettled[1].under.is_empty());
}

#[test]
fn a_few_writes_are_tried_in_all_combinations() {
    let history = told("w1 .1 w2 .2 w3 .3 f .4", true);
    let epoch = history.epochs().next().unwrap();
    let states = choose(&history, &epoch, &Bounds { sector: SectorSize::B4096, ..BOUNDS });
    assert_eq!(states.len(), 8);
    assert_eq!(states[0].fates, [Fate::Kept, Fate::Kept, Fate::Kept]);
    let torn = choose(&history, &epoch, &BOUNDS);
    let unique: BTreeSet<&Vec<Fate>> = torn.iter().map(|state| &state.fates).collect();
    assert_eq!(unique.len(), torn.len());
    assert_eq!(torn.len(), 8 + 64);
    assert!(torn.iter().any(|s| s.fates.iter().any(|f| matches!(f, Fate::Torn(_)))));
}

#[test]
fn many_writes_are_sampled_within_the_bound_and_by_seed() {
    let text: String = (1..=300).map(|n| format!("w{} .{n} ", n % 200)).collect();
    let history = told(&text, true);
    let epoch = history.epochs().next().unwrap();
    let states = choose(&history, &epoch, &BOUNDS);
    assert_eq!(states.len(), 64);
    let one_lost = |state: &State| state.fates.iter().filter(|f| **f == Fate::Lost).count() == 1;
    assert!(states.iter().filter(|state| one_lost(state)).count() >= 5);
    assert_eq!(states, choose(&history, &epoch, &BOUNDS));
    let other = choose(&history, &epoch, &Bounds { seed: 2, ..BOUNDS });
    assert_ne!(states, other);
}

#[test]
fn names_say_all_and_senseless_ones_are_refused() {
    let history = told("w1 .1 w2 .2 w3 .3 f .4", true);
    let epoch: Epoch = history.epochs().next().unwrap();
    for state in choose(&history, &epoch, &BOUNDS) {
        let name = state.name(&history, &epoch).to_string();
        let found = name.parse::<Name>().unwrap().resolve(&history).unwrap();
        assert_eq!(found, (epoch.clone(), state), "{name}");
    }
    for bad in
        ["", "7", "7:", "7:hold", "x:keep", "7:keep,1", "7:keep,1=0-", "7:lose,1=kept,1=lost"]
    {
        assert!(matches!(bad.parse::<Name>(), Err(BadState::Form(_))), "{bad}");
    }
    let resolve = |text: &str| text.parse::<Name>().unwrap().resolve(&history).unwrap_err();
    assert!(matches!(resolve("3:keep"), BadState::Cut { .. }));
    assert!(matches!(resolve("7:keep,4=lost"), BadState::Write { number: 4, .. }));
    assert!(matches!(resolve("7:keep,2=0-8"), BadState::Sectors { number: 2, sectors: 8 }));
    let cut = resolve("3:keep").to_string();
    assert!(cut.contains("7, 8"), "{cut}");
}

#[test]
fn torn_ranges_keep_to_the_write() {
    let mut history = History::new(1 << 20, true);
    let (number, connection, kind, fua) = (1, 1, Kind::Data, false);
    history.push(Event::Write { number, connection, offset: 500, length: 600, kind, fua });
    let write = history.writes()[0];
    assert_eq!(ranges(&write, &Fate::Torn(vec![true, false, true])), [(500, 512), (1024, 1100)]);
    assert_eq!(ranges(&write, &Fate::Torn(vec![true, true, false])), [(500, 1024)]);
    assert_eq!(ranges(&write, &Fate::Kept), [(500, 1100)]);
    assert_eq!(ranges(&write, &Fate::Lost), []);
}

#[test]
fn a_failure_shrinks_to_what_it_needs() {
    let text: String = (1..=40).map(|n| format!("w{n} .{n} ")).collect();
    let history = told(&text, true);
    let epoch = history.epochs().next().unwrap();
    // It takes the loss of write 7 while write 30 is there.
    let mut fails = |state: &State| state.fates[6] == Fate::Lost && state.fates[29] == Fate::Kept;
    let fates = (0..40).map(|at| if at % 3 == 2 { Fate::Kept } else { Fate::Lost }).collect();
    let state = State { cut: epoch.cut, fates };
    assert!(fails(&state));
    let (small, tries) = minimise(&state, 1000, &mut fails);
    assert!(fails(&small) && tries < 200, "{tries} tries");
    let name = small.name(&history, &epoch).to_string();
    assert!(name == "80:lose,30=kept" || name == "80:keep,7=lost", "{name}");
    let text = story(&history, &epoch, &small);
    assert!(text.contains("0 writes are durable, 40 are not yet"), "{text}");
    assert!(text.contains("the other 39"), "{text}");
}

#[test]
fn a_tear_that_does_not_matter_is_mended() {
    let history = told("w1 .1 w2 .2", true);
    let epoch = history.epochs().next().unwrap();
    let torn = Fate::Torn(vec![true, false, false, false, false, false, false, false]);
    let state = State { cut: epoch.cut, fates: vec![torn, Fate::Kept] };
    let (small, _) = minimise(&state, 100, &mut |state| state.fates[0] != Fate::Kept);
    assert_eq!(small.fates, [Fate::Lost, Fate::Kept]);
    let text = story(&history, &epoch, &small);
    assert!(text.contains("LOST  request 1: write of 4096 bytes at 4096 (sector 8)"), "{text}");
}

/// The history as it was before the event `cut`.
fn before(text: &str, cut: u64) -> History {
    let words: Vec<&str> = text.split_whitespace().take(cut as usize).collect();
    told(&words.join(" "), true)
}

#[test]
fn acknowledgements_count_up_to_the_cut() {
    let history = told("a0 w1 .1 a1 f .2 w2 a2 .3 f .4", true);
    let cuts: Vec<(u64, u64)> = history.epochs().map(|epoch| (epoch.cut, epoch.acked)).collect();
    assert_eq!(cuts, [(5, 2), (10, 3), (11, 3)]);
    assert_eq!(history.acked(0), Acked { count: 0, last: None });
    // The mark at event 3 is not before event 3.
    assert_eq!(history.acked(3), Acked { count: 1, last: Some("0") });
    assert_eq!(history.acked(4), Acked { count: 2, last: Some("1") });
    assert_eq!(history.acked(99), Acked { count: 3, last: Some("2") });
    assert_eq!(history.marks().len(), 3);
    assert_eq!((history.find_mark("2"), history.find_mark("3")), (Some(7), None));
}

/// Every cut inside an epoch is covered by the cut at its end: nothing less may be lost there, and
/// nothing less was acknowledged.
#[test]
fn the_end_of_an_epoch_covers_every_cut_in_it() {
    let text = "w1 .1 a1 w2 a2 .2 f w3 .4 .3 a3 u4 a4 .5 w5 .6 a5 f .7 a6 w6";
    let history = told(text, true);
    let epochs: Vec<Epoch> = history.epochs().collect();
    assert!(epochs.len() > 3);
    for cut in 0..=history.events() {
        let earlier = before(text, cut);
        let at_cut = earlier.epochs().last().unwrap();
        let end = epochs.iter().find(|epoch| epoch.cut >= cut).unwrap();
        let writes = |epoch: &Epoch| -> BTreeSet<usize> {
            epoch.unsettled.iter().map(|one| one.write).collect()
        };
        assert!(writes(&at_cut).is_subset(&writes(end)), "cut {cut}");
        assert_eq!(at_cut.durable, end.durable, "cut {cut}: more is durable at the end");
        assert!(earlier.acked(cut).count <= end.acked, "cut {cut}");
        assert_eq!(earlier.acked(cut), history.acked(cut), "cut {cut}");
    }
}

/// An acknowledgement without a flush: some state that is tried lacks the write and owes the value,
/// though a write follows in the same epoch.
#[test]
fn a_state_lacks_what_was_acknowledged_too_early() {
    let history = told("w1 .1 a1 w2 .2 f .3 a2", true);
    let epoch = history.epochs().next().unwrap();
    assert_eq!(history.acked(epoch.cut), Acked { count: 1, last: Some("1") });
    let states = choose(&history, &epoch, &BOUNDS);
    assert!(states.iter().any(|state| state.fates == [Fate::Lost, Fate::Lost]));
    assert!(states.iter().any(|state| state.fates == [Fate::Lost, Fate::Kept]));
    // With the flush before it, every state has the write.
    let sound = told("w1 .1 f .2 a1 w2 .3 f .4", true);
    let owing = sound.epochs().filter(|epoch| epoch.acked > 0);
    assert_eq!(owing.filter(|e| e.unsettled.iter().any(|one| one.write == 0)).count(), 0);
}

/// Two disks of 512 KiB: 1 writes and 2 writes, then a disk flushes.
#[test]
fn a_flush_of_one_disk_settles_nothing_of_the_other() {
    let disk = 1 << 19;
    for flushed in [1_u32, 2] {
        let mut history = History::new(2 * disk, false).with_second(Some(disk));
        let write = |connection: u32| Event::Write {
            number: connection.into(),
            connection,
            offset: u64::from(connection - 1) * disk,
            length: 512,
            kind: Kind::Data,
            fua: false,
        };
        for connection in [1, 2] {
            history.push(write(connection));
            history.push(Event::Answer { number: connection.into(), failed: false });
        }
        history.push(Event::Flush { number: 3, connection: flushed });
        history.push(Event::Answer { number: 3, failed: false });
        let epochs: Vec<Epoch> = history.epochs().collect();
        let last = epochs.last().expect("an epoch");
        let unsettled: Vec<usize> = last.unsettled.iter().map(|one| one.write).collect();
        assert_eq!(unsettled, [2 - flushed as usize], "the write of the other disk");
        assert_eq!(history.on_disk(disk), (1, 0));
        let state = State { cut: last.cut, fates: vec![Fate::Lost] };
        let told = story(&history, last, &state);
        let name = if flushed == 1 { "second" } else { "first" };
        assert!(told.contains(&format!(" at 0 of the {name} disk (sector 0)")), "{told}");
    }
}
