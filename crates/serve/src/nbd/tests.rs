//! The protocol from the client's side: transcripts, byte by byte, and invalid input.
#![allow(clippy::unwrap_used)]

use super::wire::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY, REQUEST, SIMPLE_REPLY, STRUCTURED_REPLY, be16, be32, be64,
    option_reply,
};
use super::*;
use proptest::prelude::*;

mod session;

fn export() -> Arc<Export> {
    Arc::new(Export {
        name: "disk".into(),
        description: "a test".into(),
        size_bytes: 1 << 20,
        read_only: false,
        rotational: true,
        multi_conn: true,
        minimum_block: 1,
        preferred_block: 4096,
        maximum_payload: 32 << 20,
    })
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = IHAVEOPT.to_be_bytes().to_vec();
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}

fn go(name: &[u8]) -> Vec<u8> {
    option(7, &[string(name), vec![0, 0]].concat())
}

fn request(flags: u16, number: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut out = REQUEST.to_be_bytes().to_vec();
    out.extend(flags.to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(length.to_be_bytes());
    out
}

fn feed(connection: &mut Connection, bytes: &[u8]) -> Vec<Event> {
    connection.input().extend_from_slice(bytes);
    std::iter::from_fn(|| connection.poll()).collect()
}

/// A connection in transmission, its output so far taken.
fn connected(structured: bool) -> Connection {
    let mut connection = Connection::new(export());
    feed(&mut connection, &3_u32.to_be_bytes());
    if structured {
        feed(&mut connection, &option(8, b""));
        let query = [string(b"disk"), 1_u32.to_be_bytes().to_vec(), string(b"base:allocation")];
        feed(&mut connection, &option(10, &query.concat()));
    }
    assert_eq!(feed(&mut connection, &go(b"disk")), [Event::Negotiated]);
    connection.output().take();
    connection
}

/// The answers to options in some output: (option, kind, data).
fn answers(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(be64(bytes, 0), OPTION_REPLY);
        let length = be32(bytes, 16) as usize;
        out.push((be32(bytes, 8), be32(bytes, 12), bytes[20..20 + length].to_vec()));
        bytes = &bytes[20 + length..];
    }
    out
}

#[test]
fn the_greeting_and_the_oldest_choice() {
    let mut connection = Connection::new(export());
    let greeting = connection.output().take();
    assert_eq!(be64(&greeting, 0), NBDMAGIC);
    assert_eq!(be64(&greeting, 8), IHAVEOPT);
    assert_eq!(be16(&greeting, 16), 3);
    let events = feed(&mut connection, &[&1_u32.to_be_bytes()[..], &option(1, b"disk")].concat());
    assert_eq!(events, [Event::Negotiated]);
    let answer = connection.output().take();
    assert_eq!(answer.len(), 8 + 2 + 124, "zeros for a client that did not decline them");
    assert_eq!(be64(&answer, 0), 1 << 20);
    let flags = be16(&answer, 8);
    assert_eq!(flags, 0b1101_0111_1101, "all but read-only, don't fragment and resize");
}

#[test]
fn each_option_has_its_answer() {
    let mut connection = Connection::new(export());
    feed(&mut connection, &3_u32.to_be_bytes());
    connection.output().take();
    let mut ask = |bytes: Vec<u8>| {
        assert_eq!(feed(&mut connection, &bytes), []);
        answers(&connection.output().take())
    };
    let list = ask(option(3, b""));
    assert_eq!(list[0], (3, option_reply::SERVER, [string(b"disk"), b"a test".to_vec()].concat()));
    assert_eq!(list[1].1, option_reply::ACK);
    let kind = |answers: Vec<(u32, u32, Vec<u8>)>| answers.last().unwrap().1;
    assert_eq!(kind(ask(option(3, b"x"))), option_reply::ERR_INVALID);
    assert_eq!(kind(ask(option(5, b""))), option_reply::ERR_UNSUP, "no TLS");
    assert_eq!(kind(ask(option(11, b""))), option_reply::ERR_UNSUP, "no extended headers");
    assert_eq!(kind(ask(option(99, b"junk"))), option_reply::ERR_UNSUP);
    assert_eq!(kind(ask(go(b"other"))), option_reply::ERR_UNKNOWN);
    assert_eq!(kind(ask(option(7, b"\0"))), option_reply::ERR_INVALID);
    let context = [string(b""), 1_u32.to_be_bytes().to_vec(), string(b"base:allocation")].concat();
    assert_eq!(kind(ask(option(10, &context))), option_reply::ERR_INVALID, "not structured yet");
    assert_eq!(kind(ask(option(8, b""))), option_reply::ACK);
    assert_eq!(ask(option(10, &context))[0].1, option_reply::META_CONTEXT);
    let info = ask(option(6, &[string(b""), vec![0, 1, 0, 2]].concat()));
    assert_eq!(info.len(), 4, "size, block sizes, description, acknowledgement: {info:?}");
    assert_eq!(feed(&mut connection, &option(2, b"")), [Event::Disconnected]);
}

#[test]
fn replies_to_the_byte() {
    let mut simple = connected(false);
    let events = feed(&mut simple, &request(0, 0, 77, 4096, 302));
    let [Event::Request(read)] = events.as_slice() else { panic!("{events:?}") };
    let data = Bytes::from(vec![5; 300]);
    simple.reply(read.ticket(), Reply::Data(vec![Chunk::Bytes(data.clone()), Chunk::Hole(2)]));
    let mut expected = SIMPLE_REPLY.to_be_bytes().to_vec();
    expected.extend(0_u32.to_be_bytes());
    expected.extend(77_u64.to_be_bytes());
    expected.extend(&data);
    expected.extend([0, 0]);
    assert_eq!(simple.output().take(), expected);

    let mut structured = connected(true);
    let chunks = vec![Chunk::Bytes(data.clone()), Chunk::Hole(2)];
    structured.reply(read.ticket(), Reply::Data(chunks.clone()));
    let out = structured.output().take();
    assert_eq!(be32(&out, 0), STRUCTURED_REPLY);
    assert_eq!((be16(&out, 4), be16(&out, 6), be32(&out, 16)), (0, 1, 308));
    assert_eq!(be64(&out, 20), 4096);
    let hole = &out[20 + 308..];
    assert_eq!((be16(hole, 4), be16(hole, 6), be32(hole, 16)), (1, 2, 12));
    assert_eq!((be64(hole, 20), be32(hole, 28)), (4396, 2));
    let whole = Ticket { dont_fragment: true, ..read.ticket() };
    structured.reply(whole, Reply::Data(chunks));
    let out = structured.output().take();
    assert_eq!((be16(&out, 4), be16(&out, 6), be32(&out, 16)), (1, 1, 310));
    structured.reply(read.ticket(), Reply::Error { errno: NbdErrno::Io, message: "bad".into() });
    let out = structured.output().take();
    assert_eq!((be16(&out, 4), be16(&out, 6)), (1, 0x8001));
    assert_eq!((be32(&out, 20), be16(&out, 24), &out[26..]), (5, 3, &b"bad"[..]));
}

#[test]
fn senseless_requests_get_an_error_and_the_connection_goes_on() {
    let cases: &[(u16, u16, u64, u32, u32)] = &[
        (0, 9, 0, 0, 22),
        (0, 0, 1 << 20, 1, 22),
        (0, 0, u64::MAX, 2, 22),
        (0, 1, 1 << 20, 1, 28),
        (0, 4, (1 << 20) - 1, 2, 22),
        (0, 6, (1 << 20) - 1, 2, 28),
        (0x12, 6, 0, 4096, 95),
        (0, 3, 0, 1, 22),
        (0, 7, 0, 4096, 22),
        (4, 0, 0, 512, 22),
        (2, 1, 0, 1, 22),
    ];
    let mut connection = connected(false);
    for &(flags, number, offset, length, errno) in cases {
        let mut bytes = request(flags, number, 9, offset, length);
        if number == 1 {
            bytes.extend(vec![1; length as usize]);
        }
        assert_eq!(feed(&mut connection, &bytes), []);
        let out = connection.output().take();
        assert_eq!((be32(&out, 4), be64(&out, 8)), (errno, 9), "command {number}");
    }
    let events = feed(&mut connection, &request(0, 3, 1, 0, 0));
    assert!(matches!(&events[..], [Event::Request(one)] if one.command == Command::Flush));
    let bad = feed(&mut connection, &[7; 28]);
    assert!(matches!(&bad[..], [Event::Failed(ProtocolError::Magic { .. })]));
    assert_eq!(feed(&mut connection, &request(0, 3, 1, 0, 0)), [], "nothing after the end");
}

#[test]
fn any_cut_gives_the_same_events() {
    let mut session = 3_u32.to_be_bytes().to_vec();
    session.extend(option(8, b""));
    session.extend(go(b""));
    session.extend(request(1, 1, 1, 8192, 5000));
    session.extend(vec![9; 5000]);
    session.extend(request(0, 1, 2, 1 << 21, 100));
    session.extend(vec![9; 100]);
    session.extend(request(0, 0, 3, 0, 4096));
    session.extend(request(0, 2, 4, 0, 0));
    let mut whole = Connection::new(export());
    let expected = feed(&mut whole, &session);
    assert_eq!(expected.len(), 4);
    for cut in 1..session.len() {
        let mut connection = Connection::new(export());
        let mut events = feed(&mut connection, &session[..cut]);
        assert!(connection.wanted() > 0);
        events.extend(feed(&mut connection, &session[cut..]));
        assert_eq!(events, expected, "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn nonsense_neither_panics_nor_grows(
        seed in proptest::collection::vec(any::<u8>(), 0..300),
        flips in proptest::collection::vec((0_usize..600, any::<u8>()), 0..6),
        structured: bool,
    ) {
        let mut session = 3_u32.to_be_bytes().to_vec();
        if structured {
            session.extend(option(8, b""));
        }
        session.extend(go(b""));
        session.extend(request(0, 1, 1, 0, 100));
        session.extend(vec![1; 100]);
        session.extend(request(0, 0, 2, 0, 100));
        session.extend(&seed);
        let length = session.len();
        for (at, bits) in flips {
            session[at % length] ^= bits;
        }
        let mut connection = Connection::new(export());
        for part in session.chunks(37) {
            for event in feed(&mut connection, part) {
                if let Event::Request(one) = event {
                    prop_assert!(one.offset + u64::from(one.length) <= 1 << 20);
                    let reply = match one.command {
                        Command::Read => Reply::Data(vec![Chunk::Hole(one.length)]),
                        Command::BlockStatus => Reply::Status(vec![(one.length, 0)]),
                        _ => Reply::Done,
                    };
                    connection.reply(one.ticket(), reply);
                }
            }
            prop_assert!(connection.input().len() <= 33 << 20);
            connection.output().take();
        }
    }
}
