//! What becomes of a pending write when the power goes.

/// The part of a pending write that is on the medium after a power cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// All of it.
    Kept,
    /// Nothing.
    Lost,
    /// The sectors of 512 bytes that are marked true, counted from the first one that the write
    /// touches. The prover also draws tears that mark all sectors or none of them.
    Torn(Vec<bool>),
}

impl Fate {
    /// The fate of a write of which these sectors survive. Never a tear that marks all or none.
    pub fn of_sectors(marks: Vec<bool>) -> Fate {
        match (marks.contains(&true), marks.contains(&false)) {
            (true, true) => Fate::Torn(marks),
            (true, false) => Fate::Kept,
            _ => Fate::Lost,
        }
    }

    /// True if every sector survives.
    pub fn is_whole(&self) -> bool {
        match self {
            Fate::Kept => true,
            Fate::Lost => false,
            Fate::Torn(marks) => marks.iter().all(|&mark| mark),
        }
    }

    /// True if no sector survives.
    pub fn is_nothing(&self) -> bool {
        match self {
            Fate::Kept => false,
            Fate::Lost => true,
            Fate::Torn(marks) => !marks.contains(&true),
        }
    }
}

/// How many writes of an outcome met each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Kept as a whole.
    pub kept: usize,
    /// Lost as a whole.
    pub lost: usize,
    /// Torn.
    pub torn: usize,
}

/// Counts the fates of an outcome.
pub fn tally<'f>(fates: impl IntoIterator<Item = &'f Fate>) -> Tally {
    let mut tally = Tally::default();
    for fate in fates {
        match fate {
            Fate::Kept => tally.kept += 1,
            Fate::Lost => tally.lost += 1,
            Fate::Torn(_) => tally.torn += 1,
        }
    }
    tally
}

/// True if a later write is kept although an earlier one is lost.
pub fn is_reordered(fates: &[Fate]) -> bool {
    let first_lost = fates.iter().position(|fate| *fate == Fate::Lost);
    first_lost.is_some_and(|at| fates[at..].contains(&Fate::Kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_all_sectors_or_none_are_no_tear() {
        assert_eq!(Fate::of_sectors(vec![true, true]), Fate::Kept);
        assert_eq!(Fate::of_sectors(vec![false, false]), Fate::Lost);
        assert_eq!(Fate::of_sectors(vec![true, false]), Fate::Torn(vec![true, false]));
        assert!(Fate::Torn(vec![true]).is_whole() && !Fate::Torn(vec![true]).is_nothing());
        assert!(Fate::Torn(vec![false]).is_nothing() && !Fate::Torn(vec![false]).is_whole());
    }

    #[test]
    fn an_outcome_is_counted_and_its_order_seen() {
        let torn = Fate::Torn(vec![true, false]);
        let fates = [Fate::Kept, torn.clone(), Fate::Lost, Fate::Lost];
        assert_eq!(tally(&fates), Tally { kept: 1, lost: 2, torn: 1 });
        assert!(!is_reordered(&fates), "the kept one came first");
        assert!(is_reordered(&[Fate::Lost, torn, Fate::Kept]));
    }
}
