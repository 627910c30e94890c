//! Numbers of the NBD protocol. The names are those of its specification.

/// First word of the greeting.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the greeting, and first word of each option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// First word of each answer to an option.
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// First word of a request.
pub const REQUEST: u32 = 0x2560_9513;
/// First word of a simple reply.
pub const SIMPLE_REPLY: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
pub const STRUCTURED_REPLY: u32 = 0x668e_33ef;

/// Handshake flags, the same bits from both sides.
pub mod handshake {
    /// Options can be refused without ending the connection.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// The answer to EXPORT_NAME ends without 124 zero bytes.
    pub const NO_ZEROES: u16 = 2;
}

/// Options of the negotiation.
pub mod option {
    #![allow(missing_docs)]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Answers to options.
pub mod option_reply {
    #![allow(missing_docs)]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Types of information replies.
pub mod info {
    #![allow(missing_docs)]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod export_flag {
    #![allow(missing_docs)]
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands of the transmission phase.
pub mod command {
    #![allow(missing_docs)]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command.
pub mod command_flag {
    #![allow(missing_docs)]
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of a structured reply.
pub mod chunk {
    #![allow(missing_docs)]
    pub const FLAG_DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// The big-endian number of 16 bits at `at`.
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The big-endian number of 32 bits at `at`.
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// The big-endian number of 64 bits at `at`.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
