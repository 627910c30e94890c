//! What is remembered of images, so that a look at another one need not do everything again.
//!
//! Most crash states of a case differ in a few blocks. What a check or a repair of an image says
//! depends only on the blocks that it reads. So each run of one leaves a *transcript*: which blocks
//! it read, one after the other, what was in them, what it wrote and what it said. An image that
//! holds the same in all of these blocks leads to the same end, and the run is left out.
//!
//! Contents are compared by number: [`contents`] gives equal contents the same one. An image is a
//! list of numbers. [`transcripts`] finds the transcript of an image, and [`recorder`] makes one.

pub mod contents;
pub mod recorder;
pub mod transcripts;

pub use contents::{Content, Contents};
pub use transcripts::Transcripts;
