//! Why a power cut may leave a state: a rule that the model lacks, or an acknowledgement that came
//! before what it rests on was durable; and the sync that a program left out.

use super::micro::{Change, Micro, NameChange, ObjectId, TOP};
use super::needs::Modelled;
use super::rules::Rule;
use std::sync::Arc;

/// Parts of a path that a story shows at most.
const MOST_PARTS: usize = 64;
/// From this rank on the changes of a pair have little to do with one another.
const UNRELATED: u8 = 3;

/// The reason for a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A later micro-operation is on the disk, and an earlier one is not.
    Order {
        /// The later one.
        there: usize,
        /// The earlier one.
        lost: usize,
        /// What the model does, as in `ext4 writes the pages of a file in any order`.
        reason: String,
    },
    /// A value was acknowledged when a micro-operation was complete, but not durable.
    Early {
        /// The value.
        value: Arc<str>,
        /// The micro-operation, which is lost.
        lost: usize,
    },
}

/// The sync that would have made a micro-operation durable. Paths go from the top, which is `.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingSync {
    /// Of a file.
    File(String),
    /// Of a directory.
    Directory(String),
}

impl Modelled {
    /// Why a state is there in which the power went right before entry `cut`. `pending` is what
    /// the cut could take, in order.
    pub fn why(&self, cut: u64, pending: &[usize], is_kept: impl Fn(usize) -> bool) -> Option<Why> {
        let (there, lost): (Vec<usize>, Vec<usize>) =
            pending.iter().partition(|&&index| is_kept(index));
        let found = self.by_rule(&there, &lost).or_else(|| self.by_kind(&there, &lost));
        let is_close = matches!(found, Some((rank, _)) if rank < UNRELATED);
        let early = if is_close { None } else { self.too_early(cut, &lost) };
        early.or(found.map(|(_, why)| why))
    }

    /// The sync that would have made a micro-operation durable.
    pub fn missing_sync(&self, micro: usize) -> MissingSync {
        let micros = &self.recorded().micros[..=micro];
        match &micros[micro].change {
            Change::Names { sets, .. } => {
                let directory = sets.last().map_or(TOP, |set| set.directory);
                MissingSync::Directory(path(micros, directory))
            }
            change => MissingSync::File(path(micros, change.object().unwrap_or(TOP))),
        }
    }

    /// A pair that a rule forbids which the model lacks.
    fn by_rule(&self, there: &[usize], lost: &[usize]) -> Option<(u8, Why)> {
        let model = self.model();
        Rule::OPTIONAL.into_iter().filter(|&rule| !model.has(rule)).find_map(|rule| {
            let stronger = Modelled::new(Arc::clone(self.recorded()), model.with(rule));
            there.iter().find_map(|&there| {
                let is_lost = |micro: u32| lost.binary_search(&(micro as usize)).is_ok();
                let mut needs = stronger.needs(there).iter();
                let need = needs.find(|need| need.rule == rule && is_lost(need.micro))?;
                let reason = format!("{} does not {rule}", model.name);
                Some((0, Why::Order { there, lost: need.micro as usize, reason }))
            })
        })
    }

    /// The pair whose changes have most to do with one another.
    fn by_kind(&self, there: &[usize], lost: &[usize]) -> Option<(u8, Why)> {
        let micros = &self.recorded().micros;
        let pairs = there.iter().flat_map(|&there| {
            lost.iter().take_while(move |&&lost| lost < there).map(move |&lost| (there, lost))
        });
        let ranked =
            pairs.map(|(there, lost)| (relation(&micros[there], &micros[lost]), there, lost));
        let ((rank, reason), there, lost) = ranked.min_by_key(|((rank, _), ..)| *rank)?;
        let reason = format!("{} {reason}", self.model().name);
        Some((rank, Why::Order { there, lost, reason }))
    }

    /// The last acknowledgement before the cut, and the last change that is lost of those that
    /// were complete then.
    fn too_early(&self, cut: u64, lost: &[usize]) -> Option<Why> {
        let recorded = self.recorded();
        let acked = recorded.marks.partition_point(|mark| mark.at < cut);
        let mark = recorded.marks[..acked].last()?;
        let is_owed = |&&index: &&usize| recorded.micros[index].is_complete_at(mark.at);
        let lost = *lost.iter().rfind(is_owed)?;
        Some(Why::Early { value: Arc::clone(&mark.value), lost })
    }
}

/// How a later change and an earlier one are related, the most telling first.
fn relation(there: &Micro, lost: &Micro) -> (u8, &'static str) {
    let object = lost.change.object();
    match &there.change {
        Change::Names { sets, .. }
            if object.is_some() && sets.iter().any(|set| set.object == object) =>
        {
            (0, "writes a new name without waiting for the content of the file")
        }
        Change::SetSize { object: of, .. } if object == Some(*of) => {
            (1, "writes a set size without waiting for the bytes of the file")
        }
        change if object.is_some() && change.object() == object => {
            (2, "writes the pages of a file in any order")
        }
        _ => (UNRELATED, "writes different files and names in any order"),
    }
}

/// The path of an object after these changes.
fn path(micros: &[Micro], object: ObjectId) -> String {
    let named = |at: ObjectId| -> Option<&NameChange> {
        micros.iter().rev().find_map(|micro| match &micro.change {
            Change::Names { sets, .. } => sets.iter().find(|set| set.object == Some(at)),
            _ => None,
        })
    };
    let mut parts: Vec<String> = Vec::new();
    let mut at = object;
    while let (Some(set), true) = (named(at), parts.len() < MOST_PARTS) {
        parts.push(String::from_utf8_lossy(&set.name).into_owned());
        at = set.directory;
    }
    parts.reverse();
    match (parts.is_empty(), object) {
        (true, TOP) => ".".to_owned(),
        (true, _) => "a file without a name".to_owned(),
        (false, _) => parts.join("/"),
    }
}
