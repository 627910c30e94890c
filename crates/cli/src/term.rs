//! What depends on whether a person or a program reads: colour and progress lines.

use std::io::{IsTerminal as _, Write as _};

/// Colours, or none where the output is not a terminal or `NO_COLOR` is set.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// The style for standard output.
    pub fn of_stdout() -> Style {
        Style { colour: std::io::stdout().is_terminal() && wanted() }
    }

    /// The style for standard error.
    pub fn of_stderr() -> Style {
        Style { colour: std::io::stderr().is_terminal() && wanted() }
    }

    /// True if colours are wanted.
    pub fn is_coloured(self) -> bool {
        self.colour
    }

    /// For errors.
    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// For success.
    pub fn green(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// For advice.
    pub fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// For headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Prints a line to standard error and ignores a failure to do so.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Time between the progress lines of long work where standard error is no terminal.
const BETWEEN_LINES: std::time::Duration = std::time::Duration::from_secs(10);

/// A progress line on the terminal. It prints nothing if standard error is no terminal, and is
/// erased when dropped.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    last: Option<std::time::Instant>,
    /// Where there is no terminal: when the next whole line is due.
    due: Option<std::time::Instant>,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal(), last: None, due: None }
    }

    /// The same for work that may take minutes: without a terminal it prints a line every ten
    /// seconds, for the log of a build server.
    pub fn of_long_work() -> Progress {
        let progress = Progress::new();
        let due = (!progress.shown).then(|| std::time::Instant::now() + BETWEEN_LINES);
        Progress { due, ..progress }
    }

    /// True if there is a terminal to show it on.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Replaces the line, at most ten times a second. `text` is only called when the line is shown.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if let Some(due) = &mut self.due {
            if std::time::Instant::now() >= *due {
                *due = std::time::Instant::now() + BETWEEN_LINES;
                say(&text());
            }
            return;
        }
        let pause = std::time::Duration::from_millis(100);
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.last = Some(std::time::Instant::now());
        // The cursor goes back to the start, so that other output overwrites the line.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}\r", text());
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
