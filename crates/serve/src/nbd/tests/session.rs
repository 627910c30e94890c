//! Random valid sessions: the server sees exactly the client's requests, and the client decodes
//! exactly the server's answers, for any split of the bytes.

use super::*;
use std::collections::VecDeque;

/// A request of the client, and the answer it must get.
#[derive(Clone, Debug)]
struct Turn {
    command: u16,
    flags: u16,
    offset: u64,
    length: u32,
    /// Pieces of the answer to a read; zeros if the first byte is even.
    cuts: Vec<(u8, u16)>,
    fails: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let cuts = proptest::collection::vec((any::<u8>(), 0_u16..900), 0..4);
    let turn = (0_usize..7, 0_u16..32, 0_u64..1 << 19, 1_u32..2000, cuts, 0..8);
    let turn = turn.prop_map(|(command, flags, offset, length, cuts, luck)| {
        let (command, allowed) = [(0, 5), (1, 1), (3, 1), (4, 1), (5, 1), (6, 3), (7, 9)][command];
        let (offset, length) = if command == 3 { (0, 0) } else { (offset, length) };
        Turn { command, flags: flags & allowed, offset, length, cuts, fails: luck == 0 }
    });
    proptest::collection::vec(turn, 1..20)
}

/// The pieces of a read's answer, cut as the turn specifies, and its bytes.
fn content(turn: &Turn) -> (Vec<Chunk>, Vec<u8>) {
    let mut left = turn.length;
    let mut chunks = Vec::new();
    let last = (7, u16::MAX);
    for (fill, most) in turn.cuts.iter().copied().chain([last]) {
        let now = left.min(u32::from(most));
        left -= now;
        chunks.push(match fill % 2 {
            0 => Chunk::Hole(now),
            _ => Chunk::Bytes(Bytes::from(vec![fill; now as usize])),
        });
    }
    let bytes = chunks.iter().flat_map(|chunk| match chunk {
        Chunk::Hole(count) => vec![0; *count as usize],
        Chunk::Bytes(bytes) => bytes.to_vec(),
    });
    let bytes = bytes.collect();
    (chunks, bytes)
}

fn reply_to(turn: &Turn) -> Reply {
    match turn.command {
        _ if turn.fails => Reply::Error { errno: NbdErrno::NoSpace, message: "full".into() },
        0 => Reply::Data(content(turn).0),
        7 => Reply::Status(vec![(turn.length, 3)]),
        _ => Reply::Done,
    }
}

/// A message from the server, decoded.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    Simple { errno: u32, cookie: u64, data: Vec<u8> },
    Chunk { done: bool, kind: u16, cookie: u64, data: Vec<u8> },
}

/// Splits the server's bytes into messages; `turns` determines which simple replies carry data.
fn decode(mut bytes: &[u8], turns: &[Turn]) -> Vec<Message> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (message, length) = if be32(bytes, 0) == SIMPLE_REPLY {
            let (errno, cookie) = (be32(bytes, 4), be64(bytes, 8));
            let turn = &turns[cookie as usize];
            let carries = errno == 0 && turn.command == 0;
            let length = if carries { turn.length as usize } else { 0 };
            let data = bytes[16..16 + length].to_vec();
            (Message::Simple { errno, cookie, data }, 16 + length)
        } else {
            assert_eq!(be32(bytes, 0), STRUCTURED_REPLY);
            let length = be32(bytes, 16) as usize;
            let (done, kind) = (be16(bytes, 4) == 1, be16(bytes, 6));
            let data = bytes[20..20 + length].to_vec();
            (Message::Chunk { done, kind, cookie: be64(bytes, 8), data }, 20 + length)
        };
        out.push(message);
        bytes = &bytes[length..];
    }
    out
}

/// Takes one answer off the messages and compares it with the expected answer of the turn.
fn verify(cookie: u64, turn: &Turn, structured: bool, messages: &mut VecDeque<Message>) {
    let wanted = if turn.fails { 28 } else { 0 };
    let plain = !structured || (turn.command != 0 && turn.command != 7 && !turn.fails);
    if plain {
        let data = if turn.command == 0 && !turn.fails { content(turn).1 } else { Vec::new() };
        let expected = Message::Simple { errno: wanted, cookie, data };
        assert_eq!(messages.pop_front(), Some(expected));
        return;
    }
    let mut found = vec![0xee; turn.length as usize];
    let (mut contents, mut covered) = (0, 0);
    loop {
        let Some(Message::Chunk { done, kind, cookie: echoed, data }) = messages.pop_front() else {
            panic!("the answer to {cookie} ends without a last chunk")
        };
        assert_eq!(echoed, cookie);
        let mut place = |length: usize| {
            let at = (be64(&data, 0) - turn.offset) as usize;
            (contents, covered) = (contents + 1, covered + length);
            assert!(length > 0, "an empty chunk");
            at..at + length
        };
        match kind {
            0 => assert!(data.is_empty() && done),
            1 => found[place(data.len() - 8)].copy_from_slice(&data[8..]),
            2 => found[place(be32(&data, 8) as usize)].fill(0),
            5 => assert_eq!((be32(&data, 0), be32(&data, 4), be32(&data, 8)), (1, turn.length, 3)),
            0x8001 => assert_eq!((be32(&data, 0), &data[6..]), (wanted, &b"full"[..])),
            other => panic!("chunk of kind {other}"),
        }
        if done {
            break;
        }
    }
    if turn.command == 0 && !turn.fails {
        assert_eq!(covered, found.len(), "chunks overlap or leave gaps");
        assert_eq!(found, content(turn).1);
        assert!(turn.flags & 4 == 0 || contents == 1, "fragments despite the flag");
    }
}

proptest! {
    #[test]
    fn sessions_round_trip(
        turns in turns(),
        structured: bool,
        piece in 1_usize..5000,
        burst in 1_usize..5000,
    ) {
        let mut turns = turns;
        turns.iter_mut().filter(|_| !structured).for_each(|turn| {
            // Status and unfragmented reads need structured replies.
            turn.command %= 7;
            turn.flags &= !(4 | 8);
        });
        let mut session = Vec::new();
        for (cookie, turn) in (0..).zip(&turns) {
            session.extend(request(turn.flags, turn.command, cookie, turn.offset, turn.length));
            if turn.command == 1 {
                session.extend(vec![cookie as u8; turn.length as usize]);
            }
        }
        let mut connection = connected(structured);
        let (mut seen, mut sent) = (0, Vec::new());
        for part in session.chunks(piece) {
            for event in feed(&mut connection, part) {
                let Event::Request(one) = event else { panic!("{event:?}") };
                let turn = &turns[seen];
                prop_assert_eq!(one.cookie, seen as u64);
                prop_assert_eq!((one.offset, one.length), (turn.offset, turn.length));
                prop_assert_eq!(one.fua, turn.flags & 1 != 0);
                let data = if turn.command == 1 { turn.length as usize } else { 0 };
                prop_assert_eq!(&one.data[..], &vec![seen as u8; data][..]);
                connection.reply(one.ticket(), reply_to(turn));
                seen += 1;
            }
            while !connection.output().is_empty() {
                let mut slices = [std::io::IoSlice::new(&[]); 3];
                let output = connection.output();
                let count = output.chunks_vectored(&mut slices);
                let bytes: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                let now = bytes.len().min(burst);
                sent.extend_from_slice(&bytes[..now]);
                output.advance(now);
            }
        }
        prop_assert_eq!(seen, turns.len());
        let mut messages: VecDeque<Message> = decode(&sent, &turns).into();
        for (cookie, turn) in (0..).zip(&turns) {
            verify(cookie, turn, structured, &mut messages);
        }
        prop_assert!(messages.is_empty());
    }
}
