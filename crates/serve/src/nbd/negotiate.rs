//! The negotiation: greeting, options, choice of the export.

use super::wire::{
    IHAVEOPT, NBDMAGIC, OPTION_REPLY, be16, be32, be64, export_flag, handshake, info, option,
    option_reply,
};
use super::{Connection, Event, Export, Phase, ProtocolError};
use bytes::{Buf, Bytes};

const OPTION_HEADER: usize = 16;
/// Longest option accepted: names are at most 4096 bytes, queries a few.
const OPTION_LIMIT: u32 = 64 << 10;
/// Options before the client must have chosen.
const MOST_OPTIONS: u32 = 1000;
const ALLOCATION: &[u8] = b"base:allocation";
const ALLOCATION_ID: u32 = 1;

/// Length of the option that the input begins with, as far as it is known.
pub(super) fn wanted(input: &[u8]) -> usize {
    if input.len() < OPTION_HEADER {
        return OPTION_HEADER;
    }
    OPTION_HEADER + be32(input, 12).min(OPTION_LIMIT) as usize
}

fn export_flags(export: &Export, structured: bool) -> u16 {
    let mut flags = export_flag::HAS_FLAGS
        | export_flag::SEND_FLUSH
        | export_flag::SEND_FUA
        | export_flag::SEND_TRIM
        | export_flag::SEND_WRITE_ZEROES
        | export_flag::SEND_CACHE
        | export_flag::SEND_FAST_ZERO;
    for (set, flag) in [
        (export.read_only, export_flag::READ_ONLY),
        (export.rotational, export_flag::ROTATIONAL),
        (export.multi_conn, export_flag::CAN_MULTI_CONN),
        // Simple replies have no fragments; the protocol forbids offering it without structured
        // replies.
        (structured, export_flag::SEND_DF),
    ] {
        flags |= if set { flag } else { 0 };
    }
    flags
}

/// Splits a length-prefixed string off the data of an option.
fn split_string(data: &mut Bytes) -> Option<Bytes> {
    if data.len() < 4 {
        return None;
    }
    let length = data.get_u32() as usize;
    (length <= data.len()).then(|| data.split_to(length))
}

impl Connection {
    pub(super) fn greet(&mut self) {
        let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        self.output.put(&NBDMAGIC.to_be_bytes());
        self.output.put(&IHAVEOPT.to_be_bytes());
        self.output.put(&flags.to_be_bytes());
    }

    pub(super) fn client_flags(&mut self) -> Option<Event> {
        if self.input.len() < 4 {
            return None;
        }
        let flags = self.input.get_u32();
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        // A client may leave out the fixed-newstyle bit; the old style then allows only
        // EXPORT_NAME, which needs no special case.
        if flags & !known != 0 {
            return Some(Event::Failed(ProtocolError::ClientFlags(flags)));
        }
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.phase = Phase::Options;
        self.next_option()
    }

    pub(super) fn next_option(&mut self) -> Option<Event> {
        loop {
            if self.input.len() < OPTION_HEADER {
                return None;
            }
            let (magic, number, length) =
                (be64(&self.input, 0), be32(&self.input, 8), be32(&self.input, 12));
            if magic != IHAVEOPT {
                let error =
                    ProtocolError::Magic { place: "option", found: magic, expected: IHAVEOPT };
                return Some(Event::Failed(error));
            }
            if length > OPTION_LIMIT {
                let error =
                    ProtocolError::OptionTooLong { option: number, length, limit: OPTION_LIMIT };
                return Some(Event::Failed(error));
            }
            if self.input.len() < OPTION_HEADER + length as usize {
                return None;
            }
            self.input.advance(OPTION_HEADER);
            let data = self.input.split_to(length as usize).freeze();
            self.options_seen += 1;
            if self.options_seen > MOST_OPTIONS {
                return Some(Event::Failed(ProtocolError::TooManyOptions(MOST_OPTIONS)));
            }
            if let Some(event) = self.option(number, data) {
                return Some(event);
            }
        }
    }

    fn option(&mut self, number: u32, data: Bytes) -> Option<Event> {
        match number {
            option::EXPORT_NAME => return Some(self.export_name(&data)),
            option::ABORT => {
                self.acknowledge(number);
                return Some(Event::Disconnected);
            }
            option::LIST => self.list(&data),
            option::INFO | option::GO => return self.info_or_go(number, data),
            option::STRUCTURED_REPLY => {
                if data.is_empty() {
                    self.structured = true;
                    self.acknowledge(number);
                } else {
                    self.refuse(number, option_reply::ERR_INVALID, "the option takes no data");
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(number, data),
            _ => self.refuse(number, option_reply::ERR_UNSUP, "unknown option"),
        }
        None
    }

    fn answer(&mut self, number: u32, kind: u32, data: &[&[u8]]) {
        let length: usize = data.iter().map(|part| part.len()).sum();
        self.output.put(&OPTION_REPLY.to_be_bytes());
        self.output.put(&number.to_be_bytes());
        self.output.put(&kind.to_be_bytes());
        self.output.put(&(length as u32).to_be_bytes());
        for part in data {
            self.output.put(part);
        }
    }

    fn acknowledge(&mut self, number: u32) {
        self.answer(number, option_reply::ACK, &[]);
    }

    fn refuse(&mut self, number: u32, kind: u32, reason: &str) {
        self.answer(number, kind, &[reason.as_bytes()]);
    }

    fn is_ours(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.name.as_bytes()
    }

    /// The oldest way to choose an export: it has no error reply, so an error closes the
    /// connection.
    fn export_name(&mut self, name: &[u8]) -> Event {
        if !self.is_ours(name) {
            let name = String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned();
            return Event::Failed(ProtocolError::UnknownExport(name));
        }
        self.output.put(&self.export.size_bytes.to_be_bytes());
        self.output.put(&export_flags(&self.export, self.structured).to_be_bytes());
        if !self.no_zeroes {
            self.output.put(&[0; 124]);
        }
        self.phase = Phase::Transmission;
        Event::Negotiated
    }

    fn list(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.refuse(
                option::LIST,
                option_reply::ERR_INVALID,
                "the option takes no data",
            );
        }
        let export = self.export.clone();
        let length = (export.name.len() as u32).to_be_bytes();
        let parts: [&[u8]; 3] = [&length, export.name.as_bytes(), export.description.as_bytes()];
        self.answer(option::LIST, option_reply::SERVER, &parts);
        self.acknowledge(option::LIST);
    }

    fn info_or_go(&mut self, number: u32, mut data: Bytes) -> Option<Event> {
        let name = split_string(&mut data);
        let well_formed = data.len() >= 2 && data.len() == 2 + 2 * usize::from(be16(&data, 0));
        let Some(name) = name.filter(|_| well_formed) else {
            self.refuse(number, option_reply::ERR_INVALID, "the request is malformed");
            return None;
        };
        if !self.is_ours(&name) {
            self.refuse(number, option_reply::ERR_UNKNOWN, "there is no export of that name");
            return None;
        }
        let export = self.export.clone();
        let size = export.size_bytes.to_be_bytes();
        let flags = export_flags(&export, self.structured).to_be_bytes();
        self.information(number, info::EXPORT, &[&size, &flags]);
        // Send the block sizes to all: a client that does not know them skips them.
        let sizes = [export.minimum_block, export.preferred_block, export.maximum_payload];
        let sizes = sizes.map(u32::to_be_bytes).concat();
        self.information(number, info::BLOCK_SIZE, &[&sizes]);
        for wanted in data[2..].chunks_exact(2) {
            match be16(wanted, 0) {
                info::NAME => self.information(number, info::NAME, &[export.name.as_bytes()]),
                info::DESCRIPTION => {
                    self.information(number, info::DESCRIPTION, &[export.description.as_bytes()]);
                }
                _ => {}
            }
        }
        self.acknowledge(number);
        if number == option::INFO {
            return None;
        }
        self.phase = Phase::Transmission;
        Some(Event::Negotiated)
    }

    fn information(&mut self, number: u32, kind: u16, data: &[&[u8]]) {
        let kind = kind.to_be_bytes();
        let parts: Vec<&[u8]> = std::iter::once(&kind[..]).chain(data.iter().copied()).collect();
        self.answer(number, option_reply::INFO, &parts);
    }

    fn meta_context(&mut self, number: u32, mut data: Bytes) {
        let set = number == option::SET_META_CONTEXT;
        if set {
            self.allocation = false;
        }
        if !self.structured {
            let reason = "contexts need structured replies; negotiate these first";
            return self.refuse(number, option_reply::ERR_INVALID, reason);
        }
        let Some(name) = split_string(&mut data).filter(|_| data.len() >= 4) else {
            return self.refuse(number, option_reply::ERR_INVALID, "the request is malformed");
        };
        let count = data.get_u32();
        let mut wanted = count == 0 && !set;
        for _ in 0..count {
            let Some(query) = split_string(&mut data) else {
                return self.refuse(number, option_reply::ERR_INVALID, "a query is malformed");
            };
            wanted |= query == ALLOCATION || (!set && query == b"base:"[..]);
        }
        if !data.is_empty() {
            return self.refuse(number, option_reply::ERR_INVALID, "data follows the last query");
        }
        if !self.is_ours(&name) {
            let reason = "there is no export of that name";
            return self.refuse(number, option_reply::ERR_UNKNOWN, reason);
        }
        if wanted {
            let id = if set { ALLOCATION_ID } else { 0 };
            self.allocation |= set;
            self.answer(number, option_reply::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION]);
        }
        self.acknowledge(number);
    }

    /// Number of the allocation context in replies.
    pub(super) fn allocation_id() -> u32 {
        ALLOCATION_ID
    }
}
