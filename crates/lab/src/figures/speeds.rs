//! Speeds of systems against FFS-async, phase by phase and in all, as tables 4 and 5 of paper 001
//! print them: time of FFS-async over time of the system, until all calls were answered.

use super::chart::{Chart, Series, Shape};
use super::job::{IN_PLACE, Results, Told, ratio, spent_both};
use super::published::{SYSTEMS, column};
use super::table::{Table, heads, told};

/// The system that others are compared with.
pub const BASE: &str = "async";
/// The column of all phases together.
pub const TOTAL: &str = "total";

/// A printed table.
#[derive(Debug)]
pub struct Speeds<const N: usize> {
    /// The run that has its phases.
    pub variant: &'static str,
    /// Its columns: phases, and [`TOTAL`].
    pub columns: [&'static str; N],
    /// A row for each of [`SYSTEMS`].
    pub printed: [[f64; N]; SYSTEMS.len()],
}

impl<const N: usize> Speeds<N> {
    /// The number of the paper.
    ///
    /// # Panics
    /// If the paper has no such system or column.
    pub fn paper(&self, policy: &str, name: &str) -> f64 {
        let at = self.columns.iter().position(|one| *one == name);
        let place = column(policy).zip(at);
        place.map(|(row, at)| self.printed[row][at]).expect("a system and a column of the paper")
    }

    /// Seconds of a phase, or of all, until all calls were answered.
    ///
    /// # Errors
    /// Why there are none.
    pub fn seconds(
        &self,
        results: &Results<'_>,
        (policy, volume, variant): (&'static str, &'static str, &str),
        name: &str,
    ) -> Told<f64> {
        let report = results.files(policy, volume, variant)?;
        let phases = || report.phases.iter();
        let found = match name {
            TOTAL => Some(phases().map(|phase| phase.elapsed_seconds).sum()),
            _ => phases().find(|phase| phase.phase == name).map(|phase| phase.elapsed_seconds),
        };
        found.ok_or_else(|| format!("{name} was not run"))
    }

    /// The speed of a system in place.
    ///
    /// # Errors
    /// Why there is none.
    pub fn speed(&self, results: &Results<'_>, policy: &'static str, name: &str) -> Told<f64> {
        let of = |policy| self.seconds(results, (policy, IN_PLACE.name, self.variant), name);
        ratio(of(BASE), of(policy))
    }

    /// Where the time of two systems went: of a phase, or of the longest one.
    pub fn because(&self, results: &Results<'_>, two: [&'static str; 2], name: &str) -> String {
        let phase = |policy| {
            let report = results.files(policy, IN_PLACE.name, self.variant)?;
            let longest = || {
                let phases = report.phases.iter();
                phases.max_by(|a, b| a.elapsed_seconds.total_cmp(&b.elapsed_seconds))
            };
            report.phase(name).or_else(longest).ok_or_else(|| "nothing was measured".to_owned())
        };
        let [one, other] = two.map(|policy| (policy, phase(policy)));
        spent_both(one, other)
    }

    /// The systems of the paper that were run in place, but for [`BASE`].
    pub fn others(&self, results: &Results<'_>) -> Vec<&'static str> {
        let ran = results.policies_on(IN_PLACE.name);
        let others = SYSTEMS.iter().map(|system| system.policy);
        others.filter(|policy| *policy != BASE && ran.contains(policy)).collect()
    }

    /// The speeds of those in a column.
    ///
    /// # Errors
    /// If fewer than two systems or no FFS-async was run.
    pub fn all(&self, results: &Results<'_>, name: &str) -> Told<Vec<(&'static str, f64)>> {
        let others = self.others(results);
        if others.len() < 2 {
            return Err("fewer than two systems were run".to_owned());
        }
        others.into_iter().map(|one| Ok((one, self.speed(results, one, name)?))).collect()
    }

    /// Seconds and speeds of all runs, and the speeds of the paper.
    pub fn table(&self, results: &Results<'_>, title: String) -> Table {
        let columns = self.columns.iter();
        let columns =
            columns.flat_map(|name| ["s", "speed", "paper"].map(|w| format!("{name}/{w}")));
        let columns = columns.chain(["settled/s".to_owned()]);
        let mut table = Table::new(title, heads("policy, volume", columns));
        for volume in results.volumes() {
            for policy in results.policies_on(volume) {
                let of = |policy, name| self.seconds(results, (policy, volume, self.variant), name);
                let cells = self.columns.iter().flat_map(|name| {
                    let speed = ratio(of(BASE, name), of(policy, name));
                    let paper = column(policy).map(|_| self.paper(policy, name));
                    [told(of(policy, name)), told(speed), paper]
                });
                let settled = results.files(policy, volume, self.variant).map(|report| {
                    report.phases.iter().map(|phase| phase.settled_seconds).sum::<f64>()
                });
                let cells = cells.chain([told(settled)]).collect();
                table.row(format!("{policy}, {volume}"), cells);
            }
        }
        table
    }

    /// The speeds in place, and those of the paper.
    pub fn chart(&self, results: &Results<'_>, title: &str) -> Chart {
        let policies = results.policies_on(IN_PLACE.name);
        let series = self.columns.iter().flat_map(|name| {
            let ours = policies.iter().map(|policy| told(self.speed(results, policy, name)));
            let paper =
                policies.iter().map(|policy| column(policy).map(|_| self.paper(policy, name)));
            let one = |name: String, values, published| Series { name, values, published };
            [
                one((*name).to_owned(), ours.collect(), false),
                one(format!("{name}, paper"), paper.collect(), true),
            ]
        });
        Chart {
            title: title.to_owned(),
            x: "policy".to_owned(),
            y: "speed against FFS-async".to_owned(),
            series: series.collect(),
            labels: policies.iter().map(|policy| (*policy).to_owned()).collect(),
            shape: Shape::Bars,
        }
    }
}

/// Speeds for people.
pub fn listed(speeds: &[(&'static str, f64)]) -> String {
    let each = speeds.iter().map(|(policy, speed)| format!("{policy} {speed:.3}"));
    each.collect::<Vec<_>>().join(", ")
}

/// True for systems whose calls wait for a disk.
pub fn waits(policy: &str) -> bool {
    let kinds = seekless_fs::policy::PolicyKind::ALL.into_iter();
    kinds.filter(|kind| kind.answers_when_durable()).any(|kind| kind.name() == policy)
}
