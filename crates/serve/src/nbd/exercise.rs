//! Any bytes as a client's session: the body of the fuzz target `nbd`, and of tests that run it
//! without a fuzzer.

use super::wire::{IHAVEOPT, option};
use super::{Chunk, Command, Connection, Event, Export, NbdErrno, Reply, Request};
use bytes::Bytes;
use std::io::IoSlice;
use std::sync::Arc;

/// Longest payload of the export, short so that a small input can exceed it.
const PAYLOAD: u32 = 64 << 10;
const SIZE: u64 = 1 << 20;
/// Longest message that a connection may wait for: an option or a write, with its header.
const LONGEST_MESSAGE: usize = (64 << 10) + 28;

/// Runs a session with a server that answers at once.
///
/// The first byte chooses the export and whether a valid negotiation precedes the input; the second
/// one, how many bytes arrive at once.
///
/// # Panics
/// If the connection lets a request through that it should have refused, or holds more bytes than
/// one message has.
pub fn exercise(input: &[u8]) {
    let [setup, piece, rest @ ..] = input else { return };
    let export = Arc::new(Export {
        name: "disk".into(),
        description: "for a fuzzer".into(),
        size_bytes: SIZE,
        read_only: setup & 1 != 0,
        rotational: true,
        multi_conn: setup & 2 != 0,
        minimum_block: if setup & 4 != 0 { 512 } else { 1 },
        preferred_block: 4096,
        maximum_payload: PAYLOAD,
    });
    let mut connection = Connection::new(Arc::clone(&export));
    if setup & 8 != 0 {
        connection.input().extend_from_slice(&hello(setup & 16 != 0));
    }
    let piece = usize::from(*piece).max(1);
    let mut over = false;
    for part in rest.chunks(piece) {
        connection.input().extend_from_slice(part);
        while let Some(event) = connection.poll() {
            assert!(!over, "{event:?} after the end");
            match event {
                Event::Negotiated => assert!(connection.is_transmitting()),
                Event::Request(request) => answer(&mut connection, &export, &request),
                Event::Disconnected | Event::Failed(_) => over = true,
            }
        }
        let held = connection.input().len();
        assert!(held < LONGEST_MESSAGE, "{held} bytes are held back");
        assert!((1..=LONGEST_MESSAGE).contains(&connection.wanted()));
        drain(&mut connection, piece * 7);
    }
}

/// A client's half of a valid negotiation.
pub(super) fn hello(structured: bool) -> Vec<u8> {
    let mut out = 3_u32.to_be_bytes().to_vec();
    let mut put = |number: u32, data: &[u8]| {
        out.extend(IHAVEOPT.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(data);
    };
    if structured {
        put(option::STRUCTURED_REPLY, b"");
        put(option::SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation");
    }
    put(option::GO, &[0; 6]);
    out
}

fn answer(connection: &mut Connection, export: &Export, request: &Request) {
    let Request { command, offset, length, .. } = *request;
    let end = offset.checked_add(u64::from(length)).expect("the range was checked");
    assert!(end <= SIZE, "{request:?} leaves the export");
    let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
    assert!(!(writes && export.read_only), "{request:?} on a read-only export");
    assert!(offset.is_multiple_of(u64::from(export.minimum_block)));
    assert!(command != Command::Read || length <= PAYLOAD);
    assert_eq!(request.data.len(), if command == Command::Write { length as usize } else { 0 });
    let half = length / 2;
    let reply = match command {
        _ if request.cookie % 8 == 1 => {
            Reply::Error { errno: NbdErrno::Io, message: "not today".into() }
        }
        Command::Read => Reply::Data(vec![
            Chunk::Hole(half),
            Chunk::Bytes(Bytes::from(vec![1; (length - half) as usize])),
        ]),
        Command::BlockStatus => Reply::Status(vec![(length, 0)]),
        _ => Reply::Done,
    };
    connection.reply(request.ticket(), reply);
}

/// Sends all output, at most `most` bytes at once.
fn drain(connection: &mut Connection, most: usize) {
    let output = connection.output();
    while !output.is_empty() {
        let before = output.len();
        let mut slices = [IoSlice::new(&[]); 4];
        let count = output.chunks_vectored(&mut slices);
        let ready: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        assert!((1..=before).contains(&ready), "{ready} of {before} bytes are ready");
        let sent = ready.min(most);
        output.advance(sent);
        assert_eq!(output.len(), before - sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::wire::{REQUEST, command};
    use seekless_engine::rng::Rng;

    /// A request that may be valid.
    fn request(rng: &mut Rng) -> Vec<u8> {
        let number = match rng.below(12) {
            0 => rng.next() as u16,
            1 => command::DISC,
            other => (other % 8) as u16,
        };
        let offset = match rng.below(8) {
            0 => rng.next(),
            1 => SIZE - rng.below(3),
            _ => rng.below(SIZE / 512) * 512,
        };
        let length = match rng.below(16) {
            0 => rng.next() as u32,
            1 => PAYLOAD + rng.below(2) as u32,
            2 => rng.below(3) as u32,
            _ => rng.below(16) as u32 * 512,
        };
        let mut out = REQUEST.to_be_bytes().to_vec();
        out.extend((rng.below(2) * rng.below(32)).to_be_bytes()[6..].iter());
        out.extend(number.to_be_bytes());
        out.extend(rng.next().to_be_bytes());
        out.extend(offset.to_be_bytes());
        out.extend(length.to_be_bytes());
        if number == command::WRITE {
            out.resize(out.len() + length.min(PAYLOAD) as usize, 5);
        }
        out
    }

    fn option(rng: &mut Rng) -> Vec<u8> {
        let mut out = IHAVEOPT.to_be_bytes().to_vec();
        out.extend((rng.below(13) as u32).to_be_bytes());
        let length = rng.below(40) as u32;
        out.extend((length + rng.below(20) as u32 / 19).to_be_bytes());
        out.extend((0..length).map(|_| (rng.next() & rng.next() & 3) as u8));
        out
    }

    #[test]
    fn seeded_conversations_hold() {
        for seed in 0..3000 {
            let mut rng = Rng::stream(seed, "conversation");
            let mut input = vec![rng.next() as u8, rng.next() as u8];
            if input[0] & 8 == 0 {
                input.extend([0, 0, 0, 3]);
            }
            for _ in 0..rng.below(12) {
                match (rng.below(10), input[0] & 8) {
                    (0, _) => input.extend((0..rng.below(60)).map(|_| rng.next() as u8)),
                    (_, 0) => input.extend(option(&mut rng)),
                    _ => input.extend(request(&mut rng)),
                }
            }
            for _ in 0..rng.below(3) {
                let at = rng.below(input.len() as u64) as usize;
                input[at] ^= 1 << rng.below(8);
            }
            exercise(&input);
        }
    }
}
