//! Rates: what happened between two reports.

use crate::commands::status::text::{bytes, time};
use seekless_serve::status::{Report, Requests};
use std::collections::VecDeque;

/// Intervals that are remembered for the graph.
const MOST_INTERVALS: usize = 600;

/// The last report, and what happened since the one before.
#[derive(Debug)]
pub struct Rates {
    /// The last one.
    pub report: Report,
    /// The one before.
    before: Option<Report>,
    /// Requests a second in each interval, the last one at the end.
    pub history: VecDeque<u64>,
}

/// What clients asked for in an interval, for each second.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    /// Requests.
    pub requests: f64,
    /// Bytes.
    pub bytes: f64,
    /// The requests of the interval.
    pub all: Requests,
}

impl Rates {
    /// Nothing has happened yet.
    pub fn new(report: Report) -> Rates {
        Rates { report, before: None, history: VecDeque::new() }
    }

    /// Takes the next report.
    pub fn take(&mut self, report: Report) {
        self.before = Some(std::mem::replace(&mut self.report, report));
        if self.history.len() == MOST_INTERVALS {
            self.history.pop_front();
        }
        self.history.push_back(self.total().requests.round() as u64);
    }

    /// Seconds of the interval.
    fn seconds(&self) -> f64 {
        let before = self.before.as_ref().map_or(0, |before| before.uptime_ns);
        (self.report.uptime_ns.saturating_sub(before) as f64 / 1e9).max(1e-3)
    }

    /// Requests of a kind in the interval.
    pub fn of(&self, kind: &str) -> Rate {
        let now = self.report.requests.get(kind).cloned().unwrap_or_default();
        let before = self.before.as_ref().and_then(|before| before.requests.get(kind));
        self.rate(now, before)
    }

    /// All requests in the interval.
    pub fn total(&self) -> Rate {
        let before = self.before.as_ref().map(Report::total);
        self.rate(self.report.total(), before.as_ref())
    }

    fn rate(&self, now: Requests, before: Option<&Requests>) -> Rate {
        let Some(before) = before else {
            // The first report: what came before it has no rate.
            return match self.before {
                Some(_) => self.over(now),
                None => Rate::default(),
            };
        };
        self.over(Requests {
            count: now.count.saturating_sub(before.count),
            errors: now.errors.saturating_sub(before.errors),
            bytes: now.bytes.saturating_sub(before.bytes),
            latency: now.latency.since(&before.latency),
        })
    }

    fn over(&self, all: Requests) -> Rate {
        let seconds = self.seconds();
        Rate { requests: all.count as f64 / seconds, bytes: all.bytes as f64 / seconds, all }
    }

    /// Bytes a second that went to the devices in the interval: read and written.
    pub fn below(&self) -> (f64, f64) {
        let sum = |report: &Report| {
            let devices = report.devices.iter().map(|one| one.traffic);
            let members = report.members.iter().map(|one| one.traffic);
            let all: Vec<_> =
                if report.members.is_empty() { devices.collect() } else { members.collect() };
            let read: u64 = all.iter().map(|one| one.read_bytes).sum();
            let written: u64 = all.iter().map(|one| one.written_bytes).sum();
            (read, written)
        };
        let Some(before) = &self.before else { return (0.0, 0.0) };
        let (now, before, seconds) = (sum(&self.report), sum(before), self.seconds());
        (
            now.0.saturating_sub(before.0) as f64 / seconds,
            now.1.saturating_sub(before.1) as f64 / seconds,
        )
    }

    /// Stripes a second of a rebuild, and seconds until its end at this pace.
    pub fn rebuild(&self) -> Option<(f64, f64)> {
        let now = self.report.rebuild.as_ref()?;
        let before = self.before.as_ref()?.rebuild.as_ref()?;
        let pace = now.done_stripes.saturating_sub(before.done_stripes) as f64 / self.seconds();
        let left = now.stripes.saturating_sub(now.done_stripes) as f64;
        (pace > 0.0).then(|| (pace, left / pace))
    }

    /// Seconds until the end of a scrub at this pace.
    pub fn scrub(&self) -> Option<f64> {
        let now = self.report.scrub.as_ref()?;
        let before = self.before.as_ref()?.scrub.as_ref()?;
        let pace = now.done_stripes.saturating_sub(before.done_stripes) as f64 / self.seconds();
        let left = now.stripes.saturating_sub(now.done_stripes) as f64;
        (pace > 0.0).then(|| left / pace)
    }

    /// How much a counter of the layout has changed in the interval, for each second.
    pub fn counter(&self, name: &str) -> f64 {
        let get = |report: &Report| report.layout_counters.get(name).copied().unwrap_or(0.0);
        self.before
            .as_ref()
            .map_or(0.0, |before| (get(&self.report) - get(before)) / self.seconds())
    }

    /// What matters most, in one line.
    pub fn line(&self) -> String {
        let (total, read, write) = (self.total(), self.of("read"), self.of("write"));
        let at = |share| total.all.latency.quantile_ns(share).map_or("-".to_owned(), time);
        let below = self.below();
        format!(
            "{:.0} requests/s, {}/s read, {}/s written, p50 {}, p99 {}, {} in flight; below {}/s \
             read, {}/s written",
            total.requests,
            bytes(read.bytes),
            bytes(write.bytes),
            at(0.5),
            at(0.99),
            self.report.in_flight,
            bytes(below.0),
            bytes(below.1)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(uptime_ns: u64, writes: u64) -> Report {
        let mut report = Report { uptime_ns, ..Report::default() };
        let mut requests = Requests { count: writes, bytes: writes * 4096, ..Requests::default() };
        (0..writes).for_each(|_| requests.latency.record(5_000));
        report.requests.insert("write".to_owned(), requests);
        report.layout_counters.insert("commits".to_owned(), writes as f64 / 10.0);
        report
    }

    #[test]
    fn rates_are_those_of_the_interval() {
        let mut rates = Rates::new(report(10_000_000_000, 1000));
        assert_eq!(rates.total().requests, 0.0, "nothing is known of the time before");
        rates.take(report(12_000_000_000, 1100));
        assert_eq!((rates.of("write").requests, rates.of("read").requests), (50.0, 0.0));
        assert_eq!((rates.total().bytes, rates.counter("commits")), (204_800.0, 5.0));
        assert_eq!(rates.total().all.latency.count(), 100);
        assert_eq!(rates.history, [50]);
        assert!(rates.line().starts_with("50 requests/s, 0 B/s read, 200.0 KiB/s written"));
    }
}
