//! Verdicts: each claim of a figure is compared with what was measured.
//!
//! A claim with a number holds if the measured value lies in a band around it. A claim of a shape
//! holds if the shape is there. Everything else differs, with the measurement that shows why. What
//! a run does not show cannot be told. Calibrations fix free costs of the model and verify nothing.

use super::job::{FACTORS, Told};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is measured.
    Holds,
    /// Something else is measured.
    Differs,
    /// The runs do not show it.
    CannotBeTold,
    /// It fixes a free cost of the model: no verification.
    Calibration,
}

impl Verdict {
    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::CannotBeTold => "cannot be told",
            Verdict::Calibration => "calibration",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its number, and the system or program that it is about.
    pub id: String,
    /// What is claimed.
    pub says: String,
    /// The least value that holds, if it is a number.
    pub least: Option<f64>,
    /// The largest value that holds, if there is one.
    pub most: Option<f64>,
    /// Unit of the values; empty for ratios.
    pub unit: &'static str,
    /// What was measured, if it is a number.
    pub measured: Option<f64>,
    /// What was measured, for people.
    pub found: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it differs or cannot be told.
    pub because: Option<String>,
    /// The measured value with half and with double the free costs of the host.
    pub sensitivity: Option<[f64; 2]>,
}

/// Collects the verdicts of a figure.
#[derive(Debug)]
pub struct Judge<'p> {
    /// Numbers in place of those of the papers, by claim.
    planted: &'p BTreeMap<String, f64>,
    /// The verdicts so far.
    pub claims: Vec<Claim>,
    /// Claims with numbers.
    pub numbers: BTreeSet<String>,
}

/// Around a number in place of that of a paper, what still holds: 5 %.
const PLANTED_TOLERANCE: f64 = 0.05;

/// A claim without its verdict.
#[derive(Debug)]
pub struct Asked<'j, 'p> {
    judge: &'j mut Judge<'p>,
    claim: Claim,
}

/// A number as people read it.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl<'p> Judge<'p> {
    /// A judge who takes these numbers in place of those of the papers.
    pub fn new(planted: &'p BTreeMap<String, f64>) -> Judge<'p> {
        Judge { planted, claims: Vec::new(), numbers: BTreeSet::new() }
    }

    /// Asks about a claim.
    pub fn claim(&mut self, id: impl Into<String>, says: impl Into<String>) -> Asked<'_, 'p> {
        let claim = Claim {
            id: id.into(),
            says: says.into(),
            least: None,
            most: None,
            unit: "",
            measured: None,
            found: String::new(),
            verdict: Verdict::CannotBeTold,
            because: None,
            sensitivity: None,
        };
        Asked { judge: self, claim }
    }
}

impl Asked<'_, '_> {
    /// The unit of its numbers.
    pub fn unit(mut self, unit: &'static str) -> Self {
        self.claim.unit = unit;
        self
    }

    /// It holds if the measured value is that of the paper within a tolerance, a share of it.
    pub fn near(
        self,
        paper: f64,
        tolerance: f64,
        measured: Told<f64>,
        because: impl FnOnce() -> String,
    ) {
        let (low, high) = (paper * (1.0 - tolerance), paper * (1.0 + tolerance));
        let text = format!("{} ± {:.0} %", self.with_unit(paper), tolerance * 100.0);
        self.compare(&text, low, Some(high), measured, because);
    }

    /// It holds if the measured value is between these.
    pub fn between(
        self,
        low: f64,
        high: f64,
        measured: Told<f64>,
        because: impl FnOnce() -> String,
    ) {
        let text = format!("{} to {}", number(low), self.with_unit(high));
        self.compare(&text, low, Some(high), measured, because);
    }

    /// It holds if the measured value is no less.
    pub fn at_least(self, low: f64, measured: Told<f64>, because: impl FnOnce() -> String) {
        let text = format!("at least {}", self.with_unit(low));
        self.compare(&text, low, None, measured, because);
    }

    fn with_unit(&self, value: f64) -> String {
        format!("{} {}", number(value), self.claim.unit).trim_end().to_owned()
    }

    fn compare(
        mut self,
        text: &str,
        low: f64,
        high: Option<f64>,
        measured: Told<f64>,
        because: impl FnOnce() -> String,
    ) {
        self.judge.numbers.insert(self.claim.id.clone());
        let (mut text, mut low, mut high) = (text.to_owned(), low, high);
        if let Some(&planted) = self.judge.planted.get(&self.claim.id) {
            let width = planted.abs() * PLANTED_TOLERANCE;
            (low, high) = (planted - width, Some(planted + width));
            text = format!("{} in place of {text}", self.with_unit(planted));
        }
        self.claim.says = format!("{}: {text}", self.claim.says);
        (self.claim.least, self.claim.most) = (Some(low), high);
        match measured {
            Err(why) => self.claim.because = Some(why),
            Ok(value) => {
                self.claim.measured = Some(value);
                self.claim.found = self.with_unit(value);
                let holds = value >= low && high.is_none_or(|high| value <= high);
                self.decide(holds, because);
            }
        }
        self.done();
    }

    /// It holds if the shape is there. `seen` says what is there.
    pub fn shape(mut self, seen: Told<(bool, String)>, because: impl FnOnce() -> String) {
        match seen {
            Err(why) => self.claim.because = Some(why),
            Ok((holds, found)) => {
                self.claim.found = found;
                self.decide(holds, because);
            }
        }
        self.done();
    }

    fn decide(&mut self, holds: bool, because: impl FnOnce() -> String) {
        self.claim.verdict = if holds { Verdict::Holds } else { Verdict::Differs };
        if !holds {
            self.claim.because = Some(because());
        }
    }

    /// The model was fitted to it.
    pub fn calibration(mut self, measured: Told<f64>) {
        if let Ok(value) = measured {
            self.claim.measured = Some(value);
            self.claim.found = self.with_unit(value);
        }
        self.claim.verdict = Verdict::Calibration;
        self.done();
    }

    /// The runs do not show it.
    pub fn untold(mut self, why: impl Into<String>) {
        self.claim.because = Some(why.into());
        self.done();
    }

    fn done(self) {
        self.judge.claims.push(self.claim);
    }
}

/// The verdicts with the host as it is, if half and double of its free costs agree. A claim whose
/// verdict depends on free costs cannot be told.
pub fn agree(half: &[Claim], mut claims: Vec<Claim>, double: &[Claim]) -> Vec<Claim> {
    for ((claim, half), double) in claims.iter_mut().zip(half).zip(double) {
        if let (Some(half), Some(double)) = (half.measured, double.measured) {
            claim.sensitivity = Some([half, double]);
        }
        let others = [(FACTORS[0], half), (FACTORS[2], double)];
        let Some((factor, other)) = others.iter().find(|(_, one)| one.verdict != claim.verdict)
        else {
            continue;
        };
        claim.because = Some(format!(
            "with the free costs of the host it {}, with {factor} times of them it {} ({})",
            claim.verdict.name(),
            other.verdict.name(),
            other.found
        ));
        claim.verdict = Verdict::CannotBeTold;
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(planted: &BTreeMap<String, f64>, measured: Told<f64>) -> Claim {
        let mut judge = Judge::new(planted);
        judge.claim("J1", "speed").unit("MB/s").near(10.0, 0.1, measured, || "it is".to_owned());
        judge.claims.remove(0)
    }

    #[test]
    fn a_number_holds_within_its_tolerance_only() {
        let none = BTreeMap::new();
        for (value, expected) in [
            (9.0, Verdict::Holds),
            (11.0, Verdict::Holds),
            (8.9, Verdict::Differs),
            (11.1, Verdict::Differs),
        ] {
            assert_eq!(verdict(&none, Ok(value)).verdict, expected, "{value}");
        }
        let differs = verdict(&none, Ok(1.0));
        assert_eq!(differs.because.as_deref(), Some("it is"));
        let untold = verdict(&none, Err("not run".to_owned()));
        assert_eq!(untold.verdict, Verdict::CannotBeTold);
        assert_eq!(untold.because.as_deref(), Some("not run"));
    }

    #[test]
    fn a_planted_number_is_found() {
        let planted = BTreeMap::from([("J1".to_owned(), 20.0)]);
        assert_eq!(verdict(&planted, Ok(10.0)).verdict, Verdict::Differs);
        assert_eq!(verdict(&planted, Ok(20.5)).verdict, Verdict::Holds);
    }

    #[test]
    fn what_depends_on_free_costs_cannot_be_told() {
        let none = BTreeMap::new();
        let one = |value| vec![verdict(&none, Ok(value))];
        let agreed = agree(&one(9.5), one(10.0), &one(10.5));
        assert_eq!(agreed[0].verdict, Verdict::Holds);
        assert_eq!(agreed[0].sensitivity, Some([9.5, 10.5]));
        let split = agree(&one(9.5), one(10.0), &one(20.0));
        assert_eq!(split[0].verdict, Verdict::CannotBeTold);
        let because = split[0].because.clone().expect("a reason");
        assert!(because.contains("it holds, with 2 times of them it differs"), "{because}");
    }
}
