//! What programs do, a step at a time, and the content of their files.

use bytes::Bytes;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, Time};
use std::sync::OnceLock;

/// Names a file or directory of a user; directory 0 is the root.
pub type Nr = u32;

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes a directory.
    MakeDir {
        /// The new directory.
        dir: Nr,
        /// Where.
        parent: Nr,
    },
    /// Removes an empty directory.
    RemoveDir {
        /// The directory.
        dir: Nr,
    },
    /// Lists a directory.
    List {
        /// The directory.
        dir: Nr,
    },
    /// Makes a file and opens it.
    Create {
        /// The new file.
        file: Nr,
        /// Where.
        dir: Nr,
    },
    /// Opens a file.
    Open {
        /// The file.
        file: Nr,
    },
    /// Writes at most [`MOST_BYTES`] to an open file.
    Write {
        /// The file.
        file: Nr,
        /// First byte.
        at: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Reads at most [`MOST_BYTES`] of an open file; all of them must be there.
    Read {
        /// The file.
        file: Nr,
        /// First byte.
        at: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Makes an open file durable.
    Fsync {
        /// The file.
        file: Nr,
        /// Only its data, as `fdatasync` does.
        data_only: bool,
    },
    /// Closes a file.
    Close {
        /// The file.
        file: Nr,
    },
    /// Removes a file.
    Unlink {
        /// The file.
        file: Nr,
    },
    /// Makes everything durable.
    Sync,
    /// Does nothing for so many nanoseconds.
    Pause(Time),
    /// Keeps the CPU busy. A host that takes no time computes in none.
    Compute(Work),
}

/// What a program computes between its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// CPU time in nanoseconds.
    pub ns: Time,
    /// No paper states it: it varies with the free costs of the host.
    pub is_free: bool,
}

/// CPU time for which a program computes before others have their turn.
const QUANTUM: Time = 10 * MILLIS;

/// The steps of a user.
pub type Steps = Box<dyn Iterator<Item = Step>>;

/// Bytes of one read or write at most.
pub const MOST_BYTES: u32 = 128 << 10;

/// The content repeats after so many bytes.
const PERIOD: usize = 1 << 20;

/// Bytes of a file of a user: each place of each file has its own, and each version of a place.
///
/// # Panics
/// If they are more than [`MOST_BYTES`].
pub fn content(user: usize, file: Nr, version: u32, at: u64, length: u32) -> Bytes {
    static PATTERN: OnceLock<Bytes> = OnceLock::new();
    assert!(length <= MOST_BYTES, "{length} bytes at once");
    let pattern = PATTERN.get_or_init(|| {
        let mut rng = Rng::stream(1, "content of files");
        let mut bytes: Vec<u8> = (0..PERIOD / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
        bytes.extend_from_within(..MOST_BYTES as usize);
        Bytes::from(bytes)
    });
    let numbers = [(user as u64, 500_009), (u64::from(file), 8_209), (u64::from(version), 70_001)];
    let base = numbers.iter().fold(0, |sum: u64, (number, by)| sum.wrapping_add(number * by));
    let from = (base.wrapping_add(at) % PERIOD as u64) as usize;
    pattern.slice(from..from + length as usize)
}

/// The steps that write a new open file from its start, in units of `unit` bytes.
pub fn write_all(file: Nr, bytes: u64, unit: u32) -> impl Iterator<Item = Step> {
    pieces(bytes, unit).map(move |(at, length)| Step::Write { file, at, length })
}

/// The steps that read a file from its start, in units of `unit` bytes.
pub fn read_all(file: Nr, bytes: u64, unit: u32) -> impl Iterator<Item = Step> {
    pieces(bytes, unit).map(move |(at, length)| Step::Read { file, at, length })
}

/// The steps that make a file with so many bytes, in writes of `unit` bytes.
pub fn make_whole(file: Nr, dir: Nr, bytes: u64, unit: u32) -> impl Iterator<Item = Step> {
    let make = [Step::Create { file, dir }].into_iter();
    make.chain(write_all(file, bytes, unit)).chain([Step::Close { file }])
}

/// The steps that read all of a file, in reads of `unit` bytes.
pub fn read_whole(file: Nr, bytes: u64, unit: u32) -> impl Iterator<Item = Step> {
    let open = [Step::Open { file }].into_iter();
    open.chain(read_all(file, bytes, unit)).chain([Step::Close { file }])
}

/// The steps that compute in turn with other users.
pub fn compute(work: Work) -> impl Iterator<Item = Step> {
    let step = QUANTUM as usize;
    (0..work.ns).step_by(step).map(move |from| {
        let ns = QUANTUM.min(work.ns - from);
        Step::Compute(Work { ns, ..work })
    })
}

fn pieces(bytes: u64, unit: u32) -> impl Iterator<Item = (u64, u32)> {
    let step = unit as usize;
    (0..bytes).step_by(step).map(move |at| (at, u64::from(unit).min(bytes - at) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_how_it_is_cut() {
        let whole = content(1, 2, 0, PERIOD as u64 - 100, 1000);
        let parts = [
            content(1, 2, 0, PERIOD as u64 - 100, 300),
            content(1, 2, 0, PERIOD as u64 + 200, 700),
        ];
        assert_eq!(whole, parts.concat());
        for other in [content(1, 3, 0, 0, 64), content(2, 2, 0, 0, 64), content(1, 2, 1, 0, 64)] {
            assert_ne!(content(1, 2, 0, 0, 64), other);
        }
    }

    #[test]
    fn a_file_is_cut_into_units_and_a_rest() {
        let steps: Vec<Step> = write_all(7, 20, 8).collect();
        let write = |at, length| Step::Write { file: 7, at, length };
        assert_eq!(steps, [write(0, 8), write(8, 8), write(16, 4)]);
        assert_eq!(read_all(7, 0, 8).count(), 0);
    }

    #[test]
    fn computing_is_cut_into_turns_that_add_up() {
        let work = Work { ns: 2 * QUANTUM + 7, is_free: true };
        let turns: Vec<Step> = compute(work).collect();
        let turn = |ns| Step::Compute(Work { ns, is_free: true });
        assert_eq!(turns, [turn(QUANTUM), turn(QUANTUM), turn(7)]);
    }
}
