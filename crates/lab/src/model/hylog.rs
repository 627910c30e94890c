//! Costs of writing in place, log-structured layouts and HyLog: the equations of the HyLog paper.
//!
//! Wang, Zhao and Bunt, *HyLog: A High Performance Approach to Managing Disk Layout*, FAST 2004.
//! Claims are numbered `H`. Two equations are misprinted there and corrected here: (7), claim H11,
//! and Knuth's distribution, claim H14.
//!
//! *Scaled* costs are in units of the time that a segment takes, for as many pages as a segment
//! holds (section 3.2.4): a log that never cleans has cost 1, and writing in place has the cost
//! *η*. `u_d` is the share of the disk that holds live pages, `u` the share of live pages in the
//! segments that are cleaned; both at least 0 and below 1.

mod disk;
pub mod explain;
mod report;
pub mod worked;

pub use disk::{ALPHA, Disk, MeasureError};
pub use report::{
    UTILISATIONS, by_cleaning, by_distribution, by_hot_share, by_segment, by_utilisation, examples,
};

use crate::distribution::Distribution;

/// Steps of the search for the best share of hot pages: a tenth of a per cent each, as fine as
/// table H-d of the claims.
const STEPS: u32 = 1000;

/// Equation (1): how many times faster a page is written in a segment of `pages` pages (1 and more)
/// than alone, *η*. `product` is the *disk performance product*, positioning time times bandwidth:
/// what the disk could transfer while it positions. Same unit as `page`, the size of a page.
///
/// Claims H2 and H5, table H-a: 32.77 for the disk of 2003.
pub fn efficiency(pages: f64, page: f64, product: f64) -> f64 {
    pages * (page + product) / (pages * page + product)
}

/// The limit of *η* for segments without end, section 3.3.
pub fn efficiency_limit(page: f64, product: f64) -> f64 {
    (product + page) / page
}

/// Section 3.3: the size of a segment that reaches the share `alpha` (above 0 and below 1) of the
/// limit of *η*. At 0.8 this is equation (6): four times the performance product (claim H10).
pub fn segment_size(alpha: f64, product: f64) -> f64 {
    alpha / (1.0 - alpha) * product
}

/// Equation (2): the `u_d` that goes with a `u` (claim H6, table H-b).
pub fn disk_utilisation(u: f64) -> f64 {
    match u {
        u if u <= 0.0 => 0.0,
        u if u >= 1.0 => 1.0,
        u => (u - 1.0) / u.ln(),
    }
}

/// Equation (2) solved for `u`, by bisection: exact to the precision of the numbers.
///
/// It holds for uniform updates. Skewed updates leave emptier segments to clean, so the resulting
/// costs are upper bounds for them (section 3.5).
pub fn cleaning_utilisation(u_d: f64) -> f64 {
    if u_d >= 1.0 {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if disk_utilisation(middle) < u_d {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Equation (4): cost of a log that cleans by copying live pages into new segments (claim H7).
pub fn cleaning(u: f64) -> f64 {
    2.0 / (1.0 - u)
}

/// Equation (5): cost of a log that cleans by plugging the holes of other segments (claim H7).
pub fn plugging(u: f64, eta: f64) -> f64 {
    2.0 + u * eta
}

/// Cost of a log that chooses the cheaper of both (Matthews and others, SOSP 1997): the lower
/// envelope of (4) and (5) (claim H19).
pub fn adaptive(u: f64, eta: f64) -> f64 {
    cleaning(u).min(plugging(u, eta))
}

/// Cost of a pass of the cleaner over candidates with these utilisations, for each segment of space
/// it gains, if live pages go to new segments. In times of a segment. The adaptive cleaner takes
/// the choice with the lower value; for candidates that are all alike this is `cleaning(u) − 1`.
/// Infinite if nothing is gained.
pub fn cleaning_value(utilisations: &[f64]) -> f64 {
    let count = utilisations.len() as f64;
    let live: f64 = utilisations.iter().sum();
    (count + live) / (count - live)
}

/// The same if live pages go, one by one, to holes elsewhere: then all of the candidates are
/// gained. For candidates that are all alike this is `plugging(u) − 1`.
pub fn plugging_value(utilisations: &[f64], eta: f64) -> f64 {
    let count = utilisations.len() as f64;
    (count + eta * utilisations.iter().sum::<f64>()) / count
}

/// The `u` at which writing in place and both ways to clean cost the same (claim H8): below it a
/// log is cheaper. 0 if *η* is 2 or less, where a log never is.
pub fn crossing(eta: f64) -> f64 {
    (1.0 - 2.0 / eta).max(0.0)
}

/// Section 5.1, after Matthews: the time of a segment over the time of its transfer alone. Times a
/// scaled cost it is the *overall write cost*, which can be compared between segment sizes.
pub fn transfer_inefficiency(segment: f64, product: f64) -> f64 {
    (product + segment) / segment
}

/// Equation (7), corrected (claim H11): the share of the hot partition that is live if the share
/// `hot` of all pages is in it, and all free space.
pub fn hot_utilisation(u_d: f64, hot: f64) -> f64 {
    if hot <= 0.0 {
        return 0.0;
    }
    u_d * hot / (1.0 - u_d + u_d * hot)
}

/// Equation (8): cost of HyLog if the share `hot` of the pages takes the share `writes` of the
/// writes. Writing in place at `hot` 0, a log at 1 (claim H12).
pub fn hybrid(u_d: f64, hot: f64, writes: f64, eta: f64) -> f64 {
    if hot <= 0.0 {
        return eta;
    }
    (1.0 - writes) * eta + writes * cleaning(cleaning_utilisation(hot_utilisation(u_d, hot)))
}

/// HyLog with a share of hot pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hybrid {
    /// Share of the pages that are hot.
    pub hot: f64,
    /// Share of the writes that go to them.
    pub writes: f64,
    /// Share of live pages in the segments that are cleaned.
    pub cleaning_utilisation: f64,
    /// Scaled cost.
    pub cost: f64,
}

/// HyLog with the share `hot` of the pages hot.
pub fn with_hot_share(u_d: f64, hot: f64, eta: f64, distribution: Distribution) -> Hybrid {
    let writes = distribution.references_to(hot);
    Hybrid {
        hot,
        writes,
        cleaning_utilisation: cleaning_utilisation(hot_utilisation(u_d, hot)),
        cost: hybrid(u_d, hot, writes, eta),
    }
}

/// HyLog with the share of hot pages that costs least, to a tenth of a per cent (section 3.5 and
/// claim H15, table H-d). Of equal ones the smallest share.
pub fn best_hot_share(u_d: f64, eta: f64, distribution: Distribution) -> Hybrid {
    let mut best = with_hot_share(u_d, 0.0, eta, distribution);
    for step in 1..=STEPS {
        let hot = f64::from(step) / f64::from(STEPS);
        let other = with_hot_share(u_d, hot, eta, distribution);
        if other.cost < best.cost {
            best = other;
        }
    }
    best
}
