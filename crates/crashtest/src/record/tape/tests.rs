use super::*;
use std::io;

const HEADER: Header = Header { size_bytes: 1 << 20, multi_conn: true, second: None };

/// A recording with one of each kind, and where its records begin.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(Vec::new(), HEADER).expect("it works");
    let mut starts = Vec::new();
    let requests = [
        Request::Write { offset: 4096, data: &[7; 1000], fua: true },
        Request::Write { offset: 0, data: &[0; 4096], fua: false },
        Request::Zeros { offset: 8192, length: 512, fua: false, no_hole: true },
        Request::Trim { offset: 0, length: 1 << 20, fua: true },
        Request::Flush,
    ];
    for (index, request) in requests.into_iter().enumerate() {
        starts.push(writer.bytes() as usize);
        let number = writer.request(1 + index as u32 % 2, request).expect("it works");
        starts.push(writer.bytes() as usize);
        writer
            .answer(1 + index as u32 % 2, number, if index == 3 { 5 } else { 0 })
            .expect("it works");
    }
    for value in ["row 1", "zwölf"] {
        starts.push(writer.bytes() as usize);
        writer.mark(value).expect("it works");
    }
    starts.push(writer.bytes() as usize);
    (writer.finish().expect("it works"), starts)
}

fn read(bytes: &[u8]) -> (Vec<Event>, TapeEnd) {
    let mut recording = Recording::open(bytes).expect("it works");
    let mut events = Vec::new();
    while let Some(event) = recording.next_event().expect("it works") {
        events.push(event);
    }
    (events, recording.end().expect("it works"))
}

#[test]
fn what_was_written_is_read() {
    let (bytes, starts) = sample();
    assert_eq!(Recording::open(bytes.as_slice()).expect("it works").header(), HEADER);
    let (events, end) = read(&bytes);
    assert_eq!(end, TapeEnd::Clean);
    assert_eq!(events.len(), 12);
    let at = (starts[0] + RECORD_BYTES) as u64;
    let payload = Payload::At(at);
    assert_eq!(events[0].what, What::Write { offset: 4096, length: 1000, fua: true, payload });
    assert_eq!(bytes[at as usize..at as usize + 1000], [7; 1000]);
    let zeros = Payload::Zeros;
    assert_eq!(events[2].what, What::Write { offset: 0, length: 4096, fua: false, payload: zeros });
    assert_eq!(starts[3] - starts[2], RECORD_BYTES, "zeros take no room");
    assert_eq!(
        events[4].what,
        What::Zeros { offset: 8192, length: 512, fua: false, no_hole: true }
    );
    assert_eq!(events[6].what, What::Trim { offset: 0, length: 1 << 20, fua: true });
    assert_eq!(events[7], Event { connection: 2, number: 4, what: What::Answer { errno: 5 } });
    assert_eq!(events[8].what, What::Flush);
    let at = (starts[11] + RECORD_BYTES) as u64;
    let what = What::Mark { payload: Payload::At(at), length: 6 };
    assert_eq!(events[11], Event { connection: 0, number: 2, what });
}

#[test]
fn marks_bring_their_values() {
    let (bytes, _) = sample();
    let mut recording = Recording::open(bytes.as_slice()).expect("it works");
    let mut values = Vec::new();
    while let Some(event) = recording.next_event().expect("it works") {
        if let What::Mark { .. } = event.what {
            values.push(recording.mark().to_owned());
        }
    }
    assert_eq!(values, ["row 1", "zwölf"]);
}

#[test]
fn values_that_are_none_are_refused_and_leave_no_record() {
    let mut writer = Writer::new(Vec::new(), HEADER).expect("it works");
    let long = "x".repeat(MOST_MARK_BYTES + 1);
    for bad in ["", "a\nb", "a\0", &long] {
        let error = writer.mark(bad).expect_err("it is refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad:.9}");
    }
    assert_eq!((writer.marks(), writer.bytes()), (0, HEADER_BYTES as u64));
    writer.mark(&long[1..]).expect("the longest one");
    let (events, end) = read(&writer.finish().expect("it works"));
    assert_eq!((events.len(), end), (1, TapeEnd::Clean));
    assert_eq!(check_mark(&[0xff]), Err(BadMark::NotText));
}

#[test]
fn a_workload_begins_once() {
    let mut writer = Writer::new(Vec::new(), HEADER).expect("it works");
    writer.begin().expect("it works");
    writer.mark("1").expect("it works");
    let once = writer.finish().expect("it works");
    let (events, end) = read(&once);
    assert_eq!(events[0], Event { connection: 0, number: 0, what: What::Begin });
    assert_eq!((events.len(), end), (2, TapeEnd::Clean));
    let mut writer = Writer::new(Vec::new(), HEADER).expect("it works");
    writer.begin().expect("it works");
    writer.begin().expect("nothing keeps a writer from it");
    let (events, end) = read(&writer.finish().expect("it works"));
    let at = (HEADER_BYTES + RECORD_BYTES) as u64;
    assert_eq!((events.len(), end), (1, TapeEnd::Damaged { at }));
}

/// A recording of version 1: a write at 512, its answer, a flush, its answer, the end.
const VERSION_1: &str = "\
    534b4c53544150450100000001000000000010000000000000000000000000000000000000000000\
    00000000000000000000000000000000000000002a885d3601000000010000000100000000000000\
    00020000000000001000000000000000dc80109aa0d646e86120736d616c6c207631207772697465\
    05000000010000000100000000000000000000000000000000000000000000000000000061286b99\
    04000000010000000200000000000000000000000000000000000000000000000000000070787549\
    050000000100000002000000000000000000000000000000000000000000000000000000ccc3b97a\
    060000000000000002000000000000000000000000000000000000000000000000000000c3df4a13\
";

#[test]
fn recordings_of_version_1_are_read() {
    let text: String = VERSION_1.split_whitespace().collect();
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    assert_eq!(le32(&bytes, 8), 1);
    let (events, end) = read(&bytes);
    assert_eq!(end, TapeEnd::Clean);
    let payload = Payload::At(104);
    let write = What::Write { offset: 512, length: 16, fua: false, payload };
    let (answer, flush) = (What::Answer { errno: 0 }, What::Flush);
    let found: Vec<What> = events.iter().map(|event| event.what).collect();
    assert_eq!(found, [write, answer, flush, answer]);
    assert_eq!(bytes[104..120], *b"a small v1 write");
    // Version 1 has no marks: a record of their kind is damage.
    let mut marked = Writer::new(Vec::new(), HEADER).expect("it works");
    marked.mark("1").expect("it works");
    let marked = marked.finish().expect("it works");
    let with_mark = [&bytes[..HEADER_BYTES], &marked[HEADER_BYTES..]].concat();
    assert_eq!(read(&with_mark), (vec![], TapeEnd::Damaged { at: 64 }));
}

#[test]
fn a_recording_cut_anywhere_is_usable_up_to_the_last_whole_record() {
    let (bytes, starts) = sample();
    for length in HEADER_BYTES..bytes.len() {
        let (events, end) = read(&bytes[..length]);
        let whole = starts.iter().filter(|&&start| start <= length).count() - 1;
        assert_eq!(events.len(), whole, "{length} bytes");
        assert_eq!(end, TapeEnd::Cut { at: starts[whole] as u64 });
    }
    for length in 0..HEADER_BYTES {
        let error = Recording::open(&bytes[..length]).expect_err("it is refused");
        assert!(matches!(error, TapeError::Foreign | TapeError::Header), "{error:?}");
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (bytes, starts) = sample();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        if at < HEADER_BYTES {
            assert!(Recording::open(bad.as_slice()).is_err(), "byte {at} of the header");
            continue;
        }
        let (events, end) = read(&bad);
        let whole = starts.iter().filter(|&&start| start <= at).count() - 1;
        assert_eq!(events.len(), whole, "byte {at}");
        assert_eq!(end, TapeEnd::Damaged { at: starts[whole] as u64 });
    }
}

#[test]
fn what_follows_the_end_is_told_and_not_used() {
    let (bytes, _) = sample();
    let (events, _) = read(&bytes);
    for more in [&bytes[..], &[0]] {
        let longer = [&bytes, more].concat();
        assert_eq!(read(&longer), (events.clone(), TapeEnd::Followed { at: bytes.len() as u64 }));
    }
}

#[test]
fn senseless_records_are_damage() {
    let flush = Fields { kind: FLUSH, connection: 1, number: 1, ..Fields::default() };
    for bad in [
        Fields { number: 2, ..flush },
        Fields { kind: ANSWER, ..flush },
        Fields { kind: 9, ..flush },
        Fields { kind: TRIM, offset: 1 << 20, length: 1, ..flush },
        Fields { kind: TRIM, offset: u64::MAX, length: 1, ..flush },
        Fields { kind: FLUSH, flags: FUA, ..flush },
        Fields { kind: END, ..flush },
        Fields { kind: MARK, connection: 0, ..flush },
        Fields { kind: MARK, length: 1, ..flush },
    ] {
        let mut bytes = HEADER.to_bytes().to_vec();
        bytes.extend(bad.to_bytes());
        assert_eq!(read(&bytes), (vec![], TapeEnd::Damaged { at: 64 }), "{bad:?}");
    }
    let mut newer = HEADER.to_bytes();
    newer[8] = 4;
    let sum = crc32c(&newer[..60]);
    newer[60..].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(Recording::open(newer.as_slice()), Err(TapeError::Newer(4))));
}

/// A recording of two disks of a block each, with one request of a connection.
fn of_two(connection: u32, request: Request<'_>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Header::two_disks(4096, 4096)).expect("it works");
    writer.request(connection, request).expect("it works");
    writer.finish().expect("it works")
}

#[test]
fn a_recording_of_two_disks_says_where_the_second_begins() {
    let write = |offset| Request::Write { offset, data: &[7; 512], fua: false };
    let bytes = of_two(2, write(4096));
    let header = Recording::open(bytes.as_slice()).expect("it works").header();
    assert_eq!((header.size_bytes, header.second, header.multi_conn), (8192, Some(4096), false));
    // Earlier programs would take a flush of one disk for one of both.
    assert_eq!(le32(&bytes, 8), 3);
    assert_eq!(le32(&sample().0, 8), 2, "recordings of one disk are as they were");
    let is_used = |bytes: &[u8]| read(bytes) != (Vec::new(), TapeEnd::Damaged { at: 64 });
    assert!(is_used(&bytes) && is_used(&of_two(1, write(4096 - 512))));
    for (connection, offset) in [(1, 4096), (1, 4095), (2, 0), (2, 4095), (2, 8192), (3, 0)] {
        assert!(!is_used(&of_two(connection, write(offset))), "{connection} at {offset}");
    }
    assert!(is_used(&of_two(2, Request::Flush)) && !is_used(&of_two(3, Request::Flush)));
}

#[test]
fn a_second_disk_has_bytes_and_flushes_of_its_own() {
    let open = |header: Header| {
        let bytes = Writer::new(Vec::new(), header).and_then(Writer::finish).expect("it works");
        Recording::open(bytes.as_slice()).map(|_| ())
    };
    let good = Header::two_disks(4096, 4096);
    assert!(open(good).is_ok());
    for bad in [
        Header { second: Some(8192), ..good },
        Header { second: Some(u64::MAX), ..good },
        Header { multi_conn: true, ..good },
    ] {
        assert!(matches!(open(bad), Err(TapeError::Header)), "{bad:?}");
    }
}
