//! How often each page is requested: the distributions of the HyLog study.
//!
//! A distribution knows pages by *rank*, the most popular first. Its cumulative function says which
//! share of the references goes to the most popular share of the pages, which is the *w(h)* of the
//! cost model; its inverse turns uniform numbers into ranks. [`Sampler`] scatters the ranks over
//! the volume by a fixed permutation, because popular pages do not lie side by side.

mod permutation;

pub use permutation::Permutation;

use seekless_engine::rng::Rng;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Shares of references by shares of pages. Made by parsing, which checks the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// All pages alike: *w = h*.
    #[default]
    Uniform,
    /// `references` (a share) go to `pages` (a share) of the pages, uniformly inside both groups.
    HotCold {
        /// Share of the references that the hot pages get, above 0 and below 1.
        references: f64,
        /// Share of the pages that are hot, above 0 and below 1.
        pages: f64,
    },
    /// Knuth's self-similar distribution (volume 3, section 6.1): `references` go to `pages` of the
    /// pages, and so on inside. *w = h^θ* with *θ = ln references / ln pages*.
    ///
    /// Claim H14: the probability of page *i* is *(i^θ − (i−1)^θ)/N^θ*; the HyLog paper prints a
    /// reciprocal.
    Knuth {
        /// Share of the references, above 0 and below 1.
        references: f64,
        /// Share of the pages, above 0 and below 1.
        pages: f64,
    },
    /// *f(x) = most·x^power/(half + x^power)* with *x* and *f* **in percent** (claim H13), cut off
    /// at 100: what Hsu, Smith and Young fitted to production databases.
    Hill {
        /// The limit of *f*, in percent.
        most: f64,
        /// The *k* of the formula.
        half: f64,
        /// The exponent.
        power: f64,
    },
}

/// Why a text is not a distribution. Messages have the form `cause; remedy`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// It does not have the right form.
    #[error(
        "`{0}` is not a distribution; write uniform, hotcold:90,10 or knuth:80,20 (percent of the \
         references, percent of the pages), or hill:105,.528,.546"
    )]
    Form(String),
    /// A number is not a percentage between 0 and 100.
    #[error("`{0}`: percentages must lie between 0 and 100; leave out both ends")]
    Percentage(String),
    /// The hot pages would be the cold ones.
    #[error("`{0}`: the hot pages get less than their share; put the larger number first")]
    Inverted(String),
    /// A Hill function that is not a distribution.
    #[error(
        "`{0}`: a Hill function needs positive numbers and must reach 100 % at 100 % of the \
         pages, which this one does not; take a larger first number"
    )]
    Hill(String),
}

/// The Hill function in percent, not cut off.
fn hill(percent: f64, most: f64, half: f64, power: f64) -> f64 {
    let raised = percent.powf(power);
    most * raised / (half + raised)
}

impl Distribution {
    /// The fit to production databases (claim H13).
    pub const DATABASE: Distribution =
        Distribution::Hill { most: 105.0, half: 0.528, power: 0.546 };

    /// Knuth(a, b) with `a` and `b` in percent, as the paper writes it.
    pub const fn knuth(a: f64, b: f64) -> Distribution {
        Distribution::Knuth { references: a / 100.0, pages: b / 100.0 }
    }

    /// Share of the references that go to the most popular share `pages` (0 to 1): the *w(h)* of
    /// the HyLog model. Rises from 0 to 1.
    pub fn references_to(&self, pages: f64) -> f64 {
        match *self {
            Distribution::Uniform => pages,
            Distribution::HotCold { references, pages: hot } => {
                if pages <= hot {
                    references * pages / hot
                } else {
                    references + (1.0 - references) * (pages - hot) / (1.0 - hot)
                }
            }
            Distribution::Knuth { references, pages: part } => {
                pages.powf(references.ln() / part.ln())
            }
            Distribution::Hill { most, half, power } => {
                (hill(pages * 100.0, most, half, power) / 100.0).min(1.0)
            }
        }
    }

    /// The most popular share of the pages that gets the share `references` (0 to 1): the inverse
    /// of [`Distribution::references_to`].
    // Not for the compiler to compute ahead where the distribution is uniform.
    #[inline(never)]
    pub fn pages_for(&self, references: f64) -> f64 {
        match *self {
            Distribution::Uniform => references,
            Distribution::HotCold { references: hot, pages } => {
                if references <= hot {
                    pages * references / hot
                } else {
                    pages + (1.0 - pages) * (references - hot) / (1.0 - hot)
                }
            }
            Distribution::Knuth { references: a, pages: b } => references.powf(b.ln() / a.ln()),
            Distribution::Hill { most, half, power } => {
                let percent = references * 100.0;
                (half * percent / (most - percent)).powf(1.0 / power) / 100.0
            }
        }
        .min(1.0)
    }

    /// A rank in `0..count`, the most popular being 0.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn rank(&self, count: u64, rng: &mut Rng) -> u64 {
        if *self == Distribution::Uniform {
            return rng.below(count);
        }
        assert!(count > 0, "a rank among no pages");
        // Conversion of a float cuts off the fraction: ranks from zero on.
        ((self.pages_for(rng.unit()) * count as f64) as u64).min(count - 1)
    }

    fn checked(self, text: &str) -> Result<Distribution, DistributionError> {
        let inside = |share: f64| share > 0.0 && share < 1.0;
        match self {
            Distribution::Uniform => Ok(self),
            Distribution::HotCold { references, pages }
            | Distribution::Knuth { references, pages } => {
                if !(inside(references) && inside(pages)) {
                    return Err(DistributionError::Percentage(text.to_owned()));
                }
                if references < pages {
                    return Err(DistributionError::Inverted(text.to_owned()));
                }
                Ok(self)
            }
            Distribution::Hill { most, half, power } => {
                let positive = most > 0.0 && half > 0.0 && power > 0.0;
                let finite = most.is_finite() && half.is_finite() && power.is_finite();
                let whole = hill(100.0, most, half, power) >= 100.0 && most > 100.0;
                if positive && finite && whole {
                    Ok(self)
                } else {
                    Err(DistributionError::Hill(text.to_owned()))
                }
            }
        }
    }
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Distribution, DistributionError> {
        let form = || DistributionError::Form(text.to_owned());
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let numbers = if numbers.is_empty() {
            Vec::new()
        } else {
            let parsed = numbers.split(',').map(|part| part.trim().parse::<f64>());
            parsed.collect::<Result<Vec<_>, _>>().map_err(|_| form())?
        };
        let found = match (name, numbers.as_slice()) {
            ("uniform", []) => Distribution::Uniform,
            ("hotcold", &[a, b]) => {
                Distribution::HotCold { references: a / 100.0, pages: b / 100.0 }
            }
            ("knuth", &[a, b]) => Distribution::knuth(a, b),
            ("hill", []) => Distribution::DATABASE,
            ("hill", &[most, half, power]) => Distribution::Hill { most, half, power },
            _ => return Err(form()),
        };
        found.checked(text)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Percentages were divided by a hundred: rounding takes the error away again.
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        match *self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::HotCold { references, pages } => {
                write!(f, "hotcold:{},{}", percent(references), percent(pages))
            }
            Distribution::Knuth { references, pages } => {
                write!(f, "knuth:{},{}", percent(references), percent(pages))
            }
            Distribution::Hill { most, half, power } => write!(f, "hill:{most},{half},{power}"),
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Draws addresses: a distribution over ranks, and a permutation from ranks to addresses.
#[derive(Clone, Debug)]
pub struct Sampler {
    distribution: Distribution,
    count: u64,
    scatter: Permutation,
}

impl Sampler {
    /// Addresses in `0..count`. The permutation depends only on `seed` and `count`, so that all
    /// phases of a run have the same popular addresses.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(distribution: Distribution, count: u64, seed: u64) -> Sampler {
        Sampler { distribution, count, scatter: Permutation::new(count, seed) }
    }

    /// The next address.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.distribution.rank(self.count, rng);
        // Scattering uniform ranks would cost time and change nothing.
        if self.distribution == Distribution::Uniform { rank } else { self.scatter.at(rank) }
    }
}

#[cfg(test)]
mod tests;
