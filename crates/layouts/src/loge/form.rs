//! Which form the indirection table has (section 8.2 of the paper): a choice that is made with the
//! volume, since it says where blocks may lie. The bytes on disk are the same.

use seekless_engine::superblock::Superblock;
use std::fmt;
use std::str::FromStr;

/// Cylinders on either side of its home that a block of a sorted volume may lie in, if nothing
/// else is said.
pub const DEFAULT_BAND: u8 = 2;
/// Share of the blocks, in percent, that may be misplaced in a compressed volume, if nothing else
/// is said (section 8.2.2).
pub const DEFAULT_PERCENT: u8 = 5;
/// Most percent that may be misplaced: beyond that a plain table is smaller.
const MOST_PERCENT: u8 = 35;

/// Form of the table that says where each block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableForm {
    /// A place for each block; blocks lie anywhere.
    #[default]
    Plain,
    /// Sorted Loge: each block stays within so many cylinders around its home, so an entry is a
    /// few bits.
    Sorted(u8),
    /// Compressed Loge: blocks lie at home, and at most so many percent of them are in a table of
    /// exceptions.
    Compressed(u8),
}

/// From this bit of the options of the superblock on.
const SHIFT: u32 = 18;

impl TableForm {
    /// The form that a volume was made with.
    pub fn of(superblock: &Superblock) -> TableForm {
        match superblock.layout.0 == super::DESCRIPTOR.number {
            true => TableForm::decode(superblock.options >> SHIFT),
            false => TableForm::Plain,
        }
    }

    /// What the options of the superblock say of it.
    pub(super) fn options(self) -> u32 {
        self.encode() << SHIFT
    }

    /// As it is kept in the superblock, in ten bits.
    fn encode(self) -> u32 {
        match self {
            TableForm::Plain => 0,
            TableForm::Sorted(band) => 1 | u32::from(band) << 2,
            TableForm::Compressed(percent) => 2 | u32::from(percent) << 2,
        }
    }

    /// From the superblock; what is unknown there is plain: that suits any choice of places.
    fn decode(bits: u32) -> TableForm {
        let value = (bits >> 2) as u8;
        match bits & 3 {
            1 if value > 0 => TableForm::Sorted(value),
            2 if (1..=MOST_PERCENT).contains(&value) => TableForm::Compressed(value),
            _ => TableForm::Plain,
        }
    }
}

impl fmt::Display for TableForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableForm::Plain => f.write_str("plain"),
            TableForm::Sorted(band) => write!(f, "sorted:{band}"),
            TableForm::Compressed(percent) => write!(f, "compressed:{percent}"),
        }
    }
}

/// No form of the table has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown table `{0}`: known are plain, sorted:N with N cylinders on either side (1 to 255), \
     and compressed:P with P percent of exceptions (1 to 35)"
)]
pub struct UnknownTable(String);

impl FromStr for TableForm {
    type Err = UnknownTable;

    fn from_str(text: &str) -> Result<TableForm, UnknownTable> {
        let unknown = || UnknownTable(text.to_owned());
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value.parse().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (name, value) {
            ("plain", None) => Ok(TableForm::Plain),
            ("sorted", value) => match value.unwrap_or(DEFAULT_BAND) {
                0 => Err(unknown()),
                band => Ok(TableForm::Sorted(band)),
            },
            ("compressed", value) => match value.unwrap_or(DEFAULT_PERCENT) {
                percent @ 1..=MOST_PERCENT => Ok(TableForm::Compressed(percent)),
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_come_back() {
        let forms = [
            TableForm::Plain,
            TableForm::Sorted(1),
            TableForm::Sorted(255),
            TableForm::Compressed(1),
            TableForm::Compressed(MOST_PERCENT),
        ];
        for form in forms {
            assert_eq!(form.to_string().parse(), Ok(form));
            assert_eq!(TableForm::decode(form.encode()), form);
        }
        assert_eq!("sorted".parse(), Ok(TableForm::Sorted(DEFAULT_BAND)));
        assert_eq!("compressed".parse(), Ok(TableForm::Compressed(DEFAULT_PERCENT)));
        for wrong in ["", "plain:1", "sorted:0", "sorted:256", "compressed:36", "compressed:x"] {
            assert!(wrong.parse::<TableForm>().is_err(), "{wrong}");
        }
        assert_eq!(TableForm::decode(3), TableForm::Plain);
        assert_eq!(TableForm::decode(1), TableForm::Plain);
    }
}
