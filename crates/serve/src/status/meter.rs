//! Counts what clients ask for, and how long each answer takes.

use super::Requests;
use seekless_engine::units::Time;
use std::collections::BTreeMap;

/// Kinds of requests that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Reads of content.
    Read,
    /// Writes of content, zeros included.
    Write,
    /// Requests to make content durable.
    Flush,
    /// Advice that content is not needed.
    Trim,
    /// All others: names, attributes, the places of holes.
    Other,
}

impl Sort {
    const ALL: [Sort; 5] = [Sort::Read, Sort::Write, Sort::Flush, Sort::Trim, Sort::Other];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Read => "read",
            Sort::Write => "write",
            Sort::Flush => "flush",
            Sort::Trim => "trim",
            Sort::Other => "other",
        }
    }
}

/// A request that is being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Its kind.
    pub sort: Sort,
    /// Bytes that it reads or writes.
    pub bytes: u32,
    /// When it came.
    pub since: Time,
}

/// What clients have asked for.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    sorts: [Requests; Sort::ALL.len()],
}

impl Meter {
    /// Counts an answer.
    #[inline]
    pub fn answered(&mut self, measured: Measured, now: Time, is_error: bool) {
        let Measured { sort, bytes, since } = measured;
        let requests = &mut self.sorts[sort as usize];
        requests.count += 1;
        requests.latency.record(now.saturating_sub(since));
        match is_error {
            true => requests.errors += 1,
            false => requests.bytes += u64::from(bytes),
        }
    }

    /// The counts, by kind; kinds that never came are left out.
    pub fn requests(&self) -> BTreeMap<String, Requests> {
        let came = Sort::ALL.into_iter().zip(&self.sorts).filter(|(_, one)| one.count > 0);
        came.map(|(sort, requests)| (sort.name().to_owned(), requests.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_move_no_bytes() {
        let mut meter = Meter::default();
        let write = Measured { sort: Sort::Write, bytes: 4096, since: 1000 };
        meter.answered(write, 5000, false);
        meter.answered(write, 6000, true);
        let requests = meter.requests();
        assert_eq!(requests.keys().collect::<Vec<_>>(), ["write"]);
        let writes = &requests["write"];
        assert_eq!((writes.count, writes.errors, writes.bytes), (2, 1, 4096));
        assert_eq!(writes.latency.total_ns(), 9000);
    }
}
