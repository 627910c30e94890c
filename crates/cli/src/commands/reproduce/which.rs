//! Which figures a command asks for: one, or all of a paper as `journal/all`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use seekless_lab::figures::Figure;

/// What stands behind the name of a paper for all of its figures.
const ALL: &str = "all";

/// The figures of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// As it was asked for.
    pub name: String,
    /// In the order in which they are printed.
    pub figures: Vec<Figure>,
}

impl Which {
    /// Each figure by its name, and those of each paper.
    fn every() -> Vec<(Which, &'static str)> {
        let one = |figure: Figure| Which { name: figure.name().to_owned(), figures: vec![figure] };
        let mut every: Vec<(Which, &'static str)> =
            Figure::ALL.into_iter().map(|figure| (one(figure), figure.title())).collect();
        let mut papers: Vec<&str> = Vec::new();
        for (paper, _) in Figure::ALL.iter().filter_map(|figure| figure.name().split_once('/')) {
            if !papers.contains(&paper) {
                papers.push(paper);
            }
        }
        every.extend(papers.into_iter().map(|paper| {
            let is_of =
                |figure: &Figure| figure.name().split_once('/').is_some_and(|one| one.0 == paper);
            let figures = Figure::ALL.into_iter().filter(is_of).collect();
            (Which { name: format!("{paper}/{ALL}"), figures }, "all figures of this paper")
        }));
        every
    }

    /// The only figure, unless there are several.
    pub fn only(&self) -> Option<Figure> {
        match self.figures.as_slice() {
            [figure] => Some(*figure),
            _ => None,
        }
    }
}

/// The figures on the command line.
pub fn parser() -> impl TypedValueParser<Value = Which> {
    let known = Which::every();
    let names =
        known.iter().map(|(which, title)| PossibleValue::new(which.name.clone()).help(*title));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(|name| {
        let found = Which::every().into_iter().find(|(which, _)| which.name == name);
        found.map(|(which, _)| which).ok_or("no such figure")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paper_has_all_figures_of_its_name_and_no_other() {
        let of = |name: &str| {
            let found = Which::every().into_iter().find(|(which, _)| which.name == name);
            found.map(|(which, _)| which.figures).unwrap_or_default()
        };
        let all: Vec<Figure> = ["journal/all", "dcd/all", "vlog/all", "joint"].map(of).concat();
        assert_eq!(all.len(), Figure::ALL.len());
        assert!(of("journal/all").iter().all(|one| one.name().starts_with("journal/")));
        assert_eq!(of("joint/all"), []);
    }
}
