//! Estimates the parameters of a drive from a recording.
//!
//! The requests of a recording were not chosen to find parameters, so much stays hidden: where
//! tracks begin, their skews, the number of heads. Response times yield the rest: the quickest
//! reads (hits), their growth with length (the bus), and their growth with distance (a rough seek
//! curve by distance in sectors). Sectors that were read twice from the platter yield the rotation.
//! The specification then replays the recording, and the report includes its error.

mod events;
mod hits;
mod model;
mod position;
mod rotation;
#[cfg(test)]
mod tests;

use super::{Estimate, FitError};
use crate::recording::{Figures, Recorded};
use events::{Event, events};
use model::Guess;
use position::Means;

pub use position::Reached;

/// If more than this share of the writes were reported early, the specification reports writes
/// early.
const EARLY: f64 = 0.5;

/// After a pause like this no write waits for the one before, in nanoseconds.
const RESTED: u64 = 20_000_000;

/// Reads that follow an early write by less than this may wait for it, in nanoseconds.
const SETTLED: u64 = 40_000_000;

/// The estimates from a recording. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct RecordedFit {
    /// Requests used.
    pub requests: usize,
    /// One past the last requested sector.
    pub sectors: u64,
    /// One revolution, if the recording shows it.
    pub revolution: Option<Estimate>,
    /// Share of reads that came from the cache, from 0 to 1.
    pub hit_share: f64,
    /// Fixed part of a read from the cache.
    pub hit: Option<Estimate>,
    /// For each sector of it.
    pub bus_sector: Option<Estimate>,
    /// Share of writes that were reported before they can have been on the platter.
    pub early_writes: f64,
    /// Fixed part of such a write.
    pub early: Option<Estimate>,
    /// For each sector of it.
    pub early_sector: Option<Estimate>,
    /// Response over distance.
    pub seek: Vec<Reached>,
    /// How far the specification is off the recording: all requests, reads, writes.
    pub model: Option<[Figures; 3]>,
    /// Parameters that could not be estimated, and why.
    pub missing: Vec<String>,
    /// Mean responses of reads from the platter.
    means: Means,
    /// How much longer writes to the platter take than reads.
    writes_more: f64,
    /// How much longer reads from the platter have to take in the model for the mean to be right.
    reads_more: f64,
    /// Sectors of the longest request.
    longest: u64,
    /// Share of the writes after a long pause that were reported early: others may have had to
    /// wait for the one before.
    early_rested: f64,
    guess: Guess,
}

/// Estimates parameters from a recording. Pauses stand before their requests if `before`, else
/// after.
///
/// # Errors
/// If there are too few requests for an estimate, or their times add up to centuries.
pub fn recorded(
    requests: impl Iterator<Item = Recorded>,
    before: bool,
) -> Result<RecordedFit, FitError> {
    let (requests, events) = events(requests, before)?;
    let reads: Vec<Event> = events.iter().copied().filter(|event| event.read).collect();
    if reads.len() < 100 {
        let few = format!("the recording has {} reads; at least 100 are needed", reads.len());
        return Err(FitError::NotMechanical(few));
    }
    let mut fit = RecordedFit {
        requests: events.len(),
        sectors: events.iter().map(|event| event.end).max().unwrap_or(0),
        longest: events.iter().map(Event::sectors).max().unwrap_or(0),
        ..RecordedFit::default()
    };
    fit.estimate(&events, &reads);
    fit.guess_cache(&requests, before);
    fit.level(&requests, before);
    fit.name_missing();
    fit.model = fit.replay(&requests, before);
    Ok(fit)
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

impl RecordedFit {
    fn estimate(&mut self, events: &[Event], reads: &[Event]) {
        let bound = hits::bound(reads);
        let quick = hits::reads(reads, bound);
        let hit = |event: &Event| quick.as_ref().is_some_and(|quick| quick.holds(event));
        self.hit_share =
            reads.iter().filter(|event| hit(event)).count() as f64 / reads.len() as f64;
        match hits::edge(reads.iter().filter(|event| hit(event))) {
            None => {
                self.missing.push("cache hits, bus: too few reads came from the cache".into());
            }
            Some((constant, slope)) => {
                (self.hit, self.bus_sector) = (Some(constant), slope);
                if slope.is_none() {
                    let why = "bus: the times of hits do not grow with their length";
                    self.missing.push(why.into());
                }
            }
        }
        let writes: Vec<&Event> = events.iter().filter(|event| !event.read).collect();
        let quick = hits::writes(&writes, bound);
        let early = |event: &Event| quick.as_ref().is_some_and(|quick| quick.holds(event));
        let count = writes.iter().filter(|event| early(event)).count();
        self.early_writes = count as f64 / writes.len().max(1) as f64;
        let rested: Vec<&&Event> = writes.iter().filter(|event| event.pause > RESTED).collect();
        self.early_rested = match rested.len() {
            0..20 => self.early_writes,
            all => rested.iter().filter(|event| early(event)).count() as f64 / all as f64,
        };
        if let Some((constant, slope)) =
            hits::edge(writes.iter().copied().filter(|event| early(event)))
        {
            (self.early, self.early_sector) = (Some(constant), slope);
        }
        let missed = |event: &Event| if event.read { !hit(event) } else { !early(event) };
        match rotation::rotation(events, missed) {
            Ok(turn) => self.revolution = Some(turn),
            Err(why) => self.missing.push(format!("rotation: {why}")),
        }
        let far: Vec<&Event> = reads.iter().filter(|event| !hit(event)).collect();
        self.seek = position::curve(&far);
        let bus = if self.has_hits() { self.bus_sector.map_or(0.0, |bus| bus.value) } else { 0.0 };
        self.means = Means::of(&undisturbed(far, self.writes_early()), bus);
        if !self.writes_early() && !writes.is_empty() {
            self.writes_more = self.means.more(&writes);
        }
    }

    fn name_missing(&mut self) {
        if self.revolution.is_none() {
            let rpm = self.rpm();
            let known = self.missing.iter_mut().find(|line| line.starts_with("rotation: "));
            if let Some(line) = known {
                *line += &format!("; {rpm} rpm is assumed");
            }
        }
        if self.seek.len() < 2 {
            self.missing.push("seek curve: too few reads that went to the platter".into());
        }
        self.missing.push(
            "zones, tracks, heads, skews, head switch: a recording does not show them; the \
             specification has one zone and waits half a turn for every sector"
                .into(),
        );
        if self.has_cache() {
            let Guess { segments, sectors, .. } = self.guess;
            self.missing.push(format!(
                "number and size of cache segments: a recording does not show them; {segments} of \
                 {sectors} sectors are assumed, the best of those tried"
            ));
        }
        self.missing.push(
            "zero-latency reads, extent of read-ahead: a recording shows neither tracks nor angles"
                .into(),
        );
    }

    /// Reads come from a cache.
    fn has_hits(&self) -> bool {
        self.hit_share > 0.02
    }

    /// Writes are reported before they are on the platter, as a rule.
    fn writes_early(&self) -> bool {
        self.early_writes.max(self.early_rested) > EARLY
    }

    /// The specification has a cache.
    fn has_cache(&self) -> bool {
        self.has_hits() || self.writes_early()
    }

    /// The estimates, a line each.
    pub fn lines(&self) -> Vec<String> {
        let ms = |one: Estimate| format!("{:.3} ± {:.3} ms", one.value / 1e6, one.error / 1e6);
        let mut lines = vec![
            format!("requests       {} on {} sectors", self.requests, self.sectors),
            format!("cache hits     {:.1} % of reads", self.hit_share * 100.0),
            format!("early writes   {:.1} % of writes", self.early_writes * 100.0),
        ];
        if let Some(revolution) = self.revolution {
            let rpm = 60e9 / revolution.value;
            let error = rpm * revolution.error / revolution.value;
            lines.push(format!("rotation       {rpm:.2} ± {error:.2} rpm"));
        }
        if let Some(hit) = self.hit {
            lines.push(format!("hit overhead   {}", ms(hit)));
        }
        if let Some(bus) = self.bus_sector {
            let rate = 512e3 / bus.value;
            let error = rate * bus.error / bus.value;
            lines.push(format!("bus            {rate:.2} ± {error:.2} MB/s"));
        }
        for point in &self.seek {
            let Reached { sectors, ns, reads } = point;
            lines.push(format!("positioning    {} at {sectors} sectors ({reads} reads)", ms(*ns)));
        }
        let means = self.model.map(|[all, ..]| (all.measured_mean_ms, all.simulated_mean_ms));
        if let Some((Some(measured), Some(simulated))) = means {
            let share = 100.0 * (simulated - measured) / measured.max(f64::MIN_POSITIVE);
            lines.push(format!(
                "the model      {simulated:.3} ms on average for the recording's own requests, \
                 measured {measured:.3} ms ({share:+.1} %)"
            ));
        }
        lines
    }

    /// The text of a specification, with the estimates and their errors in a comment at its head.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn to_toml(&self, name: &str, summary: &str) -> Result<String, FitError> {
        let spec = self.spec(name, summary)?;
        let text = spec.to_toml().map_err(|error| FitError::Specification(error.to_string()))?;
        let mut out = String::from(
            "# Estimated from a recording by `seekless disk fit`: a rough model. Tracks are\n\
             # nominal, cache segments are assumed.\n",
        );
        for line in self.lines() {
            out += &format!("#   {line}\n");
        }
        for line in &self.missing {
            out += &format!("# Not estimated: {line}\n");
        }
        let share = self.early_writes * 100.0;
        let why = format!(
            "\n# {share:.1} % of the writes were reported sooner than the platter can have had\n\
             # them, so all of them are here; one that continues another then joins it.\nfast_write"
        );
        Ok(out + &text.replacen("\nfast_write", &why, 1))
    }
}

/// Reads whose times do not include a wait for an early-reported write. The model adds such waits
/// by itself.
fn undisturbed(reads: Vec<&Event>, early: bool) -> Vec<&Event> {
    if !early {
        return reads;
    }
    let settled = |event: &&&Event| event.after_read || event.pause > SETTLED;
    let some: Vec<&Event> = reads.iter().filter(settled).copied().collect();
    if some.len() >= 100 { some } else { reads }
}
