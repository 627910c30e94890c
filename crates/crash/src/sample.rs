//! Outcomes by chance: how likely writes are to be kept or torn, and the draws that decide.
//!
//! The number and order of draws belong to what a seed means: a change here changes the states that
//! every seed of the prover, of `replay-crashes` and of the crashing disk leads to.

use crate::contract::AtRisk;
use crate::fate::Fate;
use crate::tear;
use seekless_engine::rng::Rng;

/// How a share of writes is chosen, once for an outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// Any share, uniformly.
    Uniform,
    /// One of these.
    OneOf([f64; 3]),
}

/// Shares of kept writes: few, half, most.
pub const KEEP: Share = Share::OneOf([0.1, 0.5, 0.9]);
/// Shares of torn writes: none, some, most.
pub const TEAR: Share = Share::OneOf([0.0, 0.2, 0.6]);

impl Share {
    /// Draws a share.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Share::Uniform => rng.unit(),
            Share::OneOf(shares) => shares[rng.below(shares.len() as u64) as usize],
        }
    }
}

/// How an outcome is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// A share of all writes is kept; before that, a share is torn, if any are.
    Shares {
        /// Of kept writes.
        keep: Share,
        /// Of torn writes.
        tear: Option<Share>,
    },
    /// Each write has any fate: see [`tear::draw_any`].
    AnyFate,
}

impl Sampler {
    /// Draws an outcome: a fate for each write.
    pub fn draw(self, writes: &[AtRisk], rng: &mut Rng) -> Vec<Fate> {
        match self {
            Sampler::Shares { keep, tear } => {
                let keep = keep.draw(rng);
                let chances = Chances { keep, tear: tear.map(|share| share.draw(rng)) };
                writes.iter().map(|write| chances.draw(write, rng)).collect()
            }
            Sampler::AnyFate => writes.iter().map(|write| any_fate(write, rng)).collect(),
        }
    }
}

/// How likely each write is to be kept or torn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// To be kept, if it is not torn.
    pub keep: f64,
    /// To be torn, if it can be; without it nothing is drawn for that.
    pub tear: Option<f64>,
}

impl Chances {
    /// Draws the fate of a write.
    pub fn draw(self, write: &AtRisk, rng: &mut Rng) -> Fate {
        if write.forced {
            return Fate::Kept;
        }
        if let (Some(tear), Some(sectors)) = (self.tear, write.sectors)
            && rng.chance(tear)
        {
            return tear::draw(sectors, rng);
        }
        if rng.chance(self.keep) { Fate::Kept } else { Fate::Lost }
    }
}

/// Any fate of a write.
fn any_fate(write: &AtRisk, rng: &mut Rng) -> Fate {
    match write.sectors {
        _ if write.forced => Fate::Kept,
        Some(sectors) => tear::draw_any(sectors, rng),
        None => [Fate::Lost, Fate::Kept][rng.below(2) as usize].clone(),
    }
}
