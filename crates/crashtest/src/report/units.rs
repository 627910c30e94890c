//! Numbers with their units, as all writers show them.

/// Bytes in the largest binary unit that leaves at least one, such as `1.5 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let Some(power) = (1..=UNITS.len()).rev().find(|power| count >> (10 * power) > 0) else {
        return format!("{count} bytes");
    };
    let unit = 1_u64 << (10 * power);
    let name = UNITS[power - 1];
    match count % unit {
        0 => format!("{} {name}", count / unit),
        _ => format!("{:.1} {name}", count as f64 / unit as f64),
    }
}

/// A count and its noun, such as `1 state`, `12 states`, `2 flushes` or `3 boundaries`.
pub fn many(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if noun.ends_with("sh") => format!("{count} {noun}es"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Seconds with one decimal below a minute, then minutes and seconds.
pub fn seconds(time: f64) -> String {
    // Rounded first, so that no time reads `60.0 s`.
    if !time.is_finite() || (time * 10.0).round() < 600.0 {
        return format!("{time:.1} s");
    }
    let whole = time.round() as u64;
    format!("{} min {:02} s", whole / 60, whole % 60)
}

/// Share of `part` in `whole` in percent. It is 100 only if nothing is missing.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "0%".to_owned(),
        _ if part >= whole => "100%".to_owned(),
        _ => {
            let share = (part as f64 / whole as f64 * 1000.0).floor() / 10.0;
            format!("{share:.1}%")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!([0, 1023, 1024, 1536].map(bytes), ["0 bytes", "1023 bytes", "1 KiB", "1.5 KiB"]);
        assert_eq!(bytes(256 << 20), "256 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
        assert_eq!([many(1, "state"), many(0, "state")], ["1 state", "0 states"]);
        assert_eq!([many(2, "flush"), many(3, "boundary")], ["2 flushes", "3 boundaries"]);
        assert_eq!(
            [0.04, 59.94, 59.96, 125.2].map(seconds),
            ["0.0 s", "59.9 s", "1 min 00 s", "2 min 05 s"]
        );
        assert_eq!(
            [(0, 0), (1, 3), (2999, 3000), (3, 3)].map(|(a, b)| percent(a, b)),
            ["0%", "33.3%", "99.9%", "100%"]
        );
    }
}
