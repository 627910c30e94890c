use super::*;
use crate::driver::tests::{SERVICE, inplace};
use seekless_engine::rng::Rng;

/// A record for one block at a time in services.
fn record(at: u64, action: Action, block: u64) -> Record {
    let (flush_first, fua) = (false, false);
    Record { at_ns: at * SERVICE, action, flush_first, fua, sector: block * 8, sectors: 8 }
}

fn options(pacing: Pacing) -> ReplayOptions {
    ReplayOptions { pacing, mapping: Mapping::Fold, pool: None }
}

fn player(records: Vec<Record>, options: ReplayOptions) -> Player<'static> {
    Player::new(Box::new(records.into_iter().map(Ok)), options, 1000)
}

/// All records on a device that takes [`SERVICE`] for each request, one after the other.
fn play(records: Vec<Record>, options: ReplayOptions) -> (Vec<Completion>, PlayCounts, Driver) {
    let mut driver = inplace(|cells| Box::new(cells));
    let mut player = player(records, options);
    let mut seen = Vec::new();
    let played = player.play(&mut driver, u64::MAX, |done| seen.push(*done)).expect("it runs");
    assert_eq!(played, seen.len() as u64);
    (seen, player.counts(), driver)
}

fn latencies(seen: &[Completion]) -> Vec<u64> {
    seen.iter().map(|done| done.spent.total_ns() / SERVICE).collect()
}

#[test]
fn an_open_loop_keeps_the_times_of_the_trace() {
    let records: Vec<Record> =
        [1000, 1010, 1010, 1010, 1020].map(|at| record(at, Action::Write, at)).to_vec();
    let (seen, counts, driver) = play(records.clone(), options(Pacing::Open { speed: 1.0 }));
    let began: Vec<u64> = seen.iter().map(|done| done.submitted / SERVICE).collect();
    assert_eq!(began, [0, 10, 10, 10, 20]);
    assert_eq!(latencies(&seen), [1, 1, 2, 3, 1]);
    assert_eq!(driver.now(), 21 * SERVICE);
    assert_eq!(counts, PlayCounts { records: 5, late: 0, span_ns: 20 * SERVICE });
    // Ten times as fast, they meet.
    let (seen, ..) = play(records, options(Pacing::Open { speed: 10.0 }));
    assert_eq!(latencies(&seen), [1, 1, 2, 3, 3]);
}

#[test]
fn what_no_longer_fits_into_an_open_loop_waits_outside() {
    let records = vec![record(5, Action::Write, 1); MAX_USERS as usize + 4];
    let (seen, counts, _) = play(records, options(Pacing::Open { speed: 1.0 }));
    assert_eq!(counts.late, 4);
    let last = seen.last().expect("answers");
    assert_eq!(last.spent.total_ns(), (u64::from(MAX_USERS) + 4) * SERVICE, "from its arrival on");
}

#[test]
fn users_of_a_closed_loop_take_the_next_record_when_they_are_free() {
    let records: Vec<Record> = (0..60).map(|at| record(at * 50, Action::Write, at)).collect();
    for users in [1, 3] {
        let (seen, _, driver) = play(records.clone(), options(Pacing::Closed { users }));
        assert_eq!(driver.now(), 60 * SERVICE, "the device is never idle");
        let settled = &latencies(&seen)[users as usize..];
        assert!(settled.iter().all(|&services| services == u64::from(users)), "{settled:?}");
    }
}

#[test]
fn parts_of_a_record_go_out_together_and_flushes_first() {
    // Folded: the record has two runs.
    let split = Record { sectors: 16, ..record(0, Action::Write, 999) };
    let (seen, ..) = play(vec![split], options(Pacing::Closed { users: 1 }));
    assert_eq!((seen[0].count, latencies(&seen)[0]), (2, 2));
    let flushed = Record { flush_first: true, fua: true, ..record(0, Action::Write, 5) };
    let bare = Record { sectors: 0, ..record(0, Action::Flush, 0) };
    let (seen, ..) = play(vec![bare, flushed], options(Pacing::Closed { users: 1 }));
    let flush = seen[0].spent.total_ns();
    assert_eq!(seen[1].spent.total_ns(), flush + SERVICE, "one after the other");
    assert_eq!((seen[0].op, seen[1].op), (Op::Flush, Op::Write));
}

/// The oracle sees every read: trims and overlapping writes included.
#[test]
fn content_is_verified_through_trims_and_the_pool() {
    let mut rng = Rng::stream(4, "test");
    let mut records = Vec::new();
    for at in 0..4000 {
        let action = [Action::Read, Action::Write, Action::Write, Action::Trim, Action::Flush]
            [rng.below(5) as usize];
        let sectors = if action == Action::Flush { 0 } else { 8 * (1 + rng.below(4)) };
        let fua = rng.chance(0.2);
        records.push(Record { sectors, fua, ..record(at, action, rng.below(60)) });
    }
    for pool in [None, Some(PoolOptions { blocks: 20, clean_every: Some(5 * SERVICE) })] {
        for pacing in [Pacing::Closed { users: 6 }, Pacing::Open { speed: 1.3 }] {
            let options = ReplayOptions { pool, ..options(pacing) };
            let (seen, _, mut driver) = play(records.clone(), options);
            assert_eq!(seen.len(), records.len());
            driver.read_back(16).expect("what lies on the disk is what was written there last");
        }
    }
}

#[test]
fn the_pool_absorbs_what_is_asked_for_again() {
    let pool = Some(PoolOptions { blocks: 2, clean_every: None });
    let options = ReplayOptions { pool, ..options(Pacing::Closed { users: 1 }) };
    let records = vec![
        record(0, Action::Read, 1),
        record(0, Action::Write, 1),
        record(0, Action::Write, 1),
        record(0, Action::Read, 2),
        // Block 1 has to leave and was changed; a write of a whole block reads nothing.
        record(0, Action::Read, 3),
        record(0, Action::Write, 4),
    ];
    let mut driver = inplace(|cells| Box::new(cells));
    let mut player = player(records, options);
    let mut seen = Vec::new();
    player.play(&mut driver, u64::MAX, |done| seen.push(*done)).expect("it runs");
    assert_eq!(latencies(&seen), [1, 0, 0, 1, 2, 0]);
    let counts = player.take_pool_counts().expect("there is a pool");
    assert_eq!(counts, PoolCounts { hits: 2, misses: 4, evicted: 1, cleaned: 0 });
}

#[test]
fn a_flush_empties_the_pool_first_and_forced_writes_go_past_it() {
    let pool = Some(PoolOptions { blocks: 10, clean_every: None });
    let options = ReplayOptions { pool, ..options(Pacing::Closed { users: 1 }) };
    let flush = Record { sectors: 0, ..record(0, Action::Flush, 0) };
    let (bare, ..) = play(vec![flush], options);
    let records = vec![
        record(0, Action::Write, 1),
        record(0, Action::Write, 2),
        record(0, Action::Write, 9),
        flush,
        flush,
        Record { fua: true, ..record(0, Action::Write, 1) },
    ];
    let (seen, ..) = play(records, options);
    let flush = latencies(&bare)[0];
    // Blocks 1 and 2 go in one request.
    assert_eq!(latencies(&seen), [0, 0, 0, 2 + flush, flush, 1]);
}

#[test]
fn phases_of_a_run_go_on_where_the_one_before_ended() {
    let records: Vec<Record> = (0..10).map(|at| record(at * 3, Action::Write, at)).collect();
    let mut driver = inplace(|cells| Box::new(cells));
    let mut player = player(records, options(Pacing::Open { speed: 1.0 }));
    assert_eq!(player.play(&mut driver, 4, |_| {}), Ok(4));
    assert_eq!(player.play(&mut driver, 4, |_| {}), Ok(4));
    assert_eq!(player.play(&mut driver, 4, |_| {}), Ok(2));
    assert_eq!(driver.now(), (27 + 1) * SERVICE);
    assert!(player.jobs.len() <= 2, "jobs are used again");
}

#[test]
fn errors_of_the_trace_come_through() {
    let bad = TraceError::Empty("small.csv".to_owned());
    let records = [Ok(record(0, Action::Write, 1)), Err(bad.clone())];
    let options = options(Pacing::Closed { users: 1 });
    let mut player = Player::new(Box::new(records.into_iter()), options, 1000);
    let mut driver = inplace(|cells| Box::new(cells));
    assert_eq!(player.play(&mut driver, 9, |_| {}), Err(ReplayError::Trace(bad)));
    let far = record(0, Action::Write, 64_000);
    let more = (0..20).map(|index| record(0, Action::Write, index * 64));
    let records: Vec<_> = more.chain([far]).map(Ok).collect();
    let options = ReplayOptions { mapping: Mapping::FirstTouch, ..options };
    let mut player = Player::new(Box::new(records.into_iter()), options, 1000);
    let mut driver = inplace(|cells| Box::new(cells));
    assert_eq!(
        player.play(&mut driver, 99, |_| {}),
        Err(ReplayError::NoRoom(NoRoom { volume: 1000 }))
    );
}
