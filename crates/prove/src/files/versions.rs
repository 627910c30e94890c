//! The versions of one value: a name, a size, a sector.
//!
//! A version is *past* once a later one is durable. What a crash leaves is a version that is not
//! past.

/// Number of a change; 0 made what an epoch began with.
pub type Change = u32;

/// All versions of a value, from the last one that is durable on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions<T> {
    list: Vec<(Change, T)>,
    /// The first one is known to be durable.
    settled: bool,
}

impl<T: Clone + PartialEq> Versions<T> {
    /// A value that is durable.
    pub fn durable(value: T) -> Versions<T> {
        Versions { list: vec![(0, value)], settled: true }
    }

    /// A value that a change makes.
    pub fn new(change: Change, value: T) -> Versions<T> {
        Versions { list: vec![(change, value)], settled: false }
    }

    /// A change makes a new version.
    pub fn push(&mut self, change: Change, value: T) {
        self.list.push((change, value));
    }

    /// A change did not happen; false if no version is left.
    pub fn withdraw(&mut self, change: Change) -> bool {
        self.list.retain(|(made, _)| *made != change);
        !self.list.is_empty()
    }

    /// Everything up to a change is durable: what it superseded is past.
    pub fn settle(&mut self, upto: Change) {
        if let Some(last) = self.list.iter().rposition(|(change, _)| *change <= upto) {
            self.list.drain(..last);
            self.settled = true;
        }
    }

    /// The newest version.
    pub fn last(&self) -> &T {
        &self.list.last().expect("there is always a version").1
    }

    /// The value, if it is durable and nothing has changed it.
    pub fn only(&self) -> Option<&T> {
        match &self.list[..] {
            [(_, value)] if self.settled => Some(value),
            _ => None,
        }
    }

    /// True if some version of it is known to be durable, and a crash leaves that one or a later
    /// one.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Versions that are not past.
    pub fn possible(&self) -> impl Iterator<Item = &T> {
        self.list.iter().map(|(_, value)| value)
    }

    /// The same with the changes that made them.
    pub fn made(&self) -> impl Iterator<Item = (Change, &T)> {
        self.list.iter().map(|(change, value)| (*change, value))
    }

    /// For each version that is not past: the change that made it, the value, and the change that
    /// superseded it.
    pub fn spans(&self) -> impl Iterator<Item = (Change, &T, Option<Change>)> {
        let next = self.list.iter().skip(1).map(|(change, _)| Some(*change));
        let next = next.chain([None]);
        self.list.iter().zip(next).map(|((change, value), next)| (*change, value, next))
    }

    /// Neighbours among the versions that are not past.
    pub fn steps(&self) -> impl Iterator<Item = (&T, &T)> {
        self.list.windows(2).map(|pair| (&pair[0].1, &pair[1].1))
    }

    /// True if a crash may leave this value.
    pub fn allows(&self, value: &T) -> bool {
        self.possible().any(|one| one == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_superseded_durably_is_past() {
        let mut versions = Versions::durable(0);
        versions.push(3, 30);
        versions.push(5, 50);
        assert!([0, 30, 50].iter().all(|value| versions.allows(value)));
        versions.settle(4);
        assert!(!versions.allows(&0) && versions.allows(&30) && versions.only().is_none());
        versions.settle(2);
        assert!(versions.allows(&30), "an older one changes nothing");
        versions.settle(5);
        assert_eq!(versions.only(), Some(&50));
        versions.push(6, 60);
        assert!(versions.withdraw(6) && versions.only() == Some(&50));
    }

    #[test]
    fn a_value_is_not_durable_before_it_is_said() {
        let mut versions = Versions::new(2, "a");
        assert!(versions.only().is_none() && versions.allows(&"a"));
        versions.settle(1);
        assert!(versions.only().is_none());
        versions.settle(2);
        assert_eq!(versions.only(), Some(&"a"));
        assert!(!versions.withdraw(2));
    }
}
