//! `cargo test` with its output passed on and counted: how many tests passed, and which test
//! programs took longest.

use crate::run::{cargo, shown};
use crate::stages::slowest;
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a run of tests came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tests {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The programs and their times.
    programs: Vec<(Duration, String)>,
    /// The program whose result comes next.
    running: String,
}

impl Tests {
    /// Runs all tests of the workspace. Programs after one that fails are run too.
    ///
    /// # Errors
    /// If a test fails or does not build, or cargo reports no test.
    pub fn run(&mut self) -> Result<()> {
        let mut command = cargo();
        command.args(["test", "--workspace", "--no-fail-fast"]);
        self.hear_all(command)
    }

    /// Runs some tests. A name that selects none is an error: cargo would report success.
    ///
    /// # Errors
    /// As for [`Tests::run`].
    pub fn select(command: Command) -> Result<()> {
        Tests::default().hear_all(command)
    }

    fn hear_all(&mut self, mut command: Command) -> Result<()> {
        let shown = shown(&command);
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        command.stdin(Stdio::null());
        // Cargo names a program on standard error, the program reports on standard output: one pipe
        // keeps their order.
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().context("cannot start cargo")?;
        // It holds the other end of the pipe.
        drop(command);
        let mut out = std::io::stdout();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line?;
            out.write_all(&line)?;
            out.write_all(b"\n")?;
            out.flush()?;
            self.hear(&String::from_utf8_lossy(&line));
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("`{shown}` failed: {status}");
        }
        self.verdict(&shown)
    }

    /// What the counts say of a command that reports success.
    fn verdict(&self, shown: &str) -> Result<()> {
        if self.passed == 0 || self.failed > 0 {
            bail!("`{shown}` reports success, with {}", self.closing_line());
        }
        Ok(())
    }

    /// Counts what a line of output says.
    fn hear(&mut self, line: &str) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("Running ") {
            // `unittests src/lib.rs (target/debug/deps/name-0123456789abcdef)`
            let path = rest.rsplit_once('(').map_or(rest, |(_, path)| path.trim_end_matches(')'));
            let file = path.rsplit('/').next().unwrap_or(path);
            let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
            self.running = name.to_owned();
        } else if let Some(name) = line.strip_prefix("Doc-tests ") {
            self.running = format!("{name} (examples in comments)");
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.add(result);
        }
    }

    /// `ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.05s`
    fn add(&mut self, result: &str) {
        let counts = result.split_once(". ").map_or(result, |(_, counts)| counts);
        for part in counts.split("; ") {
            match part.split_once(' ') {
                Some((count, "passed")) => self.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => self.failed += count.parse().unwrap_or(0),
                Some((count, "ignored")) => self.ignored += count.parse().unwrap_or(0),
                _ => {}
            }
            let seconds = part.strip_prefix("finished in ").and_then(|part| part.strip_suffix('s'));
            if let Some(seconds) = seconds.and_then(|seconds| seconds.parse().ok()) {
                self.programs.push((Duration::from_secs_f64(seconds), self.running.clone()));
            }
        }
    }

    /// The slowest test programs, the slowest first.
    pub fn table(&self) -> String {
        let rows = self.programs.iter().map(|(took, name)| (*took, name.as_str()));
        slowest("test programs", rows.collect()) + &format!("{} tests ignored\n", self.ignored)
    }

    /// The counts.
    pub fn closing_line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/seekless_engine-0123456789abcdef)

running 2 tests
test good ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.50s

     Running tests/e2e/main.rs (/elsewhere/debug/deps/e2e-0123456789abcdef)
test result: FAILED. 40 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 61.25s

   Doc-tests seekless_engine
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
";

    #[test]
    fn tests_are_counted_and_their_programs_timed() {
        let mut tests = Tests::default();
        OUTPUT.lines().for_each(|line| tests.hear(line));
        assert_eq!(tests.closing_line(), "43 passed, 3 failed");
        let table = tests.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            [
                "slowest test programs, of 62.8 s in all:",
                "    61.2 s  e2e",
                "     1.0 s  seekless_engine (examples in comments)",
                "     0.5 s  seekless_engine",
                "1 tests ignored",
            ]
        );
    }

    #[test]
    fn a_name_that_selects_no_test_is_an_error() {
        // What cargo prints for such a name, and its status is 0.
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        let verdict = |line: &str| {
            let mut tests = Tests::default();
            tests.hear(line);
            tests.verdict("cargo test")
        };
        assert!(verdict(none).is_err() && verdict("").is_err());
        assert!(verdict(&none.replace("0 passed", "1 passed")).is_ok());
    }
}
