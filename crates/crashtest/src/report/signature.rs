//! Signatures: what bad states of one cause have in common.
//!
//! Two states of one cause rarely print the same line: numbers of rows, checksums and temporary
//! paths differ. The signature takes the last line of the output and replaces these by letters:
//! numbers by `N`, hexadecimal ids by `H`, paths by `P`. It also holds the kind and the exit code.

use super::Kind;
use super::clean::{printable, shorten};

/// Characters of the normalised line at most.
const MOST_CHARS: usize = 100;
/// Characters of the line that are looked at. Normalisation can only make a line shorter than
/// this by replacing long numbers and paths.
const MOST_INPUT: usize = 4096;
/// Digits of the shortest hexadecimal id that does not begin with `0x`.
const LEAST_HEX: usize = 6;

/// What states that fail in the same way have in common, such as `exit 1: row N is missing`.
pub fn signature(kind: Kind, exit: Option<i32>, output: &str) -> String {
    let how = match (kind, exit) {
        (Kind::Hung, _) => "time limit exceeded".to_owned(),
        (Kind::Good, _) => "good".to_owned(),
        (_, Some(code)) => format!("exit {code}"),
        (_, None) => "killed or not started".to_owned(),
    };
    let line = output.lines().map(str::trim).rfind(|line| !line.is_empty());
    format!("{how}: {}", line.map_or_else(|| "no output".to_owned(), normalise))
}

/// A line without what differs from state to state.
fn normalise(line: &str) -> String {
    let head: String = line.chars().take(MOST_INPUT).collect();
    let clean = printable(&head);
    let mut out = String::new();
    let mut rest = clean.as_str();
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let (length, shown) = match token(rest, before) {
            Some((length, letter)) => (length, letter),
            None => (c.len_utf8(), c),
        };
        out.push(shown);
        before = rest[..length].chars().next_back().unwrap_or(c);
        rest = &rest[length..];
    }
    let words: Vec<&str> = out.split_whitespace().collect();
    shorten(&words.join(" "), MOST_CHARS)
}

/// Length of the replaceable token at the beginning of `rest`, and its letter.
fn token(rest: &str, before: char) -> Option<(usize, char)> {
    let inside = before.is_alphanumeric() || before == '_';
    if let Some(length) = quoted_path(rest).or_else(|| path(rest, before)) {
        return Some((length, 'P'));
    }
    if !inside && let Some(length) = hex(rest) {
        return Some((length, 'H'));
    }
    number(rest, inside).map(|length| (length, 'N'))
}

/// A quoted string with a slash in it.
fn quoted_path(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| "'\"`".contains(*c))?;
    let end = rest[1..].find(quote)? + 1;
    rest[1..end].contains('/').then_some(end + 1)
}

/// An absolute path without blanks.
fn path(rest: &str, before: char) -> Option<usize> {
    let boundary = before.is_whitespace() || "'\"`([{<=:,".contains(before);
    let ends = |c: char| c.is_whitespace() || "'\"`()[]{}<>,;:".contains(c);
    let length = rest.find(ends).unwrap_or(rest.len());
    let text = rest[..length].trim_end_matches('.');
    (boundary && text.len() > 1 && text.starts_with('/')).then_some(text.len())
}

/// `0x…`, a UUID, or a run of hexadecimal digits with a letter and a digit in it.
fn hex(rest: &str) -> Option<usize> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = |text: &str| text.find(|c| !is_word(c)).unwrap_or(text.len());
    let length = word(rest);
    let text = &rest[..length];
    let all_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).is_some_and(all_hex) {
        return Some(length);
    }
    if let Some(uuid) = rest.get(..36)
        && word(&rest[36..]) == 0
        && uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && uuid.split('-').all(all_hex)
    {
        return Some(36);
    }
    let mixed =
        text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic());
    (length >= LEAST_HEX && mixed && all_hex(text)).then_some(length)
}

/// Decimal digits, with a sign if no word comes before, and a fraction.
fn number(rest: &str, inside: bool) -> Option<usize> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let sign = usize::from(!inside && rest.starts_with('-'));
    let whole = digits(&rest[sign..]);
    if whole == 0 {
        return None;
    }
    let length = sign + whole;
    let fraction = rest[length..].strip_prefix('.').map_or(0, digits);
    Some(if fraction == 0 { length } else { length + 1 + fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        signature(Kind::Broken, Some(1), text).strip_prefix("exit 1: ").expect("prefix").to_owned()
    }

    #[test]
    fn numbers_ids_and_paths_become_letters() {
        for (text, expected) in [
            ("row 17 of 20 is missing", "row N of N is missing"),
            ("took -3.25 s, page12 bad", "took N s, pageN bad"),
            ("want 0xDEADbeef got 9f3a2c1b77", "want H got H"),
            ("node 123e4567-e89b-12d3-a456-426614174000 gone", "node H gone"),
            ("open /tmp/x.81/mnt/d.db: No such file", "open P: No such file"),
            ("cannot read '/a b/c 7' and \"x/y\"", "cannot read P and P"),
            ("key 'alpha' and/or defaced", "key 'alpha' and/or defaced"),
            ("  first\nlast 5\n\n \n", "last N"),
            ("a  \t b", "a b"),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
    }

    #[test]
    fn states_of_one_cause_share_it_and_others_do_not() {
        let of = |output| signature(Kind::Lost, Some(1), output);
        assert_eq!(of("row 3 is missing in /tmp/a1/d"), of("row 41 is missing in /tmp/b2/d"));
        assert_ne!(of("row 3 is missing"), of("row 3 is damaged"));
        assert_ne!(of("x"), signature(Kind::Lost, Some(2), "x"));
        assert_eq!(signature(Kind::Broken, Some(3), ""), "exit 3: no output");
        assert_eq!(signature(Kind::Hung, None, "at 5"), "time limit exceeded: at N");
        assert_eq!(signature(Kind::Failed, None, "x"), "killed or not started: x");
    }

    #[test]
    fn hostile_lines_give_short_printable_signatures() {
        for text in ["\0\x1b[2J".repeat(1 << 18), "ä/".repeat(1 << 19), "'".repeat(1 << 16)] {
            let line = line(&text);
            assert!(line.chars().count() <= MOST_CHARS, "{line}");
            assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
        }
    }
}
