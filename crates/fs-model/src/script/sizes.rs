//! Places in files where something changes: ends of fragments, blocks and indirect blocks.

use seekless_engine::rng::Rng;

const SECTOR: u64 = 512;

/// What scripts must know of a file system to reach its borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of a fragment.
    pub fragment: u64,
    /// Bytes for data: what [`super::Kind::FullDisk`] fills.
    pub capacity: u64,
    /// Bytes of a file at most.
    pub most_bytes: u64,
    /// Addresses of data in an inode.
    pub direct: u64,
    /// Addresses of an indirect block for each of its sectors.
    pub addresses: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            block: 8192,
            fragment: 4096,
            capacity: 8 << 20,
            most_bytes: 1 << 40,
            direct: 12,
            addresses: 126,
        }
    }
}

impl Shape {
    /// A place next to a border, mostly one that is reached with little data.
    pub(super) fn border(&self, rng: &mut Rng) -> u64 {
        let addresses = self.block / SECTOR * self.addresses;
        let single = self.direct + addresses;
        let double = single + addresses * addresses;
        let border = match rng.below(16) {
            0..4 => self.fragment * rng.below(20),
            4..8 => self.block * rng.below(self.direct + 4),
            8..11 => self.block * self.direct,
            11..13 => self.block * single,
            13 => self.block * double,
            14 => SECTOR * rng.below(200),
            _ => self.block * (self.direct + rng.below(addresses)),
        };
        let near = match rng.below(4) {
            0 => border.saturating_sub(1),
            1 => border + 1,
            _ => border,
        };
        near.min(self.most_bytes - self.block)
    }

    /// Bytes of a write: mostly little, at times more than one step of an operation takes.
    pub(super) fn length(&self, rng: &mut Rng) -> u64 {
        match rng.below(20) {
            0 => 300 * 1024 + rng.below(3),
            1..5 => self.block,
            5..9 => self.fragment,
            9..12 => self.block * (1 + rng.below(3)) + rng.below(3) - 1,
            _ => 1 + rng.below(2 * self.fragment),
        }
    }
}
