//! The line of a field in the text of a specification, for error messages.

/// The line, from one, of a field by its path, such as `cache.segments` or `zones.sectors`. For
/// zones it is the one whose number (from one) the problem names. If the field is missing, it is
/// the line of its table.
pub(super) fn line_of(text: &str, field: &str, problem: &str) -> Option<u32> {
    let path: Vec<&str> = field.split('.').collect();
    let zone = field.starts_with("zones").then(|| zone_in(problem)).flatten();
    let found = (1..=path.len()).rev().find_map(|parts| find(text, &path[..parts], zone))?;
    u32::try_from(found + 1).ok()
}

/// The first number behind the word `zone`.
fn zone_in(problem: &str) -> Option<usize> {
    let behind = problem.split("zone ").nth(1)?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// The line, from zero, of a key or of the head of a table.
fn find(text: &str, path: &[&str], zone: Option<usize>) -> Option<usize> {
    let wanted = path.join(".");
    let (mut table, mut number) = (String::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let here = |number| zone.is_none_or(|zone| number == 0 || zone == number);
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            number = if name.trim() == table { number + 1 } else { 1 };
            name.trim().clone_into(&mut table);
            if table == wanted && here(number) {
                return Some(index);
            }
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            number = 0;
            name.trim().clone_into(&mut table);
            if table == wanted {
                return Some(index);
            }
        } else if let Some((key, _)) = line.split_once('=') {
            let key = key.trim();
            let whole = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            if whole == wanted && here(number) {
                return Some(inline(text, index, zone));
            }
        }
    }
    None
}

/// Of a list of tables in braces that begins on a line, the line of the one with that number.
fn inline(text: &str, first: usize, zone: Option<usize>) -> usize {
    let Some(mut left) = zone else { return first };
    for (index, line) in text.lines().enumerate().skip(first) {
        let braces = line.split('#').next().unwrap_or_default().matches('{').count();
        if braces >= left {
            return index;
        }
        left -= braces;
    }
    first
}

#[cfg(test)]
mod tests {
    use super::line_of;
    use crate::spec::Spec;

    const TABLES: &str = "name = 'x' # [zones]\nrpm = 6000\nheads = 2\ncylinders = 10\n\
        head_switch_ms = 1\noverhead_ms = 0\nseek.constant.ms = 2\n\n[cache]\nsegments = 2\n\
        segment_sectors = 10\n\n[[zones]]\nsectors = 10\nlast_cylinder = 4\n\
        track_skew = 1\ncylinder_skew = 1\n\n[[zones]] # inner\nsectors = 9\ntrack_skew = 1\n\
        cylinder_skew = 1\n";
    const INLINE: &str = "zones = [\n  { sectors = 10 },\n  # none\n  { sectors = 9,\n\
        track_skew = 1 },\n]\n";

    #[test]
    fn fields_are_found() {
        let line = |field, problem| line_of(TABLES, field, problem);
        assert_eq!(line("rpm", ""), Some(2));
        assert_eq!(line("cache.segments", ""), Some(10));
        assert_eq!(line("cache.write_segments", "left out: the table"), Some(9));
        assert_eq!(line("zones.sectors", "0 of zone 1 is too few"), Some(14));
        assert_eq!(line("zones.sectors", "0 of zone 2 is too few"), Some(20));
        assert_eq!(line("zones.offset", "9 of zone 2"), Some(19));
        assert_eq!(line("seek", ""), None);
        assert_eq!(line("bus.arbitration_ms", ""), None);
        assert_eq!(line_of(INLINE, "zones.sectors", "0 of zone 1"), Some(2));
        assert_eq!(line_of(INLINE, "zones.track_skew", "7 of zone 2"), Some(4));
    }

    #[test]
    fn errors_have_their_line() {
        let fails = |from: &str, to: &str, said: &str| {
            let text = format!("summary = ''\n{TABLES}").replacen(from, to, 1);
            let error = Spec::parse(&text).expect_err("is wrong").to_string();
            assert!(error.contains(said), "{error}");
        };
        fails("rpm = 6000", "rpm = 6", "line 3: ");
        fails("head_switch_ms = 1", "head_switch_ms = -1", "line 6: ");
        fails("track_skew = 1", "track_skew = 10", "line 17: ");
        fails("sectors = 9", "sectors = 9\nfirst_cylinder = 6", "line 22: ");
        fails("sectors = 9", "sectors = 9\nfirst_cylinder = 4", "line 22: ");
        fails("sectors = 9", "sectors = 9\nlast_cylinder = 8", "line 22: ");
        fails("rpm = 6000", "rpm = fast", "line 3: the disk specification cannot be read: ");
        fails("rpm = 6000", "rpm = 'fast'", "expected f64 in `rpm = 'fast'`");
        fails("rpm = 6000", "rpm = 6000\ncolour = 1", "line 4: ");
        fails("sectors = 9", "sectors = []", "line 21: ");
    }
}
