//! The negotiation, passed on option by option. The proxy itself refuses options that change the
//! form of later messages in ways it cannot parse.

use super::relay::{RelayError, read_u32, read_u64};
use seekless_serve::nbd::wire::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY, be32, be64, handshake, option, option_reply,
};
use std::io::{Read, Write};

/// Longest option or reply that is passed on, in bytes.
const MOST_BYTES: u32 = 1 << 20;

/// Options that are passed on. Encryption is not: it would hide the requests. Extended headers are
/// not: the relay does not parse them.
const KNOWN: [u32; 8] = [
    option::EXPORT_NAME,
    option::ABORT,
    option::LIST,
    option::INFO,
    option::GO,
    option::STRUCTURED_REPLY,
    option::LIST_META_CONTEXT,
    option::SET_META_CONTEXT,
];

/// The result of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreed {
    /// The transmission phase follows; the export has this size.
    Transmission {
        /// In bytes.
        size: u64,
    },
    /// The client has aborted the negotiation.
    Over,
}

/// Passes a negotiation on between a client and the server. `export` is the name that the server
/// knows the export by; a client asks for it by that name or by none.
pub(super) fn negotiate(
    client: &mut (impl Read + Write),
    server: &mut (impl Read + Write),
    export: &str,
) -> Result<Agreed, RelayError> {
    let mut greeting = [0; 18];
    server.read_exact(&mut greeting).map_err(RelayError::Server)?;
    if be64(&greeting, 0) != NBDMAGIC || be64(&greeting, 8) != IHAVEOPT {
        return Err(RelayError::Protocol("the server's greeting"));
    }
    client.write_all(&greeting).map_err(RelayError::Client)?;
    let mut flags = [0; 4];
    client.read_exact(&mut flags).map_err(RelayError::Client)?;
    server.write_all(&flags).map_err(RelayError::Server)?;
    let padded = be32(&flags, 0) & u32::from(handshake::NO_ZEROES) == 0;
    loop {
        if read_u64(client).map_err(RelayError::Client)? != IHAVEOPT {
            return Err(RelayError::Protocol("the client's option"));
        }
        let number = read_u32(client).map_err(RelayError::Client)?;
        let length = read_u32(client).map_err(RelayError::Client)?;
        let mut data = body(client, length).map_err(RelayError::Client)?;
        if !KNOWN.contains(&number) {
            refuse(client, number, option_reply::ERR_UNSUP, "the proxy does not know this option")?;
            continue;
        }
        if !rename(number, &mut data, export) {
            if number == option::EXPORT_NAME {
                return Err(RelayError::Protocol("the client's name of the export"));
            }
            refuse(client, number, option_reply::ERR_UNKNOWN, "this export is not recorded")?;
            continue;
        }
        pass_option(server, number, &data)?;
        if number == option::EXPORT_NAME {
            let mut answer = vec![0; if padded { 134 } else { 10 }];
            server.read_exact(&mut answer).map_err(RelayError::Server)?;
            client.write_all(&answer).map_err(RelayError::Client)?;
            return Ok(Agreed::Transmission { size: be64(&answer, 0) });
        }
        let (last, size) = replies(client, server, number)?;
        match (number, last) {
            (option::GO, option_reply::ACK) => {
                let size = size.ok_or(RelayError::Protocol("the server's answer to GO"))?;
                return Ok(Agreed::Transmission { size });
            }
            (option::ABORT, _) => return Ok(Agreed::Over),
            _ => {}
        }
    }
}

fn pass_option(server: &mut impl Write, number: u32, data: &[u8]) -> Result<(), RelayError> {
    let mut message = IHAVEOPT.to_be_bytes().to_vec();
    message.extend(number.to_be_bytes());
    // The option had a 32-bit length, and the name in a URI adds little.
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    server.write_all(&message).map_err(RelayError::Server)
}

/// Passes the replies to an option on up to the last: its type, and the size of the export if one
/// was told.
fn replies(
    client: &mut impl Write,
    server: &mut impl Read,
    number: u32,
) -> Result<(u32, Option<u64>), RelayError> {
    let mut size = None;
    loop {
        let mut header = [0; 20];
        server.read_exact(&mut header).map_err(RelayError::Server)?;
        if be64(&header, 0) != OPTION_REPLY || be32(&header, 8) != number {
            return Err(RelayError::Protocol("the server's reply to an option"));
        }
        let kind = be32(&header, 12);
        let data = body(server, be32(&header, 16)).map_err(RelayError::Server)?;
        if kind == option_reply::INFO && data.len() >= 12 && data[..2] == [0, 0] {
            size = Some(be64(&data, 2));
        }
        client.write_all(&header).map_err(RelayError::Client)?;
        client.write_all(&data).map_err(RelayError::Client)?;
        if kind == option_reply::ACK || kind >> 31 == 1 {
            return Ok((kind, size));
        }
    }
}

fn refuse(client: &mut impl Write, number: u32, kind: u32, why: &str) -> Result<(), RelayError> {
    let mut message = OPTION_REPLY.to_be_bytes().to_vec();
    message.extend(number.to_be_bytes());
    message.extend(kind.to_be_bytes());
    message.extend((why.len() as u32).to_be_bytes());
    message.extend(why.as_bytes());
    client.write_all(&message).map_err(RelayError::Client)
}

/// Puts the server's name of the export in place of the client's; false if the client means
/// another one.
fn rename(number: u32, data: &mut Vec<u8>, export: &str) -> bool {
    let (from, length) = match number {
        option::EXPORT_NAME => (0_usize, data.len()),
        option::INFO | option::GO | option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            if data.len() < 4 {
                // The server reports the error.
                return true;
            }
            (4, be32(data, 0) as usize)
        }
        _ => return true,
    };
    let Some(name) = data.get(from..from.saturating_add(length)) else { return true };
    if !name.is_empty() && name != export.as_bytes() {
        return false;
    }
    data.splice(from..from + length, export.bytes());
    if from == 4 {
        data[..4].copy_from_slice(&(export.len() as u32).to_be_bytes());
    }
    true
}

fn body(from: &mut impl Read, length: u32) -> std::io::Result<Vec<u8>> {
    if length > MOST_BYTES {
        return Err(std::io::Error::other(format!("{length} bytes in one option")));
    }
    let mut data = vec![0; length as usize];
    from.read_exact(&mut data)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_name_becomes_the_servers_and_others_are_refused() {
        let go = |name: &str| {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend(name.as_bytes());
            data.extend([0, 1, 0, 3]);
            data
        };
        let mut data = go("");
        assert!(rename(option::GO, &mut data, "disk"));
        assert_eq!(data, go("disk"));
        assert!(rename(option::GO, &mut data, "disk"));
        assert_eq!(data, go("disk"));
        assert!(!rename(option::GO, &mut go("other"), "disk"));
        let mut name = Vec::new();
        assert!(rename(option::EXPORT_NAME, &mut name, "disk"));
        assert_eq!(name, b"disk");
        let mut short = vec![0, 0, 0, 9, 1];
        assert!(rename(option::INFO, &mut short, "disk"), "left to the server");
        assert_eq!(short, [0, 0, 0, 9, 1]);
    }
}
