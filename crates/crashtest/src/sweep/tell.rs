//! A sweep as a report: counts, groups, and the story of each example.

use super::example::Found;
use super::probes::{Answer, Question};
use super::{Options, Row, Sweep, Swept};
use crate::places::Places;
use crate::replay::check::Verdict;
use crate::report::{
    Acknowledgements, Coverage, Example, Fate, Group, Kind, Moment, MomentKind, Probe, Report,
    StateRow, TapeFacts, WriteKind, WriteLine,
};
use crate::session::Session;
use crate::states::history::{self, Epoch, History};
use crate::states::names;
use crate::states::state::{self, State, ranges};
use crate::states::story::why;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Events of a timeline at most, besides writes that the cut could take.
const MOST_MOMENTS: usize = 60;

/// Bytes of a write that are looked at to tell what it is: a journal has headers.
const MOST_LOOKED_AT: usize = 4096;

/// Where writes went, in words: by their index in the history.
pub type Told = BTreeMap<usize, String>;

impl Sweep<'_> {
    /// The report, without what only the command knows: title, file system, warnings, exit code.
    pub fn report(&self, swept: &Swept, answers: &[Answer]) -> Report {
        Report {
            title: String::new(),
            file_system: None,
            acknowledgements: acknowledgements(self.session, self.options),
            tape: facts(self.session),
            // At most 4096.
            sector_bytes: self.options.bounds.sector.bytes() as u32,
            probes: answers.iter().map(probe).collect(),
            coverage: coverage(swept, self.options),
            groups: Vec::new(),
            states: Vec::new(),
            ended_by: None,
            workload_died: None,
            elapsed_s: swept.took.as_secs_f64(),
            warnings: Vec::new(),
            exit_code: 0,
        }
    }

    /// Where the writes of these groups went, in terms of the file system `kind` on each disk, of
    /// which `images` has a file.
    pub fn places(&self, groups: &[Found], kind: Option<&str>, images: &[&Path]) -> Told {
        if let Some(calls) = self.session.history().calls() {
            let of_groups = groups.iter().flat_map(|found| &found.epoch.unsettled);
            let micros = &calls.recorded().micros;
            return of_groups.map(|one| (one.write, micros[one.write].to_string())).collect();
        }
        let of_disk = |(disk, image): (usize, &&Path)| self.places_on(groups, kind, disk, image);
        images.iter().enumerate().flat_map(of_disk).collect()
    }

    fn places_on(&self, groups: &[Found], kind: Option<&str>, disk: usize, image: &Path) -> Told {
        let Some(places) = Places::of(kind, image) else { return Told::new() };
        let history = self.session.history();
        let writes = history.writes();
        let at = |index: usize| history.on_disk(writes[index].offset).1;
        let of_groups = groups.iter().flat_map(|found| &found.epoch.unsettled);
        let is_here = |index: &usize| history.on_disk(writes[*index].offset).0 == disk;
        let indices: BTreeSet<usize> = of_groups.map(|one| one.write).filter(is_here).collect();
        let range = |&index: &usize| (at(index), writes[index].length);
        places.learn(&indices.iter().map(range).collect::<Vec<_>>());
        let place = |index: usize| {
            let write = &writes[index];
            let is_short = write.length <= MOST_LOOKED_AT as u64;
            let bytes = self.session.payload(index, MOST_LOOKED_AT).ok().filter(|_| is_short);
            match bytes {
                Some(bytes) => places.describe_bytes(at(index), &bytes),
                None => places.describe(at(index), write.length),
            }
        };
        let of_disk = if disk == 0 { "" } else { " of the second disk" };
        let told = |index| Some((index, format!("{}{of_disk}", place(index)?)));
        indices.into_iter().filter_map(told).collect()
    }

    /// A group with its example; `again` gives the command that checks a state again.
    pub fn group(&self, found: &Found, places: &Told, again: &dyn Fn(&str) -> String) -> Group {
        let history = self.session.history();
        let (epoch, state) = (&found.epoch, &found.state);
        let name = state.name(history, epoch);
        let id = names::short(&name);
        let acked = history.acked(epoch.cut);
        let line = |(one, fate): (&history::Unsettled, &state::Fate)| {
            line(history, one.write, fate, epoch.cut, places.get(&one.write))
        };
        let example = Example {
            again: again(&id),
            id,
            name: name.to_string(),
            minimised: found.is_minimised,
            allowed: true,
            cut: epoch.cut,
            acked: acked.count,
            last_acked: acked.last.map(str::to_owned),
            output: found.tried.output.clone(),
            missing: None,
            why: why(history, epoch, state),
            writes: epoch.unsettled.iter().zip(&state.fates).map(line).collect(),
            durable: epoch.durable,
            timeline: self.timeline(epoch, state, places),
        };
        Group {
            signature: found.signature.clone(),
            kind: found.tried.kind,
            exit: found.tried.exit,
            states: found.states,
            first_seen: found.first_seen.clone(),
            example,
        }
    }

    /// The events before the cut since the oldest write that it could take.
    fn timeline(&self, epoch: &Epoch, state: &State, places: &Told) -> Vec<Moment> {
        let history = self.session.history();
        let mut moments: Vec<Moment> = Vec::new();
        for (one, fate) in epoch.unsettled.iter().zip(&state.fates) {
            let write = &history.writes()[one.write];
            let line = line(history, one.write, fate, epoch.cut, places.get(&one.write));
            let place = crate::report::example::place(&line);
            moments.push(Moment {
                event: write.asked,
                kind: MomentKind::Request,
                text: format!("{} {place}", word(line.kind)),
                fate: Some(line.fate),
            });
        }
        let since = moments.iter().map(|moment| moment.event).min().unwrap_or(epoch.cut);
        let marks = history.marks().iter().filter(|mark| (since..epoch.cut).contains(&mark.at));
        let marks =
            marks.map(|mark| (mark.at, MomentKind::Mark, format!("acknowledged {}", mark.value)));
        let flushes = history.flushed().filter(|at| (since..epoch.cut).contains(at));
        let flush = if history.calls().is_some() { "sync answered" } else { "flush answered" };
        let flushes = flushes.map(|at| (at, MomentKind::Flush, flush.to_owned()));
        let mut others: Vec<_> = marks.chain(flushes).collect();
        others.sort_by_key(|other| other.0);
        let from = others.len().saturating_sub(MOST_MOMENTS);
        let others = others.drain(from..);
        moments.extend(others.map(|(event, kind, text)| Moment { event, kind, text, fate: None }));
        moments.sort_by_key(|moment| moment.event);
        let (event, text) = (epoch.cut, "the power goes".to_owned());
        moments.push(Moment { event, kind: MomentKind::Cut, text, fate: None });
        moments
    }
}

/// The states of a sweep for a report, given the group of each.
pub fn states(rows: &[Row], groups: &[Option<usize>]) -> Vec<StateRow> {
    debug_assert_eq!(rows.len(), groups.len(), "a group or none for each state");
    let state = |(row, group): (&Row, &Option<usize>)| {
        let tried = row.tried.as_ref()?;
        Some(StateRow {
            id: row.name.clone(),
            name: row.name.clone(),
            cut: row.cut,
            acked: row.acked,
            kind: tried.kind,
            exit: tried.exit,
            group: *group,
            same_as: row.same_as.map(|first| rows[first].name.clone()),
        })
    };
    rows.iter().zip(groups).filter_map(state).collect()
}

fn word(kind: WriteKind) -> &'static str {
    match kind {
        WriteKind::Write => "write",
        WriteKind::Zeros => "zeros",
        WriteKind::Trim => "trim",
        WriteKind::Call => "call",
    }
}

fn acknowledgements(session: &Session, options: &Options) -> Acknowledgements {
    match (options.acknowledgements, session.history().marks().len()) {
        (false, _) => Acknowledgements::ConsistencyOnly,
        (true, 0) => Acknowledgements::NotUsed,
        (true, count) => Acknowledgements::Used { count: count as u64 },
    }
}

fn facts(session: &Session) -> TapeFacts {
    let history = session.history();
    TapeFacts {
        events: history.events(),
        writes: history.writes().len() as u64,
        flushes: history.flushed().count() as u64,
        marks: history.marks().len() as u64,
        size_bytes: history.size(),
        bytes_written: history.writes().iter().map(|write| write.length).sum(),
        has_calls: history.calls().is_some(),
    }
}

fn coverage(swept: &Swept, options: &Options) -> Coverage {
    let identical = swept.rows.iter().filter(|row| row.same_as.is_some()).count() as u64;
    Coverage {
        boundaries: swept.boundaries,
        space: swept.space,
        tried: swept.rows.len() as u64 - identical,
        identical,
        good: swept.count(Kind::Good),
        lost: swept.count(Kind::Lost),
        broken: swept.count(Kind::Broken),
        wavers: swept.count(Kind::Wavers),
        failed: swept.count(Kind::Failed),
        hung: swept.count(Kind::Hung),
        complete: swept.is_complete && options.shard.count == 1,
        share: swept.share,
        cut_short: !swept.is_complete,
        enough_percent: options.enough_percent,
        budget_s: options.budget.map(|budget| budget.as_secs_f64()),
    }
}

fn probe(answer: &Answer) -> Probe {
    Probe {
        name: answer.question.name().to_owned(),
        passed: answer.checked.verdict == Verdict::Good,
        expected: answer.question != Question::MissingData,
        output: answer.checked.output.clone(),
    }
}

/// A write that the cut could take, and what became of it.
fn line(
    history: &History,
    index: usize,
    fate: &state::Fate,
    cut: u64,
    place: Option<&String>,
) -> WriteLine {
    let write = &history.writes()[index];
    let (disk, offset) = history.on_disk(write.offset);
    let begin = write.offset - offset;
    let on_disk = |(from, to): (u64, u64)| (from - begin, to - begin);
    WriteLine {
        number: write.number,
        // One of two.
        disk: disk as u8 + 1,
        offset,
        length: write.length,
        kind: match write.kind {
            _ if history.calls().is_some() => WriteKind::Call,
            history::Kind::Data => WriteKind::Write,
            history::Kind::Zeros => WriteKind::Zeros,
            history::Kind::Trim => WriteKind::Trim,
        },
        fua: write.fua,
        answered: write.answered.is_some_and(|at| at < cut),
        fate: match fate {
            state::Fate::Kept => Fate::Kept,
            state::Fate::Lost => Fate::Lost,
            state::Fate::Torn(_) => Fate::Torn,
        },
        kept_ranges: match fate {
            state::Fate::Torn(_) => ranges(write, fate).into_iter().map(on_disk).collect(),
            state::Fate::Kept | state::Fate::Lost => Vec::new(),
        },
        place: place.cloned(),
    }
}
