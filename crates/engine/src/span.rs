//! Spans of time as people write them: `500us`, `20ms`, `1.5s`.

use crate::units::Time;
use std::str::FromStr;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its length in nanoseconds.
    pub ns: Time,
}

/// The longest span accepted, in nanoseconds: a day.
const LONGEST_NS: f64 = 86_400e9;

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let shape = || format!("`{text}` is not a span of time; write 500us, 20ms, 1.5s or 2m");
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: f64 = number.parse().map_err(|_| shape())?;
        let unit_ns = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            _ => return Err(shape()),
        };
        let ns = number * unit_ns;
        if ns > LONGEST_NS {
            return Err(format!("`{text}` is too long; the longest span is a day"));
        }
        Ok(Span { ns: ns.round() as Time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_numbers_with_units() {
        for (text, ns) in [
            ("0s", 0),
            ("250ns", 250),
            ("1.5us", 1500),
            ("20ms", 20_000_000),
            ("2m", 120_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Span { ns }), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "5", "ms", "-1s", "1..2s", "1h30", "1e9s", "99999m"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
