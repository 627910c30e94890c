//! What is to go wrong, as people write it. What storage does wrong becomes a
//! [`seekless_crash::faults::Plan`]; power cuts and delays are the crashing disk's own.

use seekless_crash::faults::Blocks;
use seekless_engine::units::{BLOCK_BYTES, MILLIS, Time};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::str::FromStr;

/// What becomes of unflushed writes when the power goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unflushed {
    /// All are lost.
    Lose,
    /// All are kept.
    Keep,
    /// The first few are kept, in the order of their arrival.
    Order,
    /// Any are kept, each in whole.
    Reorder,
    /// Any are kept, some torn between two sectors of 512 bytes.
    #[default]
    Tear,
}

/// One thing that is to go wrong. Points are counted from the moment they are armed, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes while this write is under way; trims count as writes.
    CutAtWrite(u64),
    /// The power goes at a write up to this one, drawn by the seed.
    CutAtRandom(u64),
    /// The power goes when this flush arrives, before it has done anything.
    CutOnFlush(u64),
    /// What becomes of unflushed writes when the power goes.
    Unflushed(Unflushed),
    /// Flushes and forced unit access are answered and mean nothing.
    LyingFlush,
    /// Reads of these blocks fail.
    EioRead(Blocks),
    /// Writes of these blocks fail.
    EioWrite(Blocks),
    /// Both.
    Eio(Blocks),
    /// From this write on there is no space left.
    Enospc(u64),
    /// Every request takes this much longer.
    Slow(Time),
    /// This request is never answered, until the fault is cleared or the power goes.
    Stuck(u64),
    /// These blocks read back with one bit wrong.
    Rot(Blocks),
    /// So many blocks of unflushed writes are held at most; older ones count as written out.
    Cache(u64),
    /// Seed of whatever chance decides.
    Seed(u64),
}

/// Why a text names no fault, or none that can strike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFault {
    /// No fault has this name.
    #[error("unknown fault `{0}`; known are {KNOWN}")]
    Unknown(String),
    /// The value makes no sense.
    #[error("{name}={value}: {why}; write {form}")]
    Value {
        /// The fault.
        name: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: &'static str,
        /// What is expected.
        form: &'static str,
    },
    /// The device has no such blocks.
    #[error(
        "{fault}: the disk below the layout has {bytes} bytes and ends before that range does; \
         choose one that lies in it"
    )]
    Outside {
        /// The fault.
        fault: Fault,
        /// Size of the device in bytes.
        bytes: u64,
    },
}

/// Every fault, for messages and help.
pub const KNOWN: &str = "cut-at-write=N, cut-at-random=N, cut-on-flush[=N], \
     unflushed=lose|keep|order|reorder|tear, lying-flush, eio=FROM+LENGTH, eio-read=FROM+LENGTH, \
     eio-write=FROM+LENGTH, enospc[=N], slow=MILLISECONDS, stuck[=N], rot=FROM+LENGTH, cache=SIZE, \
     seed=N";

impl Fault {
    /// True if this fault takes the place of an older one: it is the same, or of a kind of which
    /// there is one at a time.
    pub fn replaces(&self, older: &Fault) -> bool {
        self == older || (self.sole().is_some() && self.sole() == older.sole())
    }

    /// What there is one of at a time; `None` for ranges, of which there may be many.
    fn sole(&self) -> Option<Discriminant<Fault>> {
        match self {
            Fault::EioRead(_) | Fault::EioWrite(_) | Fault::Eio(_) | Fault::Rot(_) => None,
            Fault::CutAtRandom(n) => Some(discriminant(&Fault::CutAtWrite(*n))),
            other => Some(discriminant(other)),
        }
    }

    /// Tells whether a device of `blocks` blocks has all blocks that this is about.
    ///
    /// # Errors
    /// [`BadFault::Outside`] if not.
    pub fn fits(&self, blocks: u64) -> Result<(), BadFault> {
        match self {
            Fault::EioRead(range)
            | Fault::EioWrite(range)
            | Fault::Eio(range)
            | Fault::Rot(range)
                if range.to > blocks =>
            {
                Err(BadFault::Outside { fault: *self, bytes: blocks * BLOCK_BYTES as u64 })
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let bad = |why, form| BadFault::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            why,
            form,
        };
        let point = || match value.parse() {
            Ok(0) => Err(bad("there is no such point", "a number from 1 on")),
            Ok(number) => Ok(number),
            Err(_) => Err(bad("this is not a number", "a number from 1 on")),
        };
        let first = || if value.is_empty() { Ok(1) } else { point() };
        let blocks = || {
            let form = "FROM+LENGTH in bytes, in whole blocks of 4 KiB, as in 1M+64k";
            blocks(value).map_err(|why| bad(why, form))
        };
        Ok(match name {
            "cut-at-write" => Fault::CutAtWrite(point()?),
            "cut-at-random" => Fault::CutAtRandom(point()?),
            "cut-on-flush" => Fault::CutOnFlush(first()?),
            "unflushed" => {
                let form = "lose, keep, order, reorder or tear";
                Fault::Unflushed(match value {
                    "lose" => Unflushed::Lose,
                    "keep" => Unflushed::Keep,
                    "order" => Unflushed::Order,
                    "reorder" => Unflushed::Reorder,
                    "tear" => Unflushed::Tear,
                    _ => return Err(bad("there is no such choice", form)),
                })
            }
            "lying-flush" if value.is_empty() => Fault::LyingFlush,
            "lying-flush" => return Err(bad("it takes no value", "lying-flush")),
            "eio" => Fault::Eio(blocks()?),
            "eio-read" => Fault::EioRead(blocks()?),
            "eio-write" => Fault::EioWrite(blocks()?),
            "enospc" => Fault::Enospc(first()?),
            "slow" => {
                let form = "milliseconds, up to 3600000";
                let millis = value.parse().ok().filter(|millis| *millis <= 3_600_000.0);
                let millis: f64 = millis.ok_or_else(|| bad("this is no such number", form))?;
                if millis < 0.0 {
                    return Err(bad("time does not run backwards", form));
                }
                Fault::Slow((millis * MILLIS as f64) as Time)
            }
            "stuck" => Fault::Stuck(first()?),
            "rot" => Fault::Rot(blocks()?),
            "cache" => {
                let form = "a size of at least 4k, as in 32M";
                let bytes = bytes(value).ok_or_else(|| bad("this is not a size", form))?;
                match bytes / BLOCK_BYTES as u64 {
                    0 => return Err(bad("a cache holds a block at least", form)),
                    blocks => Fault::Cache(blocks),
                }
            }
            "seed" => {
                let number = value.parse().map_err(|_| bad("this is not a number", "a number"));
                Fault::Seed(number?)
            }
            _ => return Err(BadFault::Unknown(name.to_owned())),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |blocks: &Blocks| {
            let unit = BLOCK_BYTES as u64;
            format!("{}+{}", blocks.from * unit, (blocks.to - blocks.from) * unit)
        };
        match self {
            Fault::CutAtWrite(n) => write!(f, "cut-at-write={n}"),
            Fault::CutAtRandom(n) => write!(f, "cut-at-random={n}"),
            Fault::CutOnFlush(n) => write!(f, "cut-on-flush={n}"),
            Fault::Unflushed(unflushed) => {
                write!(f, "unflushed={}", format!("{unflushed:?}").to_lowercase())
            }
            Fault::LyingFlush => f.write_str("lying-flush"),
            Fault::EioRead(blocks) => write!(f, "eio-read={}", range(blocks)),
            Fault::EioWrite(blocks) => write!(f, "eio-write={}", range(blocks)),
            Fault::Eio(blocks) => write!(f, "eio={}", range(blocks)),
            Fault::Enospc(n) => write!(f, "enospc={n}"),
            Fault::Slow(ns) => write!(f, "slow={}", *ns as f64 / MILLIS as f64),
            Fault::Stuck(n) => write!(f, "stuck={n}"),
            Fault::Rot(blocks) => write!(f, "rot={}", range(blocks)),
            Fault::Cache(blocks) => write!(f, "cache={}", blocks * BLOCK_BYTES as u64),
            Fault::Seed(seed) => write!(f, "seed={seed}"),
        }
    }
}

fn blocks(text: &str) -> Result<Blocks, &'static str> {
    let (from, length) = text.split_once('+').ok_or("this is not a range")?;
    let (from, length) = match (bytes(from), bytes(length)) {
        (Some(from), Some(length)) => (from, length),
        _ => return Err("this is not a range"),
    };
    let unit = BLOCK_BYTES as u64;
    let end = from.checked_add(length).ok_or("this is not a range")?;
    if length == 0 || !from.is_multiple_of(unit) || !length.is_multiple_of(unit) {
        return Err("the range is empty or not in whole blocks");
    }
    Ok(Blocks { from: from / unit, to: end / unit })
}

/// Bytes, or a number with k, M, G or T (powers of 1024).
fn bytes(text: &str) -> Option<u64> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
