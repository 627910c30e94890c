//! Which layout the cost model picks, and why: in sentences with numbers.

use super::super::{ModelError, below_one};
use super::{Disk, Hybrid, best_hot_share, cleaning, cleaning_utilisation, disk::ALPHA};
use super::{disk_utilisation, hot_utilisation, plugging};
use crate::distribution::Distribution;
use serde::Serialize;

/// Widest line of the text.
const WIDTH: usize = 96;

/// The layout that the model picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Write every page in place.
    InPlace,
    /// Write every page to a log.
    Log,
    /// Hot pages to a log, cold ones in place.
    Hylog,
}

/// The choice for a disk, a utilisation and a skew.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The disk.
    pub disk: String,
    /// Share of it in use.
    pub utilisation: f64,
    /// How often each page is written.
    pub distribution: Distribution,
    /// The layout that the model picks.
    pub choice: Choice,
    /// *η*.
    pub eta: f64,
    /// Scaled cost of a log.
    pub log: f64,
    /// Scaled cost of HyLog with the best share of hot pages.
    pub hylog: f64,
    /// That share.
    pub hot: f64,
    /// Share of the writes that go to hot pages then.
    pub hot_writes: f64,
    /// Why, a paragraph each.
    pub reasons: Vec<String>,
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Picks and explains.
///
/// # Errors
/// A utilisation outside 0 to below 1.
pub fn explain(
    disk: &Disk,
    utilisation: f64,
    distribution: Distribution,
) -> Result<Explanation, ModelError> {
    let u_d = below_one("utilisation", utilisation)?;
    let eta = disk.efficiency();
    let best = best_hot_share(u_d, eta, distribution);
    let choice = match best.hot {
        hot if hot <= 0.0 => Choice::InPlace,
        hot if hot >= 1.0 => Choice::Log,
        _ => Choice::Hylog,
    };
    let log = cleaning(cleaning_utilisation(u_d));
    let reasons = vec![
        about_disk(disk),
        about_log(u_d, eta),
        about_hot(u_d, best, distribution),
        verdict(choice, log, eta, best),
    ];
    Ok(Explanation {
        disk: disk.name().to_owned(),
        utilisation,
        distribution,
        choice,
        eta,
        log,
        hylog: best.cost,
        hot: best.hot,
        hot_writes: best.writes,
        reasons,
    })
}

fn about_disk(disk: &Disk) -> String {
    format!(
        "Positioning takes {:.2} ms, in which {:.0} KB could be transferred at {:.1} MB/s. A \
         segment of {:.0} KB takes {:.1} ms; its {:.0} pages alone, in place, take {:.0} ms: \
         writing in segments is {:.1} times as cheap (eta, equation 1). Equation (6) asks for \
         segments of {:.0} KB.",
        disk.positioning_ms(),
        disk.product_bytes() / 1e3,
        disk.mb_per_s(),
        disk.segment_bytes() / 1e3,
        disk.segment_ms(),
        disk.pages(),
        disk.pages() * disk.page_ms(),
        disk.efficiency(),
        disk.exact_bytes(ALPHA) / 1e3,
    )
}

fn about_log(u_d: f64, eta: f64) -> String {
    let u = cleaning_utilisation(u_d);
    let even = disk_utilisation(super::crossing(eta));
    format!(
        "With {} of the disk in use, the segments that are cleaned still hold {} live pages \
         (equation 2, for uniform updates: skewed ones leave fewer). So a log moves {:.2} segments \
         for each one that is written (equation 4), or {:.2} if it plugs holes (equation 5); \
         writing in place costs as much as {eta:.2}. A log is the cheaper one up to {} in use, or \
         from an eta of {:.2} on at this utilisation.",
        percent(u_d),
        percent(u),
        cleaning(u),
        plugging(u, eta),
        percent(even),
        cleaning(u),
    )
}

fn about_hot(u_d: f64, best: Hybrid, distribution: Distribution) -> String {
    if best.hot <= 0.0 {
        return format!(
            "Writes are spread as {distribution}. Whatever share of the pages went to a log, \
             cleaning would cost more than it saves."
        );
    }
    if best.hot >= 1.0 {
        return format!(
            "Writes are spread as {distribution}. Cleaning is so cheap that even the coldest pages \
             are better off in the log: {} of pages are hot.",
            percent(1.0)
        );
    }
    format!(
        "Writes are spread as {distribution}. If the {} of pages that take {} of the writes go to \
         a log that has all free space to itself, it is {} full (equation 7), its cleaned segments \
         hold {} live pages, and the whole costs {:.2} (equation 8): less than with any other \
         share.",
        percent(best.hot),
        percent(best.writes),
        percent(hot_utilisation(u_d, best.hot)),
        percent(best.cleaning_utilisation),
        best.cost,
    )
}

fn verdict(choice: Choice, log: f64, eta: f64, best: Hybrid) -> String {
    match choice {
        Choice::InPlace => format!(
            "The model picks writing in place: a log would be {:.2} times as slow.",
            log / eta
        ),
        Choice::Log => format!(
            "The model picks a log (HyLog would do the same): writes are {:.2} times as fast as in \
             place.",
            eta / log
        ),
        Choice::Hylog => format!(
            "The model picks HyLog with {} of the pages hot: writes are {:.2} times as fast as in \
             place and {:.2} times as fast as in a log.",
            percent(best.hot),
            eta / best.cost,
            log / best.cost,
        ),
    }
}

impl Explanation {
    /// The explanation as text.
    pub fn to_text(&self) -> String {
        let mut out =
            format!("{}, {} in use, {}\n", self.disk, percent(self.utilisation), self.distribution);
        for reason in &self.reasons {
            wrap(reason, &mut out);
        }
        out
    }
}

/// Appends a paragraph, indented.
fn wrap(text: &str, out: &mut String) {
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width == 0 || width + 1 + length > WIDTH {
            out.push_str(if width == 0 { "  " } else { "\n  " });
            width = length;
        } else {
            out.push(' ');
            width += 1 + length;
        }
        out.push_str(word);
    }
    out.push('\n');
}
