//! What a crash may leave of an operation beside its old state and its new one.

use seekless_formats::{Finding, Nature};

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Damage {
    /// Anything may have become of what the operation changed.
    Anything,
    /// Space or an inode is in use and nothing leads to it.
    Leak,
    /// A count of links is too high.
    Count,
    /// Something in use is marked as free.
    Maps,
    /// A name that was changed is there, and its old name too.
    BothNames,
    /// The same of a directory, whose `..` may lead to either parent.
    TwoParents,
    /// Some of several sectors are new, the others old.
    Sectors,
    /// The size lies between the old one and the new one.
    Size,
    /// Blocks that are new to the file show what they held before.
    Stale,
}

impl Damage {
    /// All of them.
    pub const ALL: [Damage; 9] = [
        Damage::Anything,
        Damage::Leak,
        Damage::Count,
        Damage::Maps,
        Damage::BothNames,
        Damage::TwoParents,
        Damage::Sectors,
        Damage::Size,
        Damage::Stale,
    ];

    /// The word in tables and stories.
    pub fn word(self) -> &'static str {
        match self {
            Damage::Anything => "anything",
            Damage::Leak => "leak",
            Damage::Count => "high count",
            Damage::Maps => "late maps",
            Damage::BothNames => "both names",
            Damage::TwoParents => "two parents",
            Damage::Sectors => "mixed sectors",
            Damage::Size => "size between",
            Damage::Stale => "stale blocks",
        }
    }

    /// What it is, in a sentence of the page.
    pub fn meaning(self) -> &'static str {
        match self {
            Damage::Anything => {
                "What the operation changed may be old, new, gone or mixed with other changes."
            }
            Damage::Leak => "Space or an inode is in use, and no name leads to it.",
            Damage::Count => "A count of links is higher than the number of names.",
            Damage::Maps => "Something in use is marked as free in the maps, until the repair.",
            Damage::BothNames => "The old name and the new one both lead to the object.",
            Damage::TwoParents => {
                "A directory has two names, or its `..` leads to the parent that it had."
            }
            Damage::Sectors => "Some sectors of 512 bytes are new, the others old.",
            Damage::Size => "The size lies between the old one and the new one.",
            Damage::Stale => "Blocks that are new to the file show what they held before.",
        }
    }

    /// What a repair does about it; nothing if it cannot know, or need not.
    pub fn repair(self) -> Option<&'static str> {
        match self {
            Damage::Anything => Some("anything to what was not synced"),
            Damage::Leak => Some("frees it"),
            Damage::Count => Some("lowers the count"),
            Damage::Maps => Some("makes the maps from the inodes"),
            Damage::TwoParents => Some("drops a name, mends `..`"),
            Damage::BothNames | Damage::Sectors | Damage::Size | Damage::Stale => None,
        }
    }

    /// True if a program can see it: then the operation is not atomic.
    pub fn is_seen(self) -> bool {
        !matches!(self, Damage::Leak | Damage::Count | Damage::Maps | Damage::TwoParents)
    }

    /// The damage that a check of an image has found.
    pub fn of(finding: &dyn Finding) -> Damage {
        match finding.nature() {
            Nature::HighCount => Damage::Count,
            Nature::TwoParents => Damage::TwoParents,
            Nature::Leak => Damage::Leak,
            Nature::Maps => Damage::Maps,
            Nature::Other => Damage::Anything,
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Damages(u16);

impl Damages {
    /// No damage.
    pub const NONE: Damages = Damages(0);

    /// A set of these.
    pub const fn of(list: &[Damage]) -> Damages {
        let (mut bits, mut at) = (0, 0);
        while at < list.len() {
            bits |= 1 << list[at] as u8;
            at += 1;
        }
        Damages(bits)
    }

    /// True if one is in it.
    pub fn has(self, damage: Damage) -> bool {
        self.0 >> damage as u8 & 1 == 1
    }

    /// The set with one more.
    #[must_use]
    pub fn with(self, damage: Damage) -> Damages {
        Damages(self.0 | 1 << damage as u8)
    }

    /// The set with one less.
    #[must_use]
    pub fn without(self, damage: Damage) -> Damages {
        Damages(self.0 & !(1 << damage as u8))
    }

    /// The kinds in either set.
    #[must_use]
    pub fn and(self, other: Damages) -> Damages {
        Damages(self.0 | other.0)
    }

    /// Those of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Damage> {
        Damage::ALL.into_iter().filter(move |one| self.has(*one))
    }

    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
