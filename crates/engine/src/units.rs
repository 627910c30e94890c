//! Units that every layer shares.

/// A point in time or a span, in nanoseconds. Virtual time starts at zero; a wall-clock driver
/// counts from its own start. The caller passes the time to the engine, which never reads a clock.
pub type Time = u64;

/// Number of a 4 KiB block on a device or a volume.
pub type BlockNr = u64;

/// Number of a 512-byte sector on a device.
pub type Sector = u64;

/// Bytes in a block, the unit of every request inside the engine.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes in a sector: the unit a device writes atomically, hence the unit in which a write tears.
pub const SECTOR_BYTES: usize = 512;

/// Sectors in a block.
pub const BLOCK_SECTORS: u64 = (BLOCK_BYTES / SECTOR_BYTES) as u64;

/// One microsecond.
pub const MICROS: Time = 1_000;

/// One millisecond.
pub const MILLIS: Time = 1_000_000;

/// One second.
pub const SECONDS: Time = 1_000_000_000;
