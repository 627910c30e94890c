//! Blocks that are written one by one, since a command with some of them was refused.

/// How often a block is refused in a row before it is not the places that count as bad, but the
/// device.
const MOST_REFUSALS: u32 = 4;

/// Which of several blocks is on its way, and how often it was refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne {
    at: usize,
    refusals: u32,
}

impl OneByOne {
    /// The block that is on its way.
    pub fn at(self) -> usize {
        self.at
    }

    /// The device has taken it. Returns the one that follows, if there are so many.
    pub fn passed(&mut self) -> usize {
        *self = OneByOne { at: self.at + 1, refusals: 0 };
        self.at
    }

    /// The device refuses it. True if it may be tried at another place.
    pub fn refused(&mut self) -> bool {
        self.refusals += 1;
        self.refusals < MOST_REFUSALS
    }
}
