use super::*;

fn read(text: &str) -> Vec<Result<Record, TraceError>> {
    Lines::new("small.csv", text.as_bytes()).collect()
}

fn record(action: Action, sector: u64, sectors: u64) -> Record {
    Record { at_ns: 0, action, flush_first: false, fua: false, sector, sectors }
}

#[test]
fn lines_of_the_kernel_are_understood() {
    let records = read(
        "# time,rwbs,offset,length\n\
         5993.833112,RM,67848,8\n\n\
         5993.833113,WSM,16,3\r\n\
         5994,FWFSM,8,8\n\
         5994.5,FWS,0,0\n\
         5995,D,100,200\n\
         5996,WFS,8,8\n\
         5997,FN,0,0",
    );
    let records: Vec<Record> = records.into_iter().map(|one| one.expect("a record")).collect();
    let at = |ns: Time| 5_993_833_112_000 + ns;
    let plain =
        |action, ns, sector, sectors| Record { at_ns: at(ns), ..record(action, sector, sectors) };
    assert_eq!(records[0], plain(Action::Read, 0, 67848, 8));
    assert_eq!(records[1], plain(Action::Write, 1000, 16, 3));
    assert_eq!((records[2].flush_first, records[2].fua, records[2].sectors), (true, true, 8));
    assert_eq!(records[3], plain(Action::Flush, 666_888_000, 0, 0));
    assert_eq!(records[4].action, Action::Trim);
    assert_eq!((records[5].flush_first, records[5].fua), (false, true));
    assert_eq!((records[6].action, records[6].flush_first), (Action::Flush, false));
}

#[test]
fn times_run_forwards_for_those_to_whom_they_matter() {
    let text = "1,R,0,8\n1,R,0,8\n# a pause\n0.5,W,0,8\n";
    assert!(read(text).iter().all(Result::is_ok));
    let lines = Lines::new("small.csv", text.as_bytes()).in_order();
    let found: Vec<_> = lines.collect();
    assert_eq!(found.len(), 3);
    let error = found[2].as_ref().expect_err("it runs backwards").to_string();
    assert!(error.starts_with("small.csv:4: this time is before"), "{error}");
}

#[test]
fn malformed_lines_are_named_with_file_and_line() {
    for (line, part) in [
        ("1,R,0", "number of sectors"),
        ("1,R,0,8,9", "more than four"),
        ("soon,R,0,8", "not a time"),
        ("-1,R,0,8", "not a time"),
        ("nan,R,0,8", "not a time"),
        ("1,Q,0,8", "no flags"),
        ("1,,0,8", "no flags"),
        ("1,N,0,8", "no flags"),
        ("1,RZ,0,8", "no flags"),
        ("1,R,-5,8", "not a number"),
        ("1,R,5,x", "not a number"),
        ("1,R,0,0", "of no sectors"),
        ("1,R,0,99999999999", "no request"),
        ("1,R,18446744073709551615,8", "no request"),
    ] {
        let found = read(&format!("1,R,0,8\n{line}\n1,R,0,8\n"));
        assert_eq!(found.len(), 2, "{line}: nothing after the error");
        let error = found[1].as_ref().expect_err(line).to_string();
        assert!(error.starts_with("small.csv:2: ") && error.contains(part), "{line}: {error}");
    }
    let long = format!("1,R,0,{}", "8".repeat(5000));
    assert!(read(&long)[0].as_ref().expect_err("long").to_string().contains("longer"));
    let binary: &[u8] = &[0xff, 0xfe, b'\n'];
    let mut lines = Lines::new("b", binary);
    assert!(lines.next().expect("a line").expect_err("bytes").to_string().contains("not text"));
}

fn mapped(mapper: &mut Mapper, record: Record) -> Vec<Blocks> {
    let mut runs = Vec::new();
    mapper.map(&record, &mut runs).expect("there is room");
    runs
}

#[test]
fn reads_and_writes_widen_and_trims_shrink() {
    let mut mapper = Mapper::new(Mapping::Fold, 1000);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 16, 16)), [(2, 2)]);
    assert_eq!(mapper.footprint().unaligned, 0);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 15, 2)), [(1, 2)]);
    assert_eq!(mapped(&mut mapper, record(Action::Read, 17, 1)), [(2, 1)]);
    assert_eq!(mapped(&mut mapper, record(Action::Trim, 15, 18)), [(2, 2)]);
    assert_eq!(mapped(&mut mapper, record(Action::Trim, 1, 6)), []);
    assert_eq!(mapper.footprint().unaligned, 4);
    assert_eq!(mapped(&mut mapper, record(Action::Flush, 0, 0)), []);
}

#[test]
fn a_large_device_folds_onto_the_volume() {
    let mut mapper = Mapper::new(Mapping::Fold, 100);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 98 * 8, 5 * 8)), [(98, 2), (0, 3)]);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 250 * 8, 8)), [(50, 1)]);
    assert_eq!(mapper.footprint(), Footprint { blocks: 100, unaligned: 0, folded: 2 });
    let mut large = Mapper::new(Mapping::Fold, 1 << 20);
    assert_eq!(mapped(&mut large, record(Action::Read, 0, 8 * 2500)).len(), 3);
}

#[test]
fn what_is_touched_first_comes_first_and_stays_together() {
    let mut mapper = Mapper::new(Mapping::FirstTouch, 200);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 1_000_000 * 512, 8)), [(0, 1)]);
    // 256 KiB are 64 blocks: the second chunk of the run follows the first.
    assert_eq!(mapped(&mut mapper, record(Action::Write, 60 * 8, 8 * 8)), [(124, 8)]);
    assert_eq!(mapped(&mut mapper, record(Action::Read, 63 * 8, 8)), [(127, 1)]);
    assert_eq!(mapped(&mut mapper, record(Action::Read, (1_000_000 * 64 + 5) * 8, 8)), [(5, 1)]);
    assert_eq!(mapper.footprint().blocks, 192);
    let mut runs = Vec::new();
    let full = mapper.map(&record(Action::Write, 1 << 30, 8), &mut runs);
    assert_eq!(full, Err(NoRoom { volume: 200 }));
}

#[test]
fn small_volumes_take_what_fits() {
    let mut mapper = Mapper::new(Mapping::FirstTouch, 10);
    assert_eq!(mapped(&mut mapper, record(Action::Write, 8 * 3, 8)), [(3, 1)]);
    let mut runs = Vec::new();
    assert!(mapper.map(&record(Action::Write, 8 * 13, 8), &mut runs).is_err());
}

/// Files of other formats are named, with what takes or converts them.
#[test]
fn other_formats_are_named() {
    for (text, parts) in [
        ("R Hit 7563004 4 14368.0 28778.0", ["a recording", "`seekless disk validate`"]),
        ("tracedate = \"Tue May 5\";", ["an SRT file", "`seekless disk validate`"]),
        ("fio version 2 iolog", ["iolog of fio", "blkparse"]),
        ("12, 8213000, 0, 4096, 1048576, 0", ["latency log of fio", "awk"]),
        ("128166372003061629,usr,0,Read,70146,24576,41286", ["MSR Cambridge", "awk"]),
    ] {
        let said = read(text)[0].as_ref().expect_err("no trace").to_string();
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}
