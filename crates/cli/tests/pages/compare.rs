//! What a command printed against what the page shows.

use snapbox::assert::Action;
use snapbox::{Assert, IntoData as _};

/// Fails with a diff if the output is not as expected.
///
/// # Errors
/// With the differences, the page's text first.
pub fn verify(expected: &str, output: &str) -> Result<(), String> {
    let (expected, output) = (trimmed(expected), trimmed(output));
    rules()
        .try_eq(Some(&"what was printed"), output.into_data(), expected.into_data())
        .map_err(|error| error.to_string())
}

/// The output as the page should show it: what the page elides, and still matches, stays elided.
pub fn anew(expected: &str, output: &str) -> String {
    let (expected, output) = (trimmed(expected), trimmed(output));
    let (output, _) = rules().normalize(output.into_data(), expected.into_data());
    output.to_string()
}

fn rules() -> Assert {
    Assert::new().action(Action::Verify).normalize_paths(false)
}

/// Without blanks at the ends of lines and without empty lines at both ends: a page has neither.
fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let text = lines.join("\n");
    let text = text.trim_matches('\n');
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}
