#![allow(clippy::unwrap_used)]

use super::example::{Effort, groups};
use super::probes::Question;
use super::results::{Results, Subject, files_of};
use super::walk::Space;
use super::*;
use crate::record::tape::{Header, Request, Writer};
use crate::replay::check::{Checked, Checker};
use crate::replay::mount::{Place, Way};
use crate::replay::stop::Stop;
use crate::session::Load;
use crate::states::names::{KeptNames, MOST_NAME, StateRef};
use crate::states::state::{Fate, SectorSize};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const BLOCK: u64 = 4096;
const SIZE: u64 = 64 * BLOCK;

/// A log of rows: row `n` fills `length` bytes at block `2n` with `n`. A row is flushed before it
/// is acknowledged unless `forgets` says so of it. A counter in block 0 says how many there are.
fn rows(path: &Path, count: u8, length: usize, forgets: impl Fn(u8) -> bool) {
    let header = Header::one_disk(SIZE);
    let mut tape = Writer::new(std::fs::File::create(path).unwrap(), header).unwrap();
    let ask = |tape: &mut Writer<_>, request: Request<'_>| {
        let number = tape.request(1, request).unwrap();
        tape.answer(1, number, 0).unwrap();
    };
    for row in 1..=count {
        let data = vec![row; length];
        let offset = u64::from(row) * 2 * BLOCK;
        ask(&mut tape, Request::Write { offset, data: &data, fua: false });
        if !forgets(row) {
            ask(&mut tape, Request::Flush);
        }
        let counter = vec![row; 512];
        ask(&mut tape, Request::Write { offset: 0, data: &counter, fua: false });
        ask(&mut tape, Request::Flush);
        tape.mark(&row.to_string()).unwrap();
    }
    tape.finish().unwrap();
}

/// Checks in this process: a function of the content and the number of acknowledged rows.
struct Function<F>(F, AtomicUsize);

impl<F: Fn(&[u8], u64) -> Result<(), String> + Sync> Checker for Function<F> {
    fn check(&self, device: &Path, variables: &[(&str, String)]) -> std::io::Result<Checked> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let acked = variables.iter().find(|(name, _)| *name == "SEEKLESS_ACKED_COUNT").unwrap();
        let content = std::fs::read(device)?;
        Ok(match (self.0)(&content, acked.1.parse().unwrap()) {
            Ok(()) => Checked { verdict: Verdict::Good, output: String::new() },
            Err(output) => Checked { verdict: Verdict::Bad(1), output },
        })
    }
}

/// What a check makes of the content and the number of acknowledged rows.
type Rule = dyn Fn(&[u8], u64) -> Result<(), String> + Sync;

/// All rows up to the counter are whole, and it counts at least what was acknowledged.
fn sound(length: usize) -> impl Fn(&[u8], u64) -> Result<(), String> + Sync {
    move |content, acked| {
        let counter = content[0];
        for row in 1..=counter {
            let at = usize::from(row) * 2 * BLOCK as usize;
            if content[at..at + length].iter().any(|byte| *byte != row) {
                return Err(format!("row {row} is damaged"));
            }
        }
        match u64::from(counter) < acked {
            true => Err(format!("row {acked} is missing")),
            false => Ok(()),
        }
    }
}

struct World {
    dir: TempDir,
    session: Session,
    place: Place,
    stop: Stop,
}

impl World {
    fn new(record: impl FnOnce(&Path)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.tape");
        record(&path);
        let session = Load { recording: &path, base: None }.session().unwrap();
        let place = Place::new(Way::Copy, dir.path()).unwrap();
        World { dir, session, place, stop: Stop::new().unwrap() }
    }

    fn sweep<'w>(&'w self, checker: &'w dyn Checker, options: &'w Options) -> Sweep<'w> {
        let bench = Bench { place: &self.place, checker, stop: &self.stop };
        Sweep { session: &self.session, bench, options }
    }
}

fn options() -> Options {
    Options {
        bounds: Bounds { exhaustive: 4, samples: 24, sector: SectorSize::B512, seed: 1 },
        begin: 0,
        acknowledgements: true,
        workers: 2,
        budget: None,
        shard: Shard::WHOLE,
        fail_fast: false,
        enough_percent: None,
    }
}

fn counted<F>(check: F) -> Function<F> {
    Function(check, AtomicUsize::new(0))
}

#[test]
fn a_sound_program_passes_and_equal_states_are_checked_once() {
    let world = World::new(|path| rows(path, 4, 4096, |_| false));
    let (checker, options) = (counted(sound(4096)), options());
    let sweep = world.sweep(&checker, &options);
    let swept = sweep.run(None, &mut |_| {}).unwrap();
    assert!(swept.is_complete && swept.rows.len() as u64 == swept.space, "{}", swept.rows.len());
    assert_eq!(swept.count(Kind::Good), swept.space);
    let equal = swept.rows.iter().filter(|row| row.same_as.is_some()).count();
    assert!(equal > 3, "each boundary begins with what the one before may end with: {equal}");
    assert_eq!(checker.1.load(Ordering::Relaxed), swept.rows.len() - equal);
}

#[test]
fn lost_and_broken_are_told_apart_and_grouped() {
    // Row 2 is not flushed before the counter: it may be damaged although it is counted.
    let world = World::new(|path| rows(path, 3, 4096, |row| row == 2));
    let (checker, options) = (counted(sound(4096)), options());
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    assert!(swept.count(Kind::Broken) > 0 && swept.count(Kind::Lost) == 0);
    // A check that believes acknowledgements only: the counter says 0 in vain.
    let believes = |content: &[u8], acked: u64| match u64::from(content[0]) < acked {
        true => Err("missing".to_owned()),
        false => Ok(()),
    };
    // The marks come before the flush that would make the counter durable.
    let world = World::new(|path| {
        let header = Header::one_disk(SIZE);
        let mut tape = Writer::new(std::fs::File::create(path).unwrap(), header).unwrap();
        let data = [1; 512];
        let number =
            tape.request(1, Request::Write { offset: 0, data: &data, fua: false }).unwrap();
        tape.answer(1, number, 0).unwrap();
        tape.mark("1").unwrap();
        tape.finish().unwrap();
    });
    let checker = counted(believes);
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    assert_eq!((swept.count(Kind::Lost), swept.count(Kind::Broken)), (1, 0));
    let (found, of_rows) = groups(&swept.rows);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].tried.kind, Kind::Lost);
    assert_eq!(of_rows.iter().flatten().count(), 1);
    let options = Options { acknowledgements: false, ..options };
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    assert_eq!(swept.count(Kind::Good), swept.space, "consistency only");
}

#[test]
fn probes_find_checks_that_cannot_be_trusted() {
    let world = World::new(|path| rows(path, 3, 4096, |_| false));
    let options = options();
    let first_wrong = |check: &Rule| {
        let checker = counted(check);
        let answers = world.sweep(&checker, &options).probe().unwrap();
        answers.iter().find(|answer| !answer.is_right()).map(|answer| answer.question)
    };
    assert_eq!(first_wrong(&sound(4096)), None);
    assert_eq!(first_wrong(&|_, _| Ok(())), Some(Question::MissingData));
    assert_eq!(first_wrong(&|_, _| Err("no".into())), Some(Question::EndState));
    let wants_rows = |content: &[u8], _: u64| match content[0] {
        0 => Err("empty".to_owned()),
        _ => Ok(()),
    };
    assert_eq!(first_wrong(&wants_rows), Some(Question::StartState));
}

#[test]
fn shards_share_a_sweep_and_results_are_used_again() {
    let world = World::new(|path| rows(path, 4, 4096, |row| row == 3));
    let whole = options();
    let checker = counted(sound(4096));
    let all = world.sweep(&checker, &whole).run(None, &mut |_| {}).unwrap();
    let dir = world.dir.path().join("results");
    let subject = |check: &str| Subject {
        tape: world.session.fingerprint().unwrap(),
        check: check.to_owned(),
        files: String::new(),
        file_system: None,
        acknowledgements: true,
    };
    let mut tried = 0;
    for index in 1..=3 {
        let options = Options { shard: Shard { index, count: 3 }, ..options() };
        let mut results = Results::open(&dir, &index.to_string(), &subject("x")).unwrap();
        let swept = world.sweep(&checker, &options).run(Some(&mut results), &mut |_| {}).unwrap();
        assert!(!swept.rows.is_empty() && swept.rows.len() < all.rows.len());
        tried += swept.rows.len();
    }
    assert_eq!(tried, all.rows.len(), "each state is in one shard");
    let checks = checker.1.load(Ordering::Relaxed);
    let mut results = Results::open(&dir, "all", &subject("x")).unwrap();
    let again = world.sweep(&checker, &whole).run(Some(&mut results), &mut |_| {}).unwrap();
    assert_eq!(checker.1.load(Ordering::Relaxed), checks, "every verdict was known");
    for kind in [Kind::Good, Kind::Broken, Kind::Lost] {
        assert_eq!(again.count(kind), all.count(kind), "{kind:?}");
    }
    assert!(again.count(Kind::Broken) > 0);
    assert!(matches!(Results::open(&dir, "y", &subject("y")), Err(ResultsError::Other(_))));
}

/// A check that fails on the first `bad` looks at each state, in the way given.
struct Disturbed {
    bad: usize,
    how: Verdict,
    looks: std::sync::Mutex<std::collections::BTreeMap<String, usize>>,
}

impl Checker for Disturbed {
    fn check(&self, _: &Path, variables: &[(&str, String)]) -> std::io::Result<Checked> {
        let state = variables.iter().find(|(name, _)| *name == "SEEKLESS_STATE").unwrap();
        let mut looks = self.looks.lock().unwrap();
        let looks = looks.entry(state.1.clone()).or_default();
        *looks += 1;
        let verdict = if *looks <= self.bad { self.how.clone() } else { Verdict::Good };
        Ok(Checked { verdict, output: String::new() })
    }
}

#[test]
fn a_state_counts_as_bad_only_if_it_fails_again() {
    let world = World::new(|path| rows(path, 2, 4096, |_| false));
    let options = options();
    let all = |bad, how: Verdict, kind: Kind| {
        let checker = Disturbed { bad, how: how.clone(), looks: Default::default() };
        let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
        assert_eq!(swept.count(kind), swept.space, "{bad} times {how:?}: {:?}", swept.rows);
    };
    all(0, Verdict::Bad(1), Kind::Good);
    all(1, Verdict::Bad(1), Kind::Wavers);
    all(1, Verdict::Failed("no port".into()), Kind::Good);
    all(2, Verdict::Failed("no port".into()), Kind::Failed);
    let checker = Disturbed { bad: 2, how: Verdict::Bad(1), looks: Default::default() };
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    assert_eq!(swept.count(Kind::Lost) + swept.count(Kind::Broken), swept.space);
}

#[test]
fn a_script_that_changed_is_another_check() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("check.sh");
    let command = format!("sh '{}' {{device}}", script.display());
    let hash = |text: &str| {
        std::fs::write(&script, text).unwrap();
        files_of(&command)
    };
    let first = hash("exit 0");
    assert_ne!(first, hash("exit 1"));
    assert_eq!(first, hash("exit 0"));
}

fn subject() -> Subject {
    Subject {
        tape: "t".into(),
        check: "c".into(),
        files: String::new(),
        file_system: None,
        acknowledgements: true,
    }
}

#[test]
fn results_survive_a_line_that_was_cut_off() {
    let world = World::new(|path| rows(path, 2, 4096, |_| false));
    let dir = world.dir.path().join("results");
    let subject = subject();
    let (checker, options) = (counted(sound(4096)), options());
    let run = |results: &mut Results| {
        world.sweep(&checker, &options).run(Some(results), &mut |_| {}).unwrap()
    };
    run(&mut Results::open(&dir, "a", &subject).unwrap());
    let checks = checker.1.load(Ordering::Relaxed);
    let path = dir.join("a.jsonl");
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 7]).unwrap();
    run(&mut Results::open(&dir, "a", &subject).unwrap());
    assert_eq!(checker.1.load(Ordering::Relaxed), checks + 1, "one verdict was lost");
    run(&mut Results::open(&dir, "a", &subject).unwrap());
    assert_eq!(checker.1.load(Ordering::Relaxed), checks + 1);
}

#[test]
fn verdicts_that_say_nothing_of_the_state_are_tried_again() {
    let world = World::new(|path| rows(path, 2, 4096, |_| false));
    let dir = world.dir.path().join("results");
    let subject = subject();
    let (checker, options) = (counted(sound(4096)), options());
    let run = |checker: &dyn Checker| {
        let mut results = Results::open(&dir, "a", &subject).unwrap();
        world.sweep(checker, &options).run(Some(&mut results), &mut |_| {}).unwrap()
    };
    for (broken, kind) in [(Verdict::Failed("x".into()), Kind::Failed), (Verdict::Hung, Kind::Hung)]
    {
        let swept = run(&Always(broken));
        assert_eq!(swept.count(kind), swept.space, "the machine is out of order");
    }
    let swept = run(&checker);
    assert_eq!(swept.count(Kind::Good), swept.space, "the cause is gone");
    let checks = checker.1.load(Ordering::Relaxed);
    assert!(checks > 0);
    run(&checker);
    assert_eq!(checker.1.load(Ordering::Relaxed), checks, "good states are known");
}

/// A check that always comes to the same.
struct Always(Verdict);

impl Checker for Always {
    fn check(&self, _: &Path, _: &[(&str, String)]) -> std::io::Result<Checked> {
        Ok(Checked { verdict: self.0.clone(), output: String::new() })
    }
}

#[test]
fn a_budget_tries_each_state_once_in_another_order() {
    let world = World::new(|path| rows(path, 9, 4096, |row| row == 3));
    let checker = counted(sound(4096));
    let plain = options();
    let budgeted = Options { budget: Some(Duration::from_secs(600)), ..options() };
    let names = |options: &Options| {
        let swept = world.sweep(&checker, options).run(None, &mut |_| {}).unwrap();
        assert!(swept.is_complete);
        swept.rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    let (plain, mut budgeted) = (names(&plain), names(&budgeted));
    assert_ne!(plain, budgeted);
    let mut sorted = plain.clone();
    sorted.sort();
    budgeted.sort();
    assert_eq!(sorted, budgeted);
    let none = Options { budget: Some(Duration::ZERO), ..options() };
    let swept = world.sweep(&checker, &none).run(None, &mut |_| {}).unwrap();
    assert!(!swept.is_complete && swept.rows.is_empty() && swept.space == plain.len() as u64);
}

#[test]
fn a_budget_begins_with_boundaries_that_owe_something_new() {
    // Of the boundaries only every second follows an acknowledgement.
    let world = World::new(|path| rows(path, 9, 4096, |_| false));
    let checker = counted(sound(4096));
    let options = Options { budget: Some(Duration::from_secs(600)), ..options() };
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    let epochs: Vec<Epoch> = world.session.history().epochs().collect();
    let owing: Vec<u64> = epochs
        .windows(2)
        .filter(|pair| pair[1].acked > pair[0].acked)
        .map(|pair| pair[1].cut)
        .collect();
    assert!(owing.len() * 2 <= epochs.len() && owing.len() > 5, "{owing:?}");
    let first: Vec<u64> = swept.rows.iter().take(owing.len()).map(|row| row.cut).collect();
    assert!(first.iter().all(|cut| owing.contains(cut)), "{first:?} of {owing:?}");
}

#[test]
fn a_sweep_that_is_cut_short_knows_its_share() {
    let world = World::new(|path| rows(path, 4, 4096, |_| false));
    let checker = counted(sound(4096));
    let mut shares = 0;
    for index in 1..=3 {
        let shard = Shard { index, count: 3 };
        let options = Options { shard, ..options() };
        let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
        assert_eq!(swept.share, swept.rows.len() as u64);
        shares += swept.share;
        let sweep = world.sweep(&checker, &options);
        let answers = sweep.probe().unwrap();
        assert_eq!(sweep.report(&swept, &answers).verdict(), crate::report::Verdict::Green);
        let none = Options { budget: Some(Duration::ZERO), ..options.clone() };
        let swept = world.sweep(&checker, &none).run(None, &mut |_| {}).unwrap();
        let coverage = world.sweep(&checker, &none).report(&swept, &answers).coverage;
        assert!(coverage.is_partial() && !coverage.is_enough(), "{coverage:?}");
    }
    assert_eq!(shares, Space::of(&world.session, &options()).states);
}

#[test]
fn nothing_is_tried_before_the_begin() {
    let world = World::new(|path| rows(path, 4, 4096, |_| false));
    let checker = counted(sound(4096));
    let begin = world.session.history().find_mark("2").unwrap() + 1;
    let options = Options { begin, ..options() };
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    assert!(swept.rows.iter().all(|row| row.cut > begin && row.acked >= 2));
    assert!(swept.space > 0 && swept.count(Kind::Good) == swept.space);
    let answers = world.sweep(&checker, &options).probe().unwrap();
    assert!(answers.len() == 3 && answers.iter().all(|answer| answer.is_right()), "{answers:?}");
}

#[test]
fn an_example_is_torn_as_little_as_possible() {
    const LENGTH: usize = 16 * 512;
    let world = World::new(|path| rows(path, 1, LENGTH, |_| true));
    // Bad once any of the last three sectors is there without the first.
    let torn = |content: &[u8], _: u64| {
        let at = 2 * BLOCK as usize;
        match content[at] == 0 && content[at + 13 * 512..at + 16 * 512].contains(&1) {
            true => Err("torn".to_owned()),
            false => Ok(()),
        }
    };
    let (checker, options) = (counted(torn), options());
    let sweep = world.sweep(&checker, &options);
    let swept = sweep.run(None, &mut |_| {}).unwrap();
    let (mut found, _) = groups(&swept.rows);
    assert_eq!(found.len(), 1);
    let until = Instant::now() + Duration::from_secs(600);
    sweep.shrink(&mut found[0], Effort { tries: 300, until }).unwrap();
    assert!(found[0].is_minimised);
    let marks = found[0].state.fates.iter().find_map(|fate| match fate {
        Fate::Torn(marks) => Some(marks.iter().filter(|mark| **mark).count()),
        _ => None,
    });
    assert_eq!(marks, Some(1), "{:?}", found[0].state);
}

#[test]
fn names_are_short_and_lead_back() {
    let world = World::new(|path| {
        let header = Header::one_disk(SIZE);
        let mut tape = Writer::new(std::fs::File::create(path).unwrap(), header).unwrap();
        for block in 0..40 {
            let data = [block as u8; 4096];
            let request = Request::Write { offset: block * BLOCK, data: &data, fua: false };
            let number = tape.request(1, request).unwrap();
            tape.answer(1, number, 0).unwrap();
        }
        tape.finish().unwrap();
    });
    let (checker, options) = (counted(|_: &[u8], _: u64| Err("bad".into())), options());
    let swept = world.sweep(&checker, &options).run(None, &mut |_| {}).unwrap();
    let history = world.session.history();
    let kept = KeptNames::of(&world.dir.path().join("run.tape"));
    let mut hashed = 0;
    for row in &swept.rows {
        let Some((epoch, state)) = &row.state else { continue };
        assert!(row.name.len() <= MOST_NAME, "{}", row.name);
        hashed += usize::from(row.name.contains('#'));
        let found: StateRef = row.name.parse().unwrap();
        assert_eq!(found.to_string(), row.name);
        let (_, again) = found.resolve(history, &options.bounds, &kept).unwrap();
        assert_eq!(again, *state, "{}", row.name);
        // With other bounds only a kept name leads back.
        let other = Bounds { seed: 99, samples: 0, ..options.bounds };
        kept.keep(&state.name(history, epoch)).unwrap();
        assert_eq!(found.resolve(history, &other, &kept).unwrap().1, *state);
    }
    assert!(hashed > 3, "{hashed}");
    let unknown: StateRef = "80:#000000000000".parse().unwrap();
    assert!(unknown.resolve(history, &options.bounds, &kept).is_err());
    for text in ["80:#", "80:#12", "x:#000000000000", "80:#00000000000g"] {
        assert!(text.parse::<StateRef>().is_err(), "{text}");
    }
}
