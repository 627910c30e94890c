//! Analytic models of eager writing: the results to expect of a layout, without a simulation.
//!
//! Four questions, a module each. [`locate`]: how long until a free slot passes the head, if free
//! space is scattered at random (equations 1 to 6 and 11 of the virtual log paper). [`fill`]: the
//! cost of a write if a compactor keeps tracks empty and each is filled up to a threshold
//! (equations 7 to 10, and the exact form). [`loge`]: the costs in Loge's section 5.2. [`hylog`]:
//! the cost of logs, and when they are worth it. [`monte`] simulates each process with random
//! numbers, and [`tiny`] simulates logs with their cleaners; tests compare the formulas with both.
//! [`report`] makes tables, as text and JSON.
//!
//! Claims are numbered as in the tests: `V` for the virtual log paper (Wang, Anderson and
//! Patterson, *Virtual Log Based File Systems for a Programmable Disk*, 1999), `L` for Loge
//! (English and Stepanov, *Loge: a self-organizing disk controller*, 1992), `H` for HyLog (Wang,
//! Zhao and Bunt, 2004). If the formula of a paper is inexact, its doc comment gives the error.
//!
//! Formulas are plain functions of numbers in the ranges that they document. Numbers from outside
//! go through [`Params`], [`loge::Drive`], [`hylog::Disk`] and the tables, which check them.

pub mod fill;
pub mod hylog;
pub mod locate;
pub mod loge;
pub mod monte;
mod params;
mod plot;
pub mod report;
mod table;
pub mod tiny;

pub use params::{Overrides, Params};
pub use table::{Column, Quantity, Table};

/// Why a model cannot be evaluated. Messages have the form `cause; remedy`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A number is outside the range that the model is made for.
    #[error("{what} {value}: must be {range}")]
    Range {
        /// Meaning of the number.
        what: &'static str,
        /// The number.
        value: f64,
        /// The range in words.
        range: &'static str,
    },
    /// Slots do not fill a track.
    #[error(
        "slots of {slot} sectors do not fill a track of {sectors}; \
         a track must hold a whole number of them, at least two"
    )]
    Slots {
        /// Sectors in a slot.
        slot: u32,
        /// Sectors on a track.
        sectors: u32,
    },
    /// Physical blocks do not make up a logical block.
    #[error(
        "logical blocks of {logical} sectors on tracks of {sectors}; \
         they must fill tracks without a rest"
    )]
    Logical {
        /// Sectors in a logical block.
        logical: u32,
        /// Sectors on a track.
        sectors: u32,
    },
    /// A table without rows.
    #[error("no {0} to evaluate the model at; give at least one")]
    Nothing(&'static str),
}

/// The share `value`, at least 0 and below 1.
fn below_one(what: &'static str, value: f64) -> Result<f64, ModelError> {
    let fits = (0.0..1.0).contains(&value);
    let range = "at least 0 and below 1";
    if fits { Ok(value) } else { Err(ModelError::Range { what, value, range }) }
}

#[cfg(test)]
mod tests;
