//! Whether a model allows a tree, for recordings that have too many states to try.
//!
//! A search goes from the last micro-operation to the first. The last one that is kept of those
//! that touch a byte, an attribute or a size decides what the tree shows there, so most of them
//! leave no choice. Names come first: they say which objects the tree shows. A set that is found
//! is applied, and its tree compared, so the search errs on one side only: by finding nothing.

use super::every::cuts;
use super::shown::{Part, Shown, shown};
use seekless_calls::model::{Change, Kept, Modelled, ObjectId, Tree, Trees};
use std::collections::BTreeMap;
use std::ops::Range;

/// True if a power cut behind so many acknowledgements may leave the tree.
pub fn allows(modelled: &Modelled, acked: usize, wanted: &Shown) -> bool {
    let cuts = cuts(modelled).into_iter().filter(|(count, _)| *count == acked);
    cuts.into_iter().any(|(_, trees)| Search::new(modelled, &trees, wanted).finds())
}

/// The search at one cut.
struct Search<'a> {
    modelled: &'a Modelled,
    wanted: &'a Shown,
    durable: Kept,
    /// What is durable or pending, in order.
    present: Vec<usize>,
    /// Which paths show an object, for the names that are tried.
    seen: BTreeMap<ObjectId, &'a Part>,
}

/// A set on the way: what is in it, and what was decided last to first.
#[derive(Clone)]
struct Set {
    /// With all that its members need.
    kept: Kept,
    /// Members that were decided, the last one first.
    decided: Vec<usize>,
}

/// What may be done with a micro-operation.
enum Choice {
    Keep,
    Leave,
    Both,
    Neither,
}

impl<'a> Search<'a> {
    fn new(modelled: &'a Modelled, trees: &Trees<'_>, wanted: &'a Shown) -> Search<'a> {
        let durable = trees.durable().clone();
        let mut present: Vec<usize> =
            durable.iter().chain(trees.pending().iter().copied()).collect();
        present.sort_unstable();
        Search { modelled, wanted, durable, present, seen: BTreeMap::new() }
    }

    fn change(&self, micro: usize) -> &'a Change {
        &self.modelled.recorded().micros[micro].change
    }

    fn names(&self, micro: usize) -> bool {
        matches!(self.change(micro), Change::Names { .. })
    }

    /// Tries the names that may be there.
    fn finds(mut self) -> bool {
        let names: Vec<usize> =
            self.present.iter().copied().filter(|&micro| self.names(micro)).collect();
        let mut left = vec![(self.durable.clone(), Vec::<usize>::new(), 0)];
        while let Some((kept, left_out, at)) = left.pop() {
            let Some(&micro) = names.get(at) else {
                if let Some(seen) = self.shows(&kept) {
                    self.seen = seen;
                    let set = Set { kept, decided: Vec::new() };
                    if self.descend(set, self.present.len()) {
                        return true;
                    }
                }
                continue;
            };
            let mut with = kept.clone();
            self.modelled.add(&mut with, [micro]);
            if !kept.contains(micro) {
                let mut without = left_out.clone();
                without.push(micro);
                left.push((kept, without, at + 1));
            }
            if left_out.iter().all(|&micro| !with.contains(micro)) {
                left.push((with, left_out, at + 1));
            }
        }
        false
    }

    /// What the tree shows of each object, if these names give its paths.
    fn shows(&self, kept: &Kept) -> Option<BTreeMap<ObjectId, &'a Part>> {
        let mut tree = Tree::new(self.modelled.recorded().objects.clone());
        let names = self.present.iter().filter(|&&micro| kept.contains(micro) && self.names(micro));
        names.for_each(|&micro| tree.apply(self.change(micro)));
        let now = shown(&tree);
        let kind = |part: &Part| match part {
            Part::File { .. } => {
                Part::File { bytes: Vec::new(), mode: 0, extended: BTreeMap::new() }
            }
            Part::Directory { .. } => Part::Directory { mode: 0, extended: BTreeMap::new() },
            other => other.clone(),
        };
        let is_same = now.len() == self.wanted.len()
            && now
                .iter()
                .zip(self.wanted)
                .all(|((path, part), (other, wanted))| path == other && kind(part) == kind(wanted));
        is_same.then_some(())?;
        let object = |(path, part): (&String, &'a Part)| {
            let is_link = matches!(part, Part::Link(_));
            let object = tree.find(path.as_bytes()).filter(|_| !is_link)?;
            Some((object, part))
        };
        Some(self.wanted.iter().filter_map(object).collect())
    }

    /// Decides what comes before this place.
    fn descend(&self, mut set: Set, mut at: usize) -> bool {
        while at > 0 {
            at -= 1;
            let micro = self.present[at];
            if self.names(micro) {
                continue;
            }
            match self.choice(micro, &set) {
                Choice::Neither => return false,
                Choice::Leave => {}
                Choice::Keep => match self.with(set, micro) {
                    Some(with) => set = with,
                    None => return false,
                },
                Choice::Both => {
                    if self.with(set.clone(), micro).is_some_and(|with| self.descend(with, at)) {
                        return true;
                    }
                }
            }
        }
        let mut tree = Tree::new(self.modelled.recorded().objects.clone());
        set.kept.iter().for_each(|micro| tree.apply(self.change(micro)));
        debug_assert!(self.modelled.is_closed(&set.kept), "the needs were added");
        shown(&tree) == *self.wanted
    }

    /// The set with one more, if that needs no name that is left out.
    fn with(&self, mut set: Set, micro: usize) -> Option<Set> {
        let before = set.kept.clone();
        self.modelled.add(&mut set.kept, [micro]);
        set.decided.push(micro);
        let is_new_name = |&micro: &usize| self.names(micro) && !before.contains(micro);
        let adds_name = set.kept.iter().any(|micro| is_new_name(&micro));
        (!adds_name).then_some(set)
    }

    fn choice(&self, micro: usize, set: &Set) -> Choice {
        match (set.kept.contains(micro), self.effect(micro, set)) {
            (true, Effect::Wrong) => Choice::Neither,
            (true, _) | (false, Effect::Needed) => Choice::Keep,
            (false, Effect::Wrong | Effect::None) => Choice::Leave,
            (false, Effect::Right) => Choice::Both,
        }
    }

    /// What keeping a micro-operation does to what the tree shows.
    fn effect(&self, micro: usize, set: &Set) -> Effect {
        let change = self.change(micro);
        let shown = change.object().and_then(|object| Some((object, *self.seen.get(&object)?)));
        let Some((object, part)) = shown else { return Effect::None };
        let later = || {
            let changes = set.decided.iter().map(|&later| self.change(later));
            changes.filter(move |later| later.object() == Some(object))
        };
        let (now, more) = match part {
            Part::File { mode, extended, .. } | Part::Directory { mode, extended } => {
                (*mode, extended)
            }
            Part::Symlink(_) | Part::Link(_) => return Effect::Right,
        };
        let bytes = match part {
            Part::File { bytes, .. } => bytes.as_slice(),
            _ => &[],
        };
        let size = bytes.len() as u64;
        let is_cut =
            |change: &Change| matches!(change, Change::SetSize { from, to, .. } if to < from);
        match change {
            Change::Names { .. } => Effect::None,
            Change::Attributes { set, .. } => {
                let is_over = later().any(
                    |later| matches!(later, Change::Attributes { set, .. } if set.mode.is_some()),
                );
                match set.mode {
                    None => Effect::Right,
                    Some(_) if is_over => Effect::None,
                    Some(mode) if mode == now => Effect::Right,
                    Some(_) => Effect::Wrong,
                }
            }
            Change::Attribute { name, value, .. } => {
                let is_over = later().any(
                    |later| matches!(later, Change::Attribute { name: other, .. } if other == name),
                );
                match more.get(name) == value.as_ref() {
                    _ if is_over => Effect::None,
                    true => Effect::Right,
                    false => Effect::Wrong,
                }
            }
            Change::Page { at, data, .. } => {
                let left = left(*at..*at + data.len() as u64, size, later());
                let holds =
                    |at: u64| bytes[at as usize] == data[(at - change_start(change)) as usize];
                if left.is_empty() {
                    return Effect::None;
                }
                if !left.iter().all(|range| range.clone().all(holds)) {
                    return Effect::Wrong;
                }
                // No earlier change gives a byte that the tree shows: this one does.
                let earlier: Vec<&Change> = self
                    .present
                    .iter()
                    .take_while(|&&earlier| earlier < micro)
                    .map(|&earlier| self.change(earlier))
                    .filter(|earlier| earlier.object() == Some(object))
                    .collect();
                let comes_earlier = |at: u64| {
                    let byte = bytes[at as usize];
                    byte == 0 || earlier.iter().any(|earlier| writes(earlier, at) == Some(byte))
                };
                match left.iter().all(|range| range.clone().all(comes_earlier)) {
                    true => Effect::Right,
                    false => Effect::Needed,
                }
            }
            Change::Zeros { from, to, .. } => {
                let left = left(*from..*to, size, later());
                let is_zero = |at: u64| bytes[at as usize] == 0;
                match left.iter().all(|range| range.clone().all(is_zero)) {
                    _ if left.is_empty() => Effect::None,
                    true => Effect::Right,
                    false => Effect::Wrong,
                }
            }
            Change::Grow { to, .. } | Change::SetSize { to, .. } if !is_cut(change) => {
                match to.cmp(&size) {
                    _ if later().any(is_cut) => Effect::None,
                    std::cmp::Ordering::Less => Effect::None,
                    std::cmp::Ordering::Equal => Effect::Right,
                    std::cmp::Ordering::Greater => Effect::Wrong,
                }
            }
            Change::Grow { to, .. } | Change::SetSize { to, .. } => {
                let is_last = !later().any(is_cut);
                let is_grown = later().any(|later| match later {
                    Change::Grow { to, .. } | Change::SetSize { to, .. } => *to == size,
                    _ => false,
                });
                let left = left(*to..u64::MAX, size, later());
                let is_zero = |at: u64| bytes[at as usize] == 0;
                let is_right = !is_last || *to == size || *to < size && is_grown;
                match is_right && left.iter().all(|range| range.clone().all(is_zero)) {
                    true => Effect::Right,
                    false => Effect::Wrong,
                }
            }
        }
    }
}

/// What keeping a micro-operation does.
enum Effect {
    /// Nothing that the tree shows.
    None,
    /// It shows what it should, as the micro-operations before may do, too.
    Right,
    /// It shows what it should, and no earlier one can.
    Needed,
    /// It shows something else.
    Wrong,
}

fn change_start(change: &Change) -> u64 {
    match change {
        Change::Page { at, .. } => *at,
        _ => 0,
    }
}

/// The byte that a change writes at a place.
fn writes(change: &Change, at: u64) -> Option<u8> {
    match change {
        Change::Page { at: from, data, .. } => data.get(at.checked_sub(*from)? as usize).copied(),
        _ => None,
    }
}

/// The parts of a range within the size that no later change decides.
fn left<'c>(
    range: Range<u64>,
    size: u64,
    later: impl Iterator<Item = &'c Change>,
) -> Vec<Range<u64>> {
    let mut left: Vec<Range<u64>> = Vec::new();
    left.extend(Some(range.start..range.end.min(size)).filter(|range| !range.is_empty()));
    for change in later {
        let over = match change {
            Change::Page { at, data, .. } => *at..*at + data.len() as u64,
            Change::Zeros { from, to, .. } => *from..*to,
            Change::SetSize { from, to, .. } if to < from => *to..u64::MAX,
            _ => continue,
        };
        let parts = left.into_iter().flat_map(|range| {
            [range.start..range.end.min(over.start), range.start.max(over.end)..range.end]
        });
        left = parts.filter(|range| !range.is_empty()).collect();
    }
    left
}
