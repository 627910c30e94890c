//! The client of a log, and the judge of the records that a crash has left.
//!
//! The client waits for each answer before it asks again. A cut within a call is judged with what
//! the client knew before it.

use super::request::LogRequest;
use super::volume::{Answer, Call, LogVolume, Open, Reply};
use crate::oracle::{Allowance, Excuse, Heard, Oracle, Send};
use crate::rules::{Complaint, Rule, complain};
use crate::violation::{Sort, Wrong};
use seekless_engine::checksum::mix;
use seekless_engine::rng::Rng;
use seekless_formats::log::{Error, Lsn, Records, Stat};
use std::rc::Rc;

/// A record, as the judge tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct One {
    /// None while its append is not answered.
    at: Option<Lsn>,
    length: u32,
    print: u64,
}

impl One {
    fn of(at: Option<Lsn>, bytes: &[u8]) -> One {
        let print = bytes.chunks(8).fold(bytes.len() as u64, |print, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(print ^ u64::from_le_bytes(word))
        });
        One { at, length: bytes.len() as u32, print }
    }

    /// True if a record that was found is this one.
    fn is(&self, found: &One) -> bool {
        (self.length, self.print) == (found.length, found.print)
            && (self.at.is_none() || self.at == found.at)
    }

    /// A sector number behind it, at least; 480 bytes of payload are in each.
    fn end(&self) -> u64 {
        let at = self.at.map_or(u64::MAX / 2, Lsn::number);
        at + 1 + (u64::from(self.length) + 60).div_ceil(480)
    }
}

/// The records of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    records: Rc<Vec<One>>,
    /// The number of the sector that is damaged.
    damage: Option<u64>,
}

/// The client.
#[derive(Debug, Default)]
pub struct LogOracle {
    /// All records of the epoch that the client knows of, in order, with the numbers of their
    /// operations.
    records: Vec<(One, u32)>,
    /// The request that is not answered, and its operation.
    waits: Option<(Call, u32)>,
    /// So many records are gone.
    trimmed: usize,
    /// So many are gone if a trim that is under way, or has failed, is carried out.
    trimming: Vec<usize>,
    /// So many are durable.
    durable: usize,
    /// So many are durable, and something that was written later says so.
    attested: usize,
    revision: u64,
}

/// The bytes of a record.
fn content(operation: u32, length: u32) -> Vec<u8> {
    let mut rng = Rng::stream(u64::from(operation), "record");
    let mut bytes = Vec::with_capacity(length as usize + 8);
    while bytes.len() < length as usize {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}

/// All records, up to an error.
fn all(records: Records<'_>) -> (Vec<One>, Option<Error>) {
    let (mut found, mut failed) = (Vec::new(), None);
    for record in records {
        match record {
            Ok((at, bytes)) => found.push(One::of(Some(at), &bytes)),
            Err(error) => failed = Some(error),
        }
    }
    (found, failed)
}

impl LogOracle {
    /// The record behind a share of those that are there, up to the one with the number `end`.
    fn behind(&self, share: u8, end: usize) -> usize {
        let live = end.saturating_sub(self.trimmed);
        self.trimmed + live * usize::from(share) / 100
    }

    fn call(&mut self, request: LogRequest, operation: u32) -> Call {
        let at = |index: usize| self.records.get(index).and_then(|(one, _)| one.at);
        match request {
            LogRequest::Append(length) => Call::Append(content(operation, length)),
            LogRequest::Sync => Call::Sync,
            LogRequest::Trim(share) => {
                let index = self.behind(share, self.records.len());
                let to = at(index);
                self.trimming.push(index);
                Call::Trim(to)
            }
            LogRequest::Read(share) => {
                let index = self.behind(share, self.durable);
                let at = at(index).filter(|_| index < self.durable);
                at.map_or(Call::Sync, Call::Read)
            }
        }
    }

    /// All records that were appended are durable.
    fn synced(&mut self) {
        if self.records.len() > self.durable {
            self.attested = self.attested.max(self.durable);
            self.durable = self.records.len();
        }
    }

    /// The number of the record that was found first, if those found follow each other from there.
    fn place(&self, found: &[One]) -> Option<usize> {
        let waits = match &self.waits {
            Some((Call::Append(bytes), _)) => Some(One::of(None, bytes)),
            _ => None,
        };
        let known = || self.records.iter().map(|(one, _)| *one).chain(waits);
        let starts = self.trimming.iter().copied().chain([self.trimmed]);
        let follows = |start: &usize| {
            let mut known = known().skip(*start);
            found.iter().all(|one| known.next().is_some_and(|known| known.is(one)))
        };
        // Of no records both are right.
        starts.filter(follows).max()
    }

    /// Records that must be there, up to this one.
    fn least(&self, found: &Contents, allowance: Allowance) -> usize {
        let in_front = |number: u64| {
            let whole = self.records[..self.durable].iter().skip(self.trimmed);
            self.trimmed + whole.take_while(|(one, _)| one.end() <= number).count()
        };
        match found.damage {
            Some(number) if allowance.is_damaged() => in_front(number),
            None if allowance.is_damaged() => self.attested,
            _ => self.durable,
        }
    }

    fn wrong(&self, reply: &Reply, excuse: Excuse) -> Option<Wrong> {
        let (call, _) = self.waits.as_ref()?;
        let refused = |error: &Error| {
            Rule::ChangeAnswered.wrong(Sort::Refusal, format!("{call:.40?} fails: {error}"))
        };
        match (&reply.result, call) {
            (Err(Error::Full), Call::Append(bytes)) => {
                let Stat { size, used, .. } = reply.stat?;
                let has_space = used + 2 * bytes.len() as u64 + size / 4 < size;
                has_space.then(|| refused(&Error::Full))
            }
            (Err(error), _) => (!excuse.refuses).then(|| refused(error)),
            (Ok(Answer::Read(bytes)), Call::Read(at)) => {
                let found = One::of(Some(*at), bytes);
                let known = self.records.iter().any(|(one, _)| *one == found);
                let wrong = || format!("the record at {at} reads back as another one");
                (!known).then(|| Rule::LogPrefix.wrong(Sort::Read, wrong()))
            }
            _ => None,
        }
    }
}

impl Oracle for LogOracle {
    type Request = LogRequest;
    type Volume = LogVolume;
    type Content = Contents;

    fn mounted(&mut self, _volume: &LogVolume) {}

    fn send(&mut self, send: Send<'_, LogRequest>, volume: &mut LogVolume) {
        let call = self.call(send.request, send.operation);
        self.revision += 1;
        self.waits = Some((call.clone(), send.operation));
        volume.send(call);
    }

    fn hear(&mut self, reply: Reply, _volume: &LogVolume, excuse: Excuse) -> Option<Wrong> {
        let wrong = self.wrong(&reply, excuse);
        let (call, operation) = self.waits.take()?;
        self.revision += 1;
        match (reply.result, call) {
            (Ok(Answer::Appended(at)), Call::Append(bytes)) => {
                self.records.push((One::of(Some(at), &bytes), operation));
            }
            (Ok(_), Call::Sync) => self.synced(),
            (Ok(_), Call::Trim(_)) => {
                self.durable = self.records.len();
                self.attested = self.durable;
                self.trimmed = self.trimming.pop().unwrap_or(self.trimmed);
                self.trimming.clear();
            }
            // It may be carried out or not.
            (Err(_), Call::Trim(_)) => {}
            (Err(Error::Full | Error::TooLong { .. }), _) => {}
            // The record may be there.
            (Err(_), Call::Append(bytes)) => {
                self.records.push((One::of(None, &bytes), operation));
            }
            _ => {}
        }
        wrong
    }

    fn is_ready(&self) -> bool {
        self.waits.is_none()
    }

    fn stopped(&mut self) {
        self.revision += 1;
        self.durable = self.records.len();
        self.attested = self.durable;
    }

    fn waiting(&self) -> usize {
        usize::from(self.waits.is_some())
    }

    fn heard(&self) -> Heard {
        let numbers = |records: &[(One, u32)]| records.iter().map(|(_, number)| *number).collect();
        let (durable, others) = self.records.split_at(self.durable);
        Heard { durable: numbers(durable), acknowledged: numbers(others) }
    }

    fn revision(&self) -> u64 {
        self.revision + 1
    }

    fn restart(&mut self, found: &Contents) {
        let from = self.place(&found.records).unwrap_or(self.trimmed);
        let number = |index: usize| self.records.get(index).map_or(u32::MAX, |(_, number)| *number);
        let numbers: Vec<u32> = (from..from + found.records.len()).map(number).collect();
        *self = LogOracle {
            records: found.records.iter().copied().zip(numbers).collect(),
            durable: found.records.len(),
            attested: self.attested.saturating_sub(from).min(found.records.len()),
            revision: self.revision + 1,
            ..LogOracle::default()
        };
    }

    fn read(&mut self, volume: &mut LogVolume) -> Result<Contents, String> {
        let (records, failed, damage) = match &mut volume.open {
            Open::Writer(log) => {
                let (records, failed) = all(log.records(Lsn(0)));
                (records, failed, None)
            }
            Open::Reader(reader) => {
                let damage = reader.damage().cloned();
                let (records, failed) = all(reader.records(Lsn(0)));
                (records, failed, damage)
            }
            Open::Closed => return Err("it is closed".to_owned()),
        };
        match failed {
            Some(error) => Err(error.to_string()),
            None => {
                let damage = damage.map(|damage| damage.damaged_sector().unwrap_or(0));
                Ok(Contents { records: records.into(), damage })
            }
        }
    }

    fn read_what_can_be(&mut self, volume: &mut LogVolume) -> Contents {
        let unread = Contents { records: Rc::default(), damage: Some(0) };
        self.read(volume).unwrap_or(unread)
    }

    fn print(found: &Contents) -> u64 {
        let damage = found.damage.map_or(0, |number| mix(number + 1));
        found
            .records
            .iter()
            .fold(damage, |print, one| mix(print ^ one.print ^ one.at.map_or(0, |at| at.0)))
    }

    fn judge(&self, found: &Contents, allowance: Allowance) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        if let Some(number) = found.damage.filter(|_| !allowance.is_damaged()) {
            complain(&mut complaints, Rule::LogDurable, || {
                format!("sector {number} counts as damaged, and nothing was")
            });
        }
        let count = found.records.len();
        let Some(first) = self.place(&found.records) else {
            complain(&mut complaints, Rule::LogPrefix, || {
                format!("the {count} records found are not those behind {} trimmed", self.trimmed)
            });
            return complaints;
        };
        let least = self.least(found, allowance);
        if first + count < least {
            complain(&mut complaints, Rule::LogDurable, || {
                format!("{count} records are there, behind {first} trimmed: {least} are durable")
            });
        }
        complaints
    }

    fn differs(&self, found: &Contents, expected: &Contents, errors: bool) -> Option<String> {
        let (shown, whole) = (found.records.len(), expected.records.len());
        let in_front =
            |number: u64| expected.records.iter().take_while(|one| one.end() <= number).count();
        let least = match found.damage {
            Some(number) if errors => in_front(number),
            _ if found.damage != expected.damage => return Some("damage is told".to_owned()),
            _ => whole,
        };
        let is_prefix = expected.records.starts_with(&found.records);
        (shown < least || !is_prefix)
            .then(|| format!("{shown} records are there, of {whole}, and not the first {least}"))
    }

    fn exercise(&self, volume: &mut LogVolume, rng: &mut Rng) -> Vec<Complaint> {
        let bytes = content(u32::MAX, rng.below(2000) as u32);
        let mut appended = volume.call(Call::Append(bytes.clone())).result;
        if appended == Err(Error::Full) {
            let trimmed = volume.call(Call::Trim(None)).result;
            if trimmed == Ok(Answer::Done) {
                appended = volume.call(Call::Append(bytes.clone())).result;
            }
        }
        let synced = volume.call(Call::Sync).result;
        let read = match &appended {
            Ok(Answer::Appended(at)) => volume.call(Call::Read(*at)).result,
            _ => Ok(Answer::Done),
        };
        let mut complaints = Vec::new();
        if synced != Ok(Answer::Done) || read != Ok(Answer::Read(bytes)) {
            complain(&mut complaints, Rule::Works, || {
                format!("append {appended:?}, sync {synced:?}, and the record is not read back")
            });
        }
        complaints
    }
}
