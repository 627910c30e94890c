//! Rules of the cache one by one, each against times that were worked out by hand. The disk turns
//! in 10 ms; sector `k` of the first track passes from `k`·0.1 ms on. A command costs 0.5 ms, a
//! sector on the bus 0.01 ms, another head 1 ms.

use super::*;

/// 1/100 of a millisecond.
const TICK: Time = MILLIS / 100;

fn drive(rules: Cache) -> Drive {
    let rules = Cache { segments: 4, segment_sectors: 200, ..rules };
    Drive::new(&Spec { cache: Some(rules), ..spec() }).unwrap()
}

/// When a request that comes at `now` is done, both in hundredths of a millisecond.
fn done(drive: &mut Drive, now: Time, request: Request) -> Time {
    let at = one(drive, now * TICK, request).at;
    assert_eq!(at % TICK, 0);
    at / TICK
}

/// Both wait for sector 0 (10 ms) and 20 (12 ms). A cache that forgets reads earlier sectors from
/// the platter, and keeps only its last read.
#[test]
fn a_cache_that_forgets_finds_the_last_read_only() {
    for (forgets, again) in [(false, 1281 + 50 + 8), (true, 2000 + 80 + 1)] {
        let mut drive = drive(Cache { forgets, ..Cache::default() });
        assert_eq!(done(&mut drive, 0, read(0, 0, 8)), 1000 + 80 + 1);
        assert_eq!(done(&mut drive, 1081, read(1, 20, 8)), 1200 + 80 + 1);
        let now = done(&mut drive, 1281, read(2, 0, 8));
        assert_eq!(now, again, "{forgets}");
        assert_eq!(done(&mut drive, now, read(3, 4, 4)), now + 50 + 4, "{forgets}");
        let last = done(&mut drive, now + 54, read(4, 20, 8)) - (now + 54);
        assert_eq!(last == 50 + 8, !forgets);
    }
}

/// Sector 15 of the second track passes at 12.5 ms, because that track begins ten sectors later.
/// The command comes at 10.81 ms. The arm could start at 11.31 ms and be there at 12.31 ms. With
/// thirty sectors to read ahead, 8 to 37, it starts at 13.8 ms and is a turn late.
#[test]
fn a_least_read_ahead_keeps_the_head_from_leaving() {
    for (least, there) in [(0, 1250 + 10 + 1), (30, 2250 + 10 + 1)] {
        let rules =
            Cache { read_ahead: Prefetch::Track, min_read_ahead: least, ..Cache::default() };
        let mut drive = drive(rules);
        assert_eq!(done(&mut drive, 0, read(0, 0, 8)), 1081);
        let now = done(&mut drive, 1081, read(1, 115, 1));
        assert_eq!(now, there, "{least}");
        // The sectors read ahead are in memory: all thirty, or the five until 11.31 ms.
        let found = done(&mut drive, now, read(2, 8, 30)) - now;
        assert_eq!(found == 50 + 30, least == 30, "{found}");
        let mut other = self::drive(rules);
        let now = done(&mut other, 0, read(0, 0, 8));
        let now = done(&mut other, now, read(1, 115, 1));
        assert_eq!(done(&mut other, now, read(2, 8, 5)), now + 50 + 5, "{least}");
    }
}

/// The end of the track limits it: a read that ends ten sectors before leaves ten to wait for.
#[test]
fn a_least_read_ahead_ends_with_its_limit() {
    let rules = Cache { read_ahead: Prefetch::Track, min_read_ahead: 30, ..Cache::default() };
    let mut drive = drive(rules);
    // Sectors 80 to 89 pass from 8 to 9 ms; ten are left, which pass until 10 ms.
    assert_eq!(done(&mut drive, 0, read(0, 80, 10)), 900 + 1);
    // The arm could start at 9.51 ms and starts at 10 ms; sector 5 of the second track passes from
    // 11.5 ms on.
    assert_eq!(done(&mut drive, 901, read(1, 105, 1)), 1150 + 10 + 1);
}

/// The first write is reported after 0.58 ms and passes the head from 10 to 10.8 ms. One that
/// continues it joins it and is on the platter at 11.6 ms; Else it waits for the first: its data
/// comes when its first sector has just begun to pass, which costs a turn.
#[test]
fn writes_in_sequence_are_combined() {
    for (combine_writes, reported, arrived) in [(true, 58 + 50 + 8, 1160), (false, 1080 + 8, 2160)]
    {
        let fast_write = FastWrite::Any;
        let mut drive = drive(Cache { fast_write, combine_writes, ..Cache::default() });
        assert_eq!(done(&mut drive, 0, write(0, 0, 8)), 58);
        assert_eq!(done(&mut drive, 58, write(1, 8, 8)), reported, "{combine_writes}");
        let flush = Request { op: Op::Flush, ..read(2, 0, 0) };
        assert_eq!(done(&mut drive, reported, flush), arrived, "{combine_writes}");
    }
    // A write that does not continue it waits in both cases, to 10.8 ms.
    let fast_write = FastWrite::Any;
    let mut drive = drive(Cache { fast_write, combine_writes: true, ..Cache::default() });
    assert_eq!(done(&mut drive, 0, write(0, 0, 8)), 58);
    assert_eq!(done(&mut drive, 58, write(1, 20, 8)), 1080 + 8);
}
