//! Text from outside, made safe to show.
//!
//! A check may print escape sequences, NUL bytes or megabytes. [`printable`] replaces what a
//! terminal or an XML reader would act on or refuse; [`last_lines`] and [`shorten`] bound the
//! length. Escaping for HTML and XML comes after this and belongs to the writers.

/// Mark of omitted text.
pub const ELLIPSIS: char = '…';

/// True for characters that act instead of being shown, or that XML forbids.
fn is_unsafe(c: char) -> bool {
    let bidirectional = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    let not_xml = matches!(c, '\u{fffe}' | '\u{ffff}');
    let separator = matches!(c, '\u{2028}' | '\u{2029}');
    bidirectional || not_xml || separator || (c.is_control() && c != '\n' && c != '\t')
}

/// The text with control characters spelled as `\x1b` or `\u{202e}`. Newlines and tabs stay, and
/// `\r\n` becomes a newline.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        match c {
            c if !is_unsafe(c) => out.push(c),
            c if c.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    out
}

/// [`printable`] text on one line, with at most `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    // One character of input gives at least one of output: the rest cannot be shown.
    let head: String = text.chars().take(most + 1).collect();
    let flat = head.replace(['\n', '\t'], " ");
    shorten(printable(&flat).trim(), most)
}

/// The beginning of a text, marked with an ellipsis if something is missing.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(most.saturating_sub(1)).collect();
    out.push(ELLIPSIS);
    out
}

/// A command as it was given, newlines included, with at most `most` characters.
pub fn command(text: &str, most: usize) -> String {
    let head: String = text.chars().take(most + 1).collect();
    shorten(&printable(&head), most)
}

/// The last `lines` lines that are not empty at the end, each [`printable`] and at most `most`
/// characters long. The flag says that lines before them are missing.
pub fn last_lines(text: &str, lines: usize, most: usize) -> (Vec<String>, bool) {
    let mut out = Vec::new();
    let mut rest = text.trim_end().rsplit('\n');
    for line in rest.by_ref().take(lines) {
        let head: String = line.trim_end_matches('\r').chars().take(most + 1).collect();
        out.push(shorten(&printable(&head), most));
    }
    out.reverse();
    if out == [""] {
        out.clear();
    }
    (out, rest.next().is_some())
}

/// The last `bytes` bytes of [`printable`] text, from the beginning of a line where there is one.
pub fn tail(text: &str, bytes: usize) -> String {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let end = &text[from..];
    if from == 0 {
        return printable(end);
    }
    let whole = end.split_once('\n').map_or(end, |(_, lines)| lines);
    format!("{ELLIPSIS}\n{}", printable(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_spelled_out() {
        assert_eq!(printable("a\x1b[31m\0b\r\nc\td\r"), "a\\x1b[31m\\x00b\nc\td\\x0d");
        assert_eq!(printable("x\u{202e}y\u{85}\u{ffff}"), "x\\u{202e}y\\u{85}\\u{ffff}");
        assert_eq!(printable("größe ✓"), "größe ✓");
    }

    #[test]
    fn lines_and_lengths_are_bounded() {
        assert_eq!(one_line("a\nb\tc\0", 20), "a b c\\x00");
        assert_eq!(one_line(&"x".repeat(1 << 20), 5), "xxxx…");
        let (lines, more) = last_lines("1\n2\n3333333\n\n", 2, 4);
        assert_eq!((lines.as_slice(), more), (&["2".to_owned(), "333…".to_owned()][..], true));
        assert_eq!(last_lines(" \n\n", 3, 9), (Vec::new(), false));
        assert_eq!(last_lines("only", 3, 9), (vec!["only".to_owned()], false));
    }

    #[test]
    fn a_tail_begins_with_a_line() {
        assert_eq!(tail("short", 10), "short");
        assert_eq!(tail("first\nsecond\nthird", 8), "…\nthird");
        // No line begins there, and a character is not cut.
        assert_eq!(tail("äääää", 3), "…\nä");
    }
}
