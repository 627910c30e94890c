//! Sizes as people write them: `4k`, `512M`, `10G`.

use crate::units::BLOCK_BYTES;
use std::fmt;
use std::str::FromStr;

/// A number of bytes that is a whole, positive number of 4 KiB blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    blocks: u64,
}

impl Size {
    /// The size in 4 KiB blocks, at least 1.
    pub fn blocks(self) -> u64 {
        self.blocks
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.blocks * BLOCK_BYTES as u64
    }

    /// A size given in 4 KiB blocks, for printing.
    pub fn from_blocks(blocks: u64) -> Size {
        Size { blocks }
    }
}

/// The largest size accepted, in bytes: 8 PiB, beyond every file system in use.
const LARGEST_BYTES: u64 = 8 << 50;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let bytes = parse_bytes(text)?;
        let block = BLOCK_BYTES as u64;
        if bytes == 0 {
            return Err("a size must be at least one block of 4 KiB".to_owned());
        }
        if bytes > LARGEST_BYTES {
            return Err(format!("{bytes} bytes are too many; the largest size is 8P"));
        }
        if !bytes.is_multiple_of(block) {
            let below = bytes / block * block;
            let above = below + block;
            let nearest = if below == 0 {
                format!("the nearest is {above}")
            } else {
                format!("the nearest are {below} and {above}")
            };
            return Err(format!("{bytes} bytes are not a whole number of 4 KiB blocks; {nearest}"));
        }
        Ok(Size { blocks: bytes / block })
    }
}

/// A number of bytes as people write it, of any size.
///
/// # Errors
/// Text that is no size, in words for people.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let shape = || {
        format!("`{text}` is not a size; write bytes, or a number with k, M, G, T (powers of 1024)")
    };
    if number.is_empty() {
        return Err(shape());
    }
    let too_many = || format!("`{text}` is too large; the largest size is 8P");
    let number: u64 = number.parse().map_err(|_| too_many())?;
    // 10G, 10GB and 10GiB all mean the same.
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return Err(shape()),
    };
    number.checked_mul(1 << shift).ok_or_else(too_many)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        let names = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = bytes as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < names.len() {
            value /= 1024.0;
            unit += 1;
        }
        if value.fract() == 0.0 {
            write!(f, "{value:.0} {}", names[unit])
        } else {
            write!(f, "{value:.1} {}", names[unit])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_people_write() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("8KiB", 8192),
            ("512M", 512 << 20),
            ("512MB", 512 << 20),
            ("10G", 10 << 30),
            ("2t", 2 << 40),
            ("8192b", 8192),
        ] {
            assert_eq!(text.parse::<Size>().map(Size::bytes), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        for (text, part) in [
            ("", "not a size"),
            ("k", "not a size"),
            ("-4k", "not a size"),
            ("1.5G", "not a size"),
            ("4kk", "not a size"),
            ("4ib", "not a size"),
            ("4x", "not a size"),
            ("0", "at least one block"),
            ("1", "the nearest is 4096"),
            ("5000", "the nearest are 4096 and 8192"),
            ("9P", "too many"),
            ("99999999999999999999", "too large"),
            ("18446744073709551615", "too many"),
            ("99999999P", "too large"),
        ] {
            let error = text.parse::<Size>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn prints_the_largest_fitting_unit() {
        for (text, shown) in [("4k", "4 KiB"), ("1536k", "1.5 MiB"), ("10G", "10 GiB")] {
            let size: Size = text.parse().expect(text);
            assert_eq!(size.to_string(), shown);
        }
    }
}
