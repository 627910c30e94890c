//! Figures that follow in closed form from hand-made recordings, and invalid recordings.

use super::plot::{Ink, distributions};
use super::*;
use seekless_engine::units::{MICROS, MILLIS};

fn read(text: &[u8]) -> Result<Vec<Recorded>, RecordingError> {
    Recording::open(text)?.collect()
}

fn fails(text: &[u8], parts: &[&str]) {
    let said = read(text).expect_err("must fail").to_string();
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    // The caller separates cause and remedy.
    assert!(said.contains("; ") || said.contains("line ") || said.contains("byte "), "{said}");
}

#[test]
fn columns_are_read() {
    let text = b"# a comment\nR Hit 7 4 663.00000 45422.5\r\n\nW Miss 9 1 0.125 0\n";
    let found = read(text).expect("reads");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].place, Place::Line(2));
    assert_eq!((found[0].op, found[0].lbn, found[0].sectors), (Op::Read, 7, 4));
    assert_eq!(found[0].response_ns, 663 * MICROS);
    assert_eq!(found[0].pace, Pace::Gap(45_422_500));
    assert_eq!((found[1].op, found[1].response_ns), (Op::Write, 125));
    assert_eq!(found[1].place, Place::Line(4));
}

#[test]
fn comma_separated_values_are_read_by_name() {
    let text = b"lbn,op,sectors,gap_us,response_us\n8,W,16,2.5,1000\n";
    let found = read(text).expect("reads");
    assert_eq!((found[0].lbn, found[0].sectors, found[0].op), (8, 16, Op::Write));
    assert_eq!((found[0].response_ns, found[0].pace), (MILLIS, Pace::Gap(2500)));
    let text = b"op,lbn,sectors,response_us,time_us,device\nr,1,2,3,4,5\n";
    let found = read(text).expect("reads");
    assert_eq!((found[0].pace, found[0].device), (Pace::At(4000), 5));
}

#[test]
fn logs_of_fio_and_traces_of_msr_are_read() {
    let found =
        read(b"3, 8213000, 0, 4096, 1048576, 0\n11, 90000, 1, 8192, 0, 0\n").expect("reads");
    assert_eq!((found[0].op, found[0].lbn, found[0].sectors), (Op::Read, 2048, 8));
    assert_eq!((found[0].response_ns, found[0].pace), (8_213_000, Pace::Gap(0)));
    assert_eq!((found[1].op, found[1].lbn, found[1].sectors), (Op::Write, 0, 16));
    let text = b"128166372003061629,usr,1,Read,7014609920,24576,41286\n\
        128166372016382155,usr,1,Write,1317441536,8192,1963\n";
    let found = read(text).expect("reads");
    assert_eq!((found[0].op, found[0].lbn, found[0].sectors), (Op::Read, 13_700_410, 48));
    assert_eq!((found[0].response_ns, found[0].device), (4_128_600, 1));
    let (Pace::At(first), Pace::At(second)) = (found[0].pace, found[1].pace) else {
        panic!("it has times")
    };
    assert_eq!(second - first, 1_332_052_600);
    fails(b"3, 1, 2, 4096, 0, 0\n", &["line 1", "direction 2"]);
    fails(b"3, 1, 0, 4096, 0, 0\n4, 1\n", &["line 2", "2 values", "fio"]);
}

#[test]
fn comma_separated_values_of_others_are_read() {
    let one = |text: &str| read(text.as_bytes()).expect("reads")[0];
    // The six columns with commas, and five of them, without a header.
    let six = one("R, Hit, 7, 4, 663.5, 2\nW,Miss,1,1,1,1\n");
    assert_eq!((six.op, six.lbn, six.sectors, six.place), (Op::Read, 7, 4, Place::Line(1)));
    assert_eq!((six.response_ns, six.pace), (663_500, Pace::Gap(2000)));
    assert_eq!(one("W,7,4,663.5,2\n"), Recorded { op: Op::Write, ..six });
    assert_eq!(read(b"R,7,4,1,2\nW,1,1,1,1\n").expect("reads").len(), 2);
    // Other names, other units, quotes, a mark of the order of bytes, ends of lines of two bytes.
    let text =
        "\u{feff}\"LBA\",\"RW\",Sectors,Latency_ms,gap_ns,label\r\n\"7\",R,4,0.6635,2000,Hit\r\n";
    assert_eq!(one(text), Recorded { place: Place::Line(2), ..six });
    // Times may count from 1970; responses may not.
    let at = one("op,lbn,sectors,response_us,time_us\nR,7,4,1,1760000000000000\n");
    assert_eq!(at.pace, Pace::At(1_760_000_000_000_000_000));
    fails(b"R,7,4,1760000000000000,1\n", &["line 1", "not a time", "microseconds"]);
    fails(b"op,lbn,sectors,response_ms,gap_us\nR,7,4,-1,1\n", &["line 2", "milliseconds"]);
    fails(b"op,lbn,sectors,response,gap_us\nR,7,4,1,1\n", &["line 1", "`response`"]);
    fails(b"R,7,4,1\n", &["line 1", "no column `op`, but the unknown `R`, `7`, `4`, `1`"]);
    fails(b"R,7,4,1,1\nR,7,4,1\n", &["line 2", "4 values under 5"]);
    fails(b"op,rw,lbn,sectors,response_us,gap_us\n", &["twice"]);
}

#[test]
fn columns_that_say_nothing_are_passed_over_and_named() {
    let text = b"colour,op,lbn,sectors,response_us,gap_us,\"depth\"\nred,R,7,4,1,2,9\n";
    let mut recording = Recording::open(text.as_slice()).expect("opens");
    assert_eq!(recording.unknown_columns(), ["colour", "depth"]);
    let one = recording.next().expect("one").expect("reads");
    assert_eq!((one.lbn, one.sectors, one.pace), (7, 4, Pace::Gap(2000)));
}

#[test]
fn time_does_not_run_backwards() {
    let head = "op,lbn,sectors,response_us,time_us\n";
    let lines = |times: [u32; 3]| times.map(|us| format!("R,1,2,3,{us}\n")).concat();
    assert_eq!(read(format!("{head}{}", lines([5, 5, 9])).as_bytes()).expect("reads").len(), 3);
    let back = format!("{head}{}", lines([5, 1000, 6]));
    fails(back.as_bytes(), &["line 4", "backwards, from 1000 to 6 µs", "sort"]);
    // The driver queued them earlier than the drive got them.
    let at = |start| record(4, 1, [2, 5, start, 2000, 512, 77, 0, 0, 0, 1, 0]);
    let records = [at(100), at(1000), at(200)].concat();
    let mut recording = Recording::open(records.as_slice()).expect("opens");
    assert_eq!(recording.by_ref().filter(Result::is_ok).count(), 3);
    assert_eq!(recording.belated(), 1);
}

/// A disk with sectors of 4096 bytes gets no smaller requests.
#[test]
fn requests_for_parts_of_sectors_are_errors_with_their_line() {
    let text = "name='t'\nsummary=''\nrpm=6000\nheads=2\ncylinders=10\nhead_switch_ms=1\n\
                overhead_ms=0\nseek={constant={ms=1}}\n\
                sector_size={logical=4096,physical=4096}\n\
                zones=[{sectors=64,track_skew=0,cylinder_skew=0}]";
    let spec = crate::Spec::parse(text).expect("sound");
    let trace = b"R x 8 16 1000 1000\nW x 12 8 1000 1000\nR x 16 4 1000 1000\n";
    let mut replay = Replay::new(Gap::After, || crate::Drive::new(&spec).expect("sound"));
    let answers: Vec<Result<Outcome, ReplayError>> =
        read(trace).expect("reads").into_iter().map(|request| replay.step(request)).collect();
    assert!(answers[0].is_ok());
    for (index, part) in [(1, "line 2: sectors 12+8"), (2, "line 3: sectors 16+4")] {
        let said = answers[index].as_ref().expect_err("refused").to_string();
        assert!(said.starts_with(part) && said.contains("sectors of 4096 bytes"), "{said}");
    }
}

/// A record of the given version and type.
fn record(version: u32, kind: u32, fields: [u32; 11]) -> Vec<u8> {
    let mut words = vec![0, version << 16 | kind];
    words.extend(fields);
    words.extend(vec![0; usize::from(version == 4) + usize::from(kind == 4)]);
    words[0] = words.len() as u32 * 4;
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn binary_records_are_read_with_a_header_and_without() {
    // seconds, micros, start, stop, bytes, sector, device, driver, cylinder, flags, origin
    let one = record(4, 1, [2, 5, 100, 1100, 1024, 77, 3 << 8, 0, 0, 1, 0]);
    let suspect = record(4, 4, [2, 5, 100, 1100, 1024, 78, 0, 0, 0, 1, 0]);
    let old = record(2, 1, [3, 0, 0, 10, 512, 79, 0, 0, 0, 0x100, 0]);
    let records = [one, suspect, old].concat();
    let header = b"machine = \"x\";\ntracedate\t= \"Mon May 11 1992\";\n\x0c".to_vec();
    for bytes in [records.clone(), [header.clone(), records.clone()].concat()] {
        // One byte at a time, as a pipe may deliver it.
        let slow = std::io::BufReader::with_capacity(97, bytes.as_slice());
        let mut recording = Recording::open(slow).expect("opens");
        assert_eq!(recording.format(), Format::Srt);
        let found: Vec<Recorded> = recording.by_ref().map(|one| one.expect("reads")).collect();
        assert_eq!(recording.passed_over(), 1);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].op, found[0].lbn, found[0].sectors), (Op::Read, 77, 2));
        assert_eq!(found[0].response_ns, 1000 * MICROS);
        assert_eq!((found[0].pace, found[0].device), (Pace::At(2_000_105_000), 3));
        assert_eq!((found[1].op, found[1].lbn), (Op::Write, 79));
    }
    for cut in 1..records.len() {
        let all: Result<Vec<_>, _> = read(&records[..cut]);
        if cut % 56 != 0 && cut != 56 + 60 {
            assert!(all.expect_err("cut off").to_string().contains("cut off"), "{cut}");
        }
    }
    fails(&record(4, 9, [0; 11]), &["byte 0", "type 9"]);
    fails(&record(4, 1, [2, 5, 7, 6, 512, 0, 0, 0, 0, 0, 0]), &["byte 0", "damaged"]);
    fails(&record(4, 1, [2, 5, 0, 6, 500, 0, 0, 0, 0, 0, 0]), &["500 bytes", "512"]);
    fails(b"tracedate = \"x\";\nno form feed", &["byte", "0x0c"]);
}

#[test]
fn wrong_recordings_are_errors_that_name_their_line() {
    fails(b"", &["no request"]);
    fails(b"# only a comment\n", &["no request"]);
    fails(b"R Hit 1 2 3 4\nR Hit 1 2 3\n", &["line 2", "fewer than six", "microseconds"]);
    fails(b"R Hit 1 2 3 4 5\n", &["line 1", "more than six"]);
    fails(b"X Hit 1 2 3 4\n", &["line 1", "`X`", "write R"]);
    fails(b"R Hit -1 2 3 4\n", &["line 1", "`-1`"]);
    fails(b"R Hit 1 0 3 4\n", &["line 1", "0 sectors"]);
    fails(b"R Hit 1 2 nan 4\n", &["line 1", "`nan`"]);
    fails(b"R Hit 1 2 3 -4\n", &["line 1", "`-4`"]);
    fails(b"R Hit 1 2 3 1e300\n", &["line 1", "1e300"]);
    fails(b"R Hit 18446744073709551615 2 3 4\n", &["line 1", "beyond any disk"]);
    fails(&[b'x'; 10_000], &["line 1", "longer"]);
    fails(&[b"R Hit 1 2 3 4\n".as_slice(), &[0xff, 0xfe, b'\n']].concat(), &["line 2", "text"]);
    fails(b"op,lbn\n", &["line 1", "sectors"]);
    fails(b"op,lbn,sectors,response_us\n", &["gap_us", "time_us"]);
    fails(b"op,lbn,sectors,response_us,pause_us\n", &["gap_us", "unknown `pause_us`"]);
    fails(b"op,op,lbn,sectors,response_us,gap_us\n", &["twice"]);
    fails(b"op,lbn,sectors,response_us,gap_us\nR,1,2,3\n", &["line 2", "4 values"]);
    fails(b"op,lbn,sectors,response_us,gap_us\nR,1,2,3,4,5\n", &["line 2", "6 values"]);
}

/// Takes a fixed time and records when requests came.
struct Fixed {
    ns: Time,
    asked: std::rc::Rc<std::cell::RefCell<Vec<Time>>>,
}

impl Subject for Fixed {
    fn sectors(&self) -> u64 {
        1000
    }

    fn serve(&mut self, at: Time, _: Op, lbn: u64, _: u32) -> Result<Time, Refused> {
        if lbn == 13 {
            return Err(Refused("the sector is cursed; take another".into()));
        }
        self.asked.borrow_mut().push(at);
        Ok(at + self.ns)
    }
}

fn asked(gap: Gap, text: &str) -> Vec<Time> {
    let asked = std::rc::Rc::default();
    let mut replay =
        Replay::new(gap, || Fixed { ns: 10 * MICROS, asked: std::rc::Rc::clone(&asked) });
    for request in Recording::open(text.as_bytes()).expect("opens") {
        replay.step(request.expect("reads")).expect("is served");
    }
    asked.take().iter().map(|at| at / MICROS).collect()
}

#[test]
fn gaps_count_before_or_after() {
    let text = "R a 0 1 5 100\nR a 1 1 5 200\nR a 2 1 5 300\n";
    assert_eq!(asked(Gap::After, text), [0, 110, 320]);
    assert_eq!(asked(Gap::Before, text), [100, 310, 620]);
    // With times, pauses are kept: the model takes twice as long, so its requests come later.
    let text = "op,lbn,sectors,response_us,time_us\nR,0,1,5,1000\nR,0,1,5,1005\nR,0,1,5,1100\n";
    assert_eq!(asked(Gap::After, text), [0, 10, 110]);
    // What came while the drive was busy keeps its distance, but is not sent while the model is.
    let text = "op,lbn,sectors,response_us,time_us\nR,0,1,50,1000\nR,0,1,50,1004\nR,0,1,5,1030\n";
    assert_eq!(asked(Gap::After, text), [0, 10, 30]);
    // Another drive does not wait for the first one.
    let text = "op,lbn,sectors,response_us,time_us,device\nR,0,1,5,1000,0\nR,0,1,5,1005,1\n";
    assert_eq!(asked(Gap::After, text), [0, 5]);
}

#[test]
fn requests_that_cannot_be_served_are_named() {
    let asked = std::rc::Rc::default();
    let mut replay = Replay::new(Gap::After, || Fixed { ns: 1, asked: std::rc::Rc::clone(&asked) });
    let text = b"R a 999 1 5 0\nR a 999 2 5 0\nR a 13 1 5 0\n";
    let requests = read(text).expect("reads");
    assert!(replay.step(requests[0]).is_ok());
    let said = replay.step(requests[1]).expect_err("beyond the end").to_string();
    assert!(said.contains("line 2") && said.contains("1000 sectors"), "{said}");
    let said = replay.step(requests[2]).expect_err("refused").to_string();
    assert_eq!(said, "line 3: the sector is cursed; take another");
}

/// Each pause is valid in a recording; their sum overflows.
#[test]
fn a_replay_of_centuries_is_an_error_with_its_line() {
    let mut replay = Replay::new(Gap::After, || Fixed { ns: 1, asked: std::rc::Rc::default() });
    let requests = read("R a 0 1 5 1e12\n".repeat(4000).as_bytes()).expect("reads");
    let ended = requests.into_iter().find_map(|request| replay.step(request).err());
    let said = ended.expect("1,000,000 seconds each, a hundred years").to_string();
    // 3153 pauses are just below 100 years; the request behind one more is too late.
    assert!(said.starts_with("line 3155: ") && said.contains("100 years; "), "{said}");
    let text = "op,lbn,sectors,response_us,time_us\nR,0,1,5,0\nR,0,1,5,8e15\n";
    let mut replay = Replay::new(Gap::After, || Fixed { ns: 1, asked: std::rc::Rc::default() });
    let requests = read(text.as_bytes()).expect("reads");
    assert!(replay.step(requests[0]).is_ok());
    let said = replay.step(requests[1]).expect_err("253 years").to_string();
    assert!(said.starts_with("line 3: "), "{said}");
}

#[test]
fn what_a_file_holds_does_not_reach_the_terminal_as_it_is() {
    let cases: [&[u8]; 5] = [
        b"X\x1b[31mhello\x07 x 0 8 5 0\n",
        b"R x \x1b[31m 8 5 0\n",
        b"R x 0 \x07 5 0\n",
        b"R x 0 8 \x1b 0\n",
        b"op,lbn\x1b,sectors,response_us,gap_us\n",
    ];
    for text in cases {
        let said = read(text).expect_err("must fail").to_string();
        assert!(!said.contains(char::is_control) && said.contains("\\u{"), "{said:?}");
    }
    let long = format!("R x {} 8 5 0\n", "z".repeat(3000));
    assert!(read(long.as_bytes()).expect_err("must fail").to_string().len() < 300);
}

#[test]
fn compressed_recordings_and_other_binary_files_are_recognised() {
    fails(b"\x1f\x8b\x08\0\0\0\0\0\x0c\x03", &["compressed with gzip", "decompress it first"]);
    fails(b"\x28\xb5\x2f\xfd\0\x0c", &["compressed with zstd", "decompress it first"]);
    let binary: [&[u8]; 3] =
        [&[0; 64], b"\xef\xee\x0c\xef\xee\x01\x02\xff\x07\x11\x22", b"tracedate"];
    for bytes in binary {
        fails(bytes, &["was taken for an SRT recording"]);
    }
    let short = [&[0, 0, 0, 9], &[0, 1, 0, 1], [0; 60].as_slice()].concat();
    fails(&short, &["SRT recording"]);
}

fn report(pairs: &[(Op, f64, f64)]) -> Report {
    let mut statistics = Statistics::new();
    for &(op, measured, simulated) in pairs {
        let request = Recorded {
            place: Place::Line(1),
            op,
            lbn: 0,
            sectors: 1,
            response_ns: (measured * 1e6) as Time,
            pace: Pace::Gap(0),
            device: 0,
        };
        let simulated_ns = (simulated * 1e6) as Time;
        statistics.add(&Outcome { request, issued: 0, simulated_ns });
    }
    statistics.report()
}

fn near(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} {expected}");
}

#[test]
fn figures_follow_in_closed_form() {
    // The simulated times are the measured ones in another order, so the distributions are the
    // same; request by request they differ by 2, 2 and 0.
    let same = report(&[(Op::Read, 1.0, 3.0), (Op::Read, 3.0, 1.0), (Op::Read, 2.0, 2.0)]);
    near(same.all.rms_ms, 0.0);
    near(same.all.mean_error_ms, 0.0);
    near(same.all.mae_ms, 4.0 / 3.0);
    near(same.all.rmse_ms, (8.0f64 / 3.0).sqrt());
    near(same.all.correlation, -1.0);
    near(same.all.within_1_ms, 1.0 / 3.0);
    assert_eq!(same.writes, Figures::default());
    // A shift by half a millisecond for reads, twice the time for writes.
    let shifted = report(&[
        (Op::Read, 1.0, 1.5),
        (Op::Read, 4.0, 4.5),
        (Op::Write, 1.0, 2.0),
        (Op::Write, 3.0, 6.0),
    ]);
    near(shifted.reads.rms_ms, 0.5);
    near(shifted.reads.mean_error_ms, 0.5);
    near(shifted.reads.correlation, 1.0);
    near(shifted.reads.within_1_ms, 1.0);
    near(shifted.writes.rms_ms, 5.0f64.sqrt());
    near(shifted.writes.mae_ms, 2.0);
    near(shifted.writes.correlation, 1.0);
    near(shifted.writes.within_1_ms, 0.0);
    near(shifted.all.measured_mean_ms, 2.25);
    near(shifted.all.simulated_mean_ms, 3.5);
    // Sorted: 1 1 3 4 against 1.5 2 4.5 6.
    near(shifted.all.rms_ms, ((0.25 + 1.0 + 2.25 + 4.0) / 4.0f64).sqrt());
    // A constant has no correlation.
    let constant = report(&[(Op::Read, 1.0, 2.0), (Op::Read, 1.0, 3.0)]);
    assert_eq!(constant.all.correlation, None);
}

#[test]
fn plots_have_the_size_asked_for() {
    let times: Vec<Time> = (1..=1000).map(|i| i * MILLIS / 50).collect();
    for ink in [Ink::Ascii, Ink::Unicode] {
        let text = distributions(&times, &times, 60, 16, ink);
        assert_eq!(text.lines().count(), 19, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
        assert!(text.contains("19.9 ms"), "{text}");
        assert_eq!(text.is_ascii(), ink == Ink::Ascii);
        assert!(distributions(&[], &[], 60, 16, ink).is_empty());
        distributions(&times, &[], 60, 16, ink);
        distributions(&[0], &[0], 1, 1, ink);
    }
}
