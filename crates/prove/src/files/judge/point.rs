//! One point in time: where the policy promises it, names, attributes and sizes are together what
//! they were after one of the operations.
//!
//! Each value that was found held from the change that made it to the one that superseded it. All
//! values must share a moment. Moments are counted twice as fine as changes: change *c* is complete
//! at 2*c*, and an operation of several steps is on the way at 2*c* - 1.

use super::Judge;
use crate::files::tree::Body;
use crate::files::versions::{Change, Versions};
use crate::rules::Rule;

/// A moment.
pub(super) type Moment = u64;

/// Moments at which something held, by their first and last ones.
pub(super) type Spans = Vec<(Moment, Moment)>;

/// When a value held that satisfies `is`; on the way from one version to the next if `between`.
pub(super) fn spans<T: Clone + PartialEq>(
    versions: &Versions<T>,
    is: impl Fn(&T) -> bool,
    between: impl Fn(&T, &T) -> bool,
) -> Spans {
    let at = |change: Change| 2 * u64::from(change);
    let all: Vec<(Change, &T, Option<Change>)> = versions.spans().collect();
    let mut spans: Spans = Vec::new();
    for (index, &(change, value, next)) in all.iter().enumerate() {
        // Before its first version a value was something that is past.
        let from = if index == 0 { 0 } else { at(change) };
        if is(value) {
            spans.push((from, next.map_or(Moment::MAX, |next| at(next) - 1)));
        }
        if let (Some(next), Some(&(_, later, _))) = (next, all.get(index + 1))
            && between(value, later)
        {
            spans.push((at(next) - 1, at(next) - 1));
        }
    }
    spans
}

/// The moments that two have in common.
fn common(one: &Spans, other: &Spans) -> Spans {
    let mut both: Spans = Vec::new();
    for &(from, to) in one {
        let with = other.iter().map(|&(begin, end)| (from.max(begin), to.min(end)));
        both.extend(with.filter(|(from, to)| from <= to));
    }
    both
}

impl Judge<'_> {
    /// Names, attributes and sizes are those of one point in time; content, too, where the policy
    /// promises it.
    pub(super) fn point(&mut self) {
        if !self.rules.is_one_point() || !self.wrong.is_empty() {
            return;
        }
        let mut moments: Spans = vec![(0, Moment::MAX)];
        let mut before: Option<(String, Spans)> = None;
        for (what, spans) in self.found_values() {
            let both = common(&moments, &spans);
            if both.is_empty() {
                let (first, held) = before.unwrap_or_default();
                self.say(Rule::OnePoint, |_| {
                    format!(
                        "{what} is of the moments {spans:?}, and {first} of {held:?}: no point in \
                         time has both"
                    )
                });
                return;
            }
            if both != moments {
                before = Some((what, both.clone()));
            }
            moments = both;
        }
    }

    /// Each value of a known object, and when it held.
    fn found_values(&self) -> Vec<(String, Spans)> {
        let mut values = Vec::new();
        for (&ino, &object) in &self.objects {
            let Some(found) = self.tree.objects.get(&ino) else { continue };
            let record = self.world.record(object);
            let path = self.path(ino);
            let attrs = spans(&record.attrs, |attrs| *attrs == found.attrs, |_, _| false);
            values.push((format!("the mode of {path}"), attrs));
            match &found.body {
                Body::File(_) => {
                    let size = found.size;
                    let on_the_way =
                        |&from: &u64, &to: &u64| (from.min(to)..=from.max(to)).contains(&size);
                    values.push((
                        format!("the size of {path}"),
                        spans(&record.size, |one| *one == size, on_the_way),
                    ));
                    if self.rules.has_content_at_point() {
                        let sectors = self.content_values(object, found).into_iter();
                        let sectors = sectors
                            .map(|(sector, held)| (format!("sector {sector} of {path}"), held));
                        values.extend(sectors);
                    }
                }
                Body::Directory(names, _) => {
                    for (name, versions) in &record.entries {
                        let leads_to = names.get(name).and_then(|ino| self.objects.get(ino));
                        let held = spans(versions, |one| one.as_ref() == leads_to, |_, _| false);
                        values.push((format!("the name {}", self.path_in(ino, *name)), held));
                    }
                }
                Body::Symlink(_) | Body::Special => {}
            }
        }
        values
    }
}
