//! Figures of the papers about file systems, measured again in virtual time.
//!
//! A figure is a set of runs ([`jobs`]) and what is read off their results ([`judge`]): tables with
//! the numbers of the paper beside ours, a picture, and a verdict for each claim. Runs may happen
//! at the same time; the report is a function of figure, settings and seed. Each run with a host is
//! made with half, once and double of the host's free costs, and a verdict counts only if all three
//! agree.

mod bandwidth;
mod buffered;
mod bursts;
pub mod chart;
pub mod claim;
mod crashes;
mod generations;
pub mod job;
mod joint;
mod large;
mod lfs;
mod micro;
mod news;
mod pairs;
mod paper;
mod postmark;
mod published;
mod reads;
mod recovery;
mod remounts;
pub mod report;
mod responses;
mod sdet;
mod setup;
mod small;
mod speeds;
mod ssh;
mod stacked;
pub mod table;
mod tree;
mod trends;
mod ufs;
mod update;
mod updates;
mod vlfs;

use chart::Chart;
use claim::{Judge, agree};
use job::{AS_IT_IS, FigureError, Job, Outcomes, Results, Volume, plain};
use published::System;
use report::{FigureReport, SystemState};
use seekless_fs::policy::PolicyKind;
use seekless_layouts::Kind;
use std::collections::BTreeMap;
use table::Table;

/// A figure by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Paper 001, figures 1 and 2.
    JournalMicro,
    /// Paper 001, figure 3.
    JournalPairs,
    /// Paper 001, sections 4 and 6, and table 2.
    JournalCrashes,
    /// Paper 001, section 10.
    JournalPostMark,
    /// Paper 001, table 4.
    JournalSsh,
    /// Paper 001, table 5.
    JournalNews,
    /// Paper 001, figure 4.
    JournalSdet,
    /// Paper 001, sections 3.2, 4 and 5.3.
    JournalRecovery,
    /// Paper 002, figures 7 to 9.
    DcdTree,
    /// Paper 002, figures 11 and 12.
    DcdResponses,
    /// Paper 002, figure 10.
    DcdBandwidth,
    /// Paper 000, figure 6.
    VlogSmall,
    /// Paper 000, figure 7.
    VlogLarge,
    /// Paper 000, figures 8 to 10.
    VlogUpdate,
    /// Paper 000, figures 11 and 12.
    VlogBursts,
    /// Paper 000, sections 3.2 and 3.3.
    VlogRecover,
    /// All papers at once.
    Joint,
}

/// The parts of a figure.
struct Parts {
    name: &'static str,
    source: &'static str,
    title: &'static str,
    systems: &'static [System],
    /// It runs under policies that keep a log, too.
    logged: bool,
    jobs: fn(&Settings) -> Vec<Job>,
    judge: fn(&Results<'_>, &mut Judge<'_>) -> Vec<Table>,
    chart: fn(&Results<'_>) -> Chart,
}

/// The file system of paper 002.
const UFS: [System; 1] = [System { name: "UFS", policy: "sync" }];

/// The file systems of paper 000.
const UFS_AND_LFS: [System; 2] =
    [System { name: "UFS", policy: "sync" }, System { name: "LFS", policy: "async" }];

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 17] = [
        Figure::JournalMicro,
        Figure::JournalPairs,
        Figure::JournalCrashes,
        Figure::JournalPostMark,
        Figure::JournalSsh,
        Figure::JournalNews,
        Figure::JournalSdet,
        Figure::JournalRecovery,
        Figure::DcdTree,
        Figure::DcdResponses,
        Figure::DcdBandwidth,
        Figure::VlogSmall,
        Figure::VlogLarge,
        Figure::VlogUpdate,
        Figure::VlogBursts,
        Figure::VlogRecover,
        Figure::Joint,
    ];

    fn parts(self) -> Parts {
        match self {
            Figure::JournalMicro => micro::PARTS,
            Figure::JournalPairs => pairs::PARTS,
            Figure::JournalCrashes => crashes::PARTS,
            Figure::JournalPostMark => postmark::PARTS,
            Figure::JournalSsh => ssh::PARTS,
            Figure::JournalNews => news::PARTS,
            Figure::JournalSdet => sdet::PARTS,
            Figure::JournalRecovery => recovery::PARTS,
            Figure::DcdTree => tree::PARTS,
            Figure::DcdResponses => responses::PARTS,
            Figure::DcdBandwidth => bandwidth::PARTS,
            Figure::VlogSmall => small::PARTS,
            Figure::VlogLarge => large::PARTS,
            Figure::VlogUpdate => update::PARTS,
            Figure::VlogBursts => bursts::PARTS,
            Figure::VlogRecover => remounts::PARTS,
            Figure::Joint => joint::PARTS,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.parts().name
    }

    /// The policies that it runs under.
    pub fn policies(self) -> Vec<PolicyKind> {
        match self.parts().logged {
            true => logged_too().collect(),
            false => PolicyKind::UNLOGGED.to_vec(),
        }
    }

    /// What it shows, in a line.
    pub fn title(self) -> &'static str {
        self.parts().title
    }
}

/// The policies of paper 001 and `atomic`: no paper has one whose transactions carry content.
fn logged_too() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().filter(|kind| !kind.carries_content())
}

/// What of a figure is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of all randomness.
    pub seed: u64,
    /// Small amounts, to see that it works: rates are then not those of the paper.
    pub quick: bool,
    /// Only these policies; all if there are none.
    pub policies: Vec<PolicyKind>,
    /// Only these layouts; those of the figure if there are none.
    pub layouts: Vec<Kind>,
    /// VLFS beside the systems of paper 000.
    pub vlfs: bool,
}

impl Settings {
    fn asks(&self, kind: PolicyKind) -> bool {
        self.policies.is_empty() || self.policies.contains(&kind)
    }

    /// The policies without a log.
    fn policies(&self) -> Vec<PolicyKind> {
        PolicyKind::UNLOGGED.into_iter().filter(|&kind| self.asks(kind)).collect()
    }

    /// The policies of figures of paper 001 on a volume. A log under its fragments of 1 KB needs
    /// writes of single sectors, which only a disk in place takes.
    fn policies_on(&self, volume: Volume) -> Vec<PolicyKind> {
        let mut policies = self.policies_over(volume);
        policies.retain(|kind| {
            kind.wants_transactions() || !kind.is_logged() || volume.kind == Kind::INPLACE
        });
        policies
    }

    /// The policies that run on a volume, with fragments as it wants them.
    fn policies_over(&self, volume: Volume) -> Vec<PolicyKind> {
        let possible = |kind: PolicyKind| !kind.wants_transactions() || volume.kind == Kind::LOGE;
        logged_too().filter(|&kind| self.asks(kind) && possible(kind)).collect()
    }

    /// The volumes of a figure, or others that are asked for. With small amounts, those that its
    /// claims name.
    fn volumes_of(&self, all: &[Volume], claimed: &[Volume]) -> Vec<Volume> {
        self.volumes(if self.quick && self.layouts.is_empty() { claimed } else { all })
    }

    /// The volumes of a figure, or others that are asked for.
    fn volumes(&self, of: &[Volume]) -> Vec<Volume> {
        if self.layouts.is_empty() {
            return of.to_vec();
        }
        let mut volumes: Vec<Volume> = Vec::new();
        for &kind in &self.layouts {
            if volumes.iter().any(|volume| volume.kind == kind) {
                continue;
            }
            let known = of.iter().filter(|volume| volume.kind == kind).copied();
            let before = volumes.len();
            volumes.extend(known);
            if volumes.len() == before {
                volumes.push(plain(kind.name(), kind));
            }
        }
        volumes
    }
}

/// The runs of a figure.
pub fn jobs(figure: Figure, settings: &Settings) -> Vec<Job> {
    (figure.parts().jobs)(settings)
}

/// The report of a figure from the outcomes of its jobs. `planted` are numbers in place of those of
/// the papers, by claim: they show that a verdict can be another one.
///
/// # Errors
/// [`FigureError::NoClaim`].
pub fn judge(
    figure: Figure,
    settings: &Settings,
    outcomes: &Outcomes,
    planted: &BTreeMap<String, f64>,
) -> Result<FigureReport, FigureError> {
    let parts = figure.parts();
    let judged = |factor| {
        let mut judge = Judge::new(planted);
        let tables = (parts.judge)(&Results { all: outcomes, factor }, &mut judge);
        (tables, judge)
    };
    let ((_, half), (tables, one), (_, double)) = (judged(0), judged(AS_IT_IS), judged(2));
    if let Some(unknown) = planted.keys().find(|id| !one.numbers.contains(*id)) {
        let known: Vec<&str> = one.numbers.iter().map(String::as_str).collect();
        return Err(FigureError::NoClaim(unknown.clone(), known.join(", ")));
    }
    let results = Results { all: outcomes, factor: AS_IT_IS };
    let systems = parts.systems.iter().map(|system| state(system, settings));
    Ok(FigureReport {
        figure: parts.name,
        source: parts.source,
        title: parts.title,
        seed: settings.seed,
        quick: settings.quick,
        runs: outcomes.len(),
        systems: systems.collect(),
        tables,
        claims: agree(&half.claims, one.claims, &double.claims),
        chart: (parts.chart)(&results),
    })
}

/// Whether a system of a paper was run.
fn state(system: &System, settings: &Settings) -> SystemState {
    let built = PolicyKind::ALL.into_iter().find(|kind| kind.name() == system.policy);
    let state = match built {
        None => "not built",
        Some(kind) if settings.asks(kind) => "run",
        Some(_) => "not asked for",
    };
    SystemState { name: system.name, policy: system.policy, state }
}

/// The policy that stands for the UFS of the papers in figures that do not depend on the order of
/// metadata: `sync` if it was run, or else `async`.
fn ufs_policy(results: &Results<'_>) -> &'static str {
    if results.policies().contains(&"sync") { "sync" } else { "async" }
}
