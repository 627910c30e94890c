//! House rules about words and about commits.
//!
//! Pages, comments and messages use the field's terms; private ones are refused here. Only prose is
//! looked at: comments and string literals of Rust files, and whole Markdown files. A name such as
//! the one of a test is one word, whatever its parts are.
//!
//! No word is spelled out in this file, or it would break its own rule.

use super::Findings;
use crate::run::{capture, root};
use anyhow::Result;
use std::process::Command;

/// Commits after this one follow the rules for messages; set once, to a commit of the main branch.
const COMMITS_BASE: &str = "c8c6fce7ee9dc9c42fe32bbaa0d56f6e2ea4bcd2";
/// Commits that are looked at, from the latest one back.
const COMMITS: &str = "--max-count=30";
const SUBJECT_CHARS: usize = 72;
/// Lines added and removed by a change that explains itself.
const TINY_LINES: u64 = 10;

/// A private term, in words of lower case, and what to write in its place.
struct Term {
    words: &'static [&'static str],
    /// It is meant only in a sentence about something that begins with this.
    about: Option<&'static str>,
    instead: &'static str,
}

const fn term(words: &'static [&'static str], instead: &'static str) -> Term {
    Term { words, about: None, instead }
}

const ACTOR: &str = "name the actor: the cleaner, a client, the device";

const TERMS: &[Term] = &[
    term(&[concat!("no", "body")], ACTOR),
    term(&[concat!("some", "body")], ACTOR),
    term(&[concat!("who", "ever")], ACTOR),
    term(&[concat!("any", "body")], ACTOR),
    term(&[concat!("de", "sk")], "request table"),
    term(&[concat!("lat", "ched")], "failed"),
    term(&[concat!("a", "ny"), concat!("mo", "re")], "present tense, without history"),
    term(&[concat!("labora", "tory")], "virtual time"),
    term(&[concat!("labora", "tories")], "virtual time"),
    term(&[concat!("order", "ly"), concat!("e", "nd")], "clean shutdown"),
    term(&[concat!("order", "ly"), concat!("en", "ds")], "clean shutdowns"),
    Term {
        words: &[concat!("stand", "ing")],
        about: Some("member"),
        instead: "member state: active, failed, rebuilding",
    },
    Term { words: &[concat!("stand", "ings")], about: Some("member"), instead: "member states" },
    term(&[concat!("p", "ut"), concat!("o", "ut"), concat!("o", "f")], "removed from, failed"),
];

/// Files that may use a term: the file, and the term with a space between its words. A term of `*`
/// stands for all of them.
const ALLOWED: &[(&str, &str)] = &[("docs/decisions/015-field-terms.md", "*")];

/// Reports private terms in the prose of a file.
pub(super) fn check_words(name: &str, text: &str, found: &mut Findings) {
    let allowed = |term: &str| {
        ALLOWED.iter().any(|&(file, word)| file == name && (word == term || word == "*"))
    };
    let passages = if name.ends_with(".rs") {
        rust_prose(text)
    } else if name.ends_with(".md") {
        markdown_prose(text)
    } else {
        return;
    };
    for sentence in passages.iter().flat_map(|passage| passage.split(|word| word.is_stop())) {
        for term in TERMS {
            for line in lines_with(term, sentence) {
                let spelled = term.words.join(" ");
                if !allowed(&spelled) {
                    let instead = term.instead;
                    found.error(name, line, format!("`{spelled}` is a private word: {instead}"));
                }
            }
        }
    }
}

/// The lines of a sentence on which a term begins.
fn lines_with(term: &Term, sentence: &[Word]) -> Vec<usize> {
    let is_about = |about: &str| sentence.iter().any(|word| word.text.starts_with(about));
    if !term.about.is_none_or(is_about) {
        return Vec::new();
    }
    let says = |words: &&[Word]| words.iter().zip(term.words).all(|(word, own)| word.text == *own);
    sentence.windows(term.words.len()).filter(says).map(|words| words[0].line).collect()
}

/// A word in lower case and the line it is on; without text it ends a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    line: usize,
    text: String,
}

impl Word {
    fn is_stop(&self) -> bool {
        self.text.is_empty()
    }
}

/// Words that belong together: a paragraph, a string, neighbouring lines of comment.
type Passage = Vec<Word>;

/// Appends the words of `text`, which begins on `line`.
fn add_words(text: &str, line: usize, passage: &mut Passage) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    for (offset, text) in text.split('\n').enumerate() {
        let line = line + offset;
        let mut rest = text;
        while let Some(at) = rest.find(|c| is_part(c) || ".:;!?|".contains(c)) {
            rest = &rest[at..];
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            passage.push(Word { line, text: rest[..length].to_lowercase() });
            // A stop is one character, and all of them are ASCII.
            rest = &rest[length.max(1)..];
        }
    }
}

/// The paragraphs of a page.
fn markdown_prose(text: &str) -> Vec<Passage> {
    let mut passages = vec![Passage::new()];
    for (index, line) in text.lines().enumerate() {
        match passages.last_mut() {
            Some(passage) if !line.trim().is_empty() => add_words(line, index + 1, passage),
            _ => passages.push(Passage::new()),
        }
    }
    passages
}

/// The comments and string literals of a Rust file.
fn rust_prose(text: &str) -> Vec<Passage> {
    Lexer { rest: text, line: 1, passages: Vec::new(), comment_line: 0 }.run()
}

struct Lexer<'t> {
    rest: &'t str,
    /// Where `rest` begins.
    line: usize,
    passages: Vec<Passage>,
    /// The line of the last line comment. One on the next line continues its passage.
    comment_line: usize,
}

impl<'t> Lexer<'t> {
    fn run(mut self) -> Vec<Passage> {
        while let Some(first) = self.rest.chars().next() {
            match first {
                '/' if self.rest.starts_with("//") => self.line_comment(),
                '/' if self.rest.starts_with("/*") => self.block_comment(),
                '"' => self.string(),
                '\'' => self.quote(),
                _ if first.is_alphanumeric() || first == '_' => self.name(),
                _ => drop(self.take(first.len_utf8())),
            }
        }
        self.passages
    }

    /// Takes so many bytes and counts their lines.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }

    fn add(&mut self, text: &str, line: usize) {
        let mut passage = Passage::new();
        add_words(text, line, &mut passage);
        self.passages.push(passage);
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let text = self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        let continues = self.comment_line > 0 && self.comment_line + 1 == line;
        match self.passages.last_mut().filter(|_| continues) {
            Some(passage) => add_words(text, line, passage),
            None => self.add(text, line),
        }
        self.comment_line = line;
    }

    fn block_comment(&mut self) {
        let (line, mut depth, mut length) = (self.line, 0_usize, 0);
        // Block comments nest.
        while let Some(at) = self.rest[length..].find(['/', '*']) {
            let here = &self.rest[length + at..];
            let step = match here {
                _ if here.starts_with("/*") => {
                    depth += 1;
                    2
                }
                _ if here.starts_with("*/") => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
            length += at + step;
            if depth == 0 {
                break;
            }
        }
        let length = if depth == 0 { length } else { self.rest.len() };
        let text = self.take(length);
        self.add(text, line);
        self.comment_line = 0;
    }

    /// A string with escapes. An escape separates words, as `\n` does.
    fn string(&mut self) {
        let line = self.line;
        self.take(1);
        let mut text = String::new();
        while let Some(at) = self.rest.find(['"', '\\']) {
            text.push_str(self.take(at));
            if self.rest.starts_with('"') {
                self.take(1);
                break;
            }
            let escaped = self.rest[1..].chars().next().map_or(0, char::len_utf8);
            // A line that is continued keeps its number.
            text.push_str(if self.take(1 + escaped).ends_with('\n') { "\n" } else { " " });
        }
        self.add(&text, line);
        self.comment_line = 0;
    }

    /// A character, or a lifetime.
    fn quote(&mut self) {
        self.take(1);
        let mut chars = self.rest.chars();
        match (chars.next(), chars.next()) {
            (Some('\\'), Some(second)) => {
                self.take(1 + second.len_utf8());
                let end = self.rest.find('\'').map_or(0, |at| at + 1);
                self.take(end);
            }
            (Some(first), Some('\'')) => drop(self.take(first.len_utf8() + 1)),
            _ => {}
        }
    }

    /// A name or a number, and the raw string that it may introduce.
    fn name(&mut self) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if !["r", "br", "cr"].contains(&self.take(length)) {
            return;
        }
        let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
        if !self.rest[hashes..].starts_with('"') {
            return;
        }
        self.take(hashes + 1);
        let line = self.line;
        let end = format!("\"{}", "#".repeat(hashes));
        let text = self.take(self.rest.find(&end).unwrap_or(self.rest.len()));
        self.take(end.len());
        self.add(text, line);
        self.comment_line = 0;
    }
}

/// Reports messages of the latest commits that do not follow the rules. Merges are left out.
///
/// # Errors
/// If git cannot show a commit.
pub(super) fn check_commits(found: &mut Findings) -> Result<()> {
    let mut log = git(&["log", "--no-merges", COMMITS, "--format=%h%x1f%s%x1f%b%x1e"]);
    let Ok(log) = capture(log.arg(format!("{COMMITS_BASE}..HEAD"))) else {
        // A shallow clone lacks the base.
        found.warn("commits", 0, format!("{COMMITS_BASE} is not in the history: not checked"));
        return Ok(());
    };
    judge_commits(&log, changed_lines, found)
}

/// Reports the offences of a log whose fields and commits end with separators of ASCII.
fn judge_commits(
    log: &str,
    changed: impl Fn(&str) -> Result<u64>,
    found: &mut Findings,
) -> Result<()> {
    for commit in log.split('\x1e').map(str::trim).filter(|commit| !commit.is_empty()) {
        let mut fields = commit.splitn(3, '\x1f');
        let mut field = || fields.next().unwrap_or_default();
        let (hash, subject, body) = (field(), field(), field());
        let lines = if has_text(body) { 0 } else { changed(hash)? };
        for offence in message_offences(subject, body, lines) {
            found.error(&format!("commit {hash}"), 0, format!("`{subject}`: {offence}"));
        }
    }
    Ok(())
}

fn git(args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root()).args(args);
    git
}

/// Lines that a commit adds and removes; those of binary files are not counted.
fn changed_lines(hash: &str) -> Result<u64> {
    let numbers = capture(&mut git(&["show", "--format=", "--numstat", hash]))?;
    Ok(count_lines(&numbers))
}

fn count_lines(numbers: &str) -> u64 {
    let of_line = |line: &str| -> u64 {
        line.split('\t').take(2).filter_map(|number| number.parse::<u64>().ok()).sum()
    };
    numbers.lines().map(of_line).sum()
}

/// True if a body says something beside trailers such as `Signed-off-by: …`.
fn has_text(body: &str) -> bool {
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map(|(key, _)| key);
        key.is_some_and(|key| key.contains('-') && !key.contains(' '))
    };
    body.lines().any(|line| !line.trim().is_empty() && !is_trailer(line))
}

/// What is wrong with the message of a commit that changes so many lines.
fn message_offences(subject: &str, body: &str, lines: u64) -> Vec<String> {
    let mut offences = Vec::new();
    let length = subject.chars().count();
    if length > SUBJECT_CHARS {
        offences.push(format!("the subject has {length} characters, {SUBJECT_CHARS} at most"));
    }
    if !has_place(subject) {
        offences.push("the subject names no place first, as in `lfs: clean …`".to_owned());
    }
    if subject.ends_with('.') {
        offences.push("the subject ends with a full stop".to_owned());
    }
    if !has_text(body) && lines > TINY_LINES {
        offences.push(format!("{lines} lines change, and no body says why"));
    }
    offences
}

/// True if a subject begins with `place: `, and something follows.
fn has_place(subject: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/ ,-".contains(c);
    subject.split_once(": ").is_some_and(|(place, what)| {
        !place.is_empty() && place.chars().all(is_part) && !what.trim().is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a file with that content on which something was found.
    fn lines(name: &str, text: &str) -> Vec<String> {
        let mut found = Findings::default();
        check_words(name, text, &mut found);
        let place = |error: &String| error.split(": ").next().unwrap_or_default().to_owned();
        found.errors.iter().map(place).collect()
    }

    fn spelled(term: &Term) -> String {
        let words = term.words.join(" ");
        term.about.map_or(words.clone(), |about| format!("the {words} of a {about}"))
    }

    #[test]
    fn every_term_is_found_in_prose() {
        for term in TERMS {
            let word = spelled(term);
            assert_eq!(
                lines("a.md", &format!("# A\n\nThen {word} comes.\n")),
                ["a.md:3"],
                "{word}"
            );
            for text in [
                format!("\n/// Then {word} comes.\nfn f() {{}}\n"),
                format!("\nlet x = 1; // {word}\n"),
                format!("\n/* a /* {word} */ b */\n"),
                format!("\nlet x = \"a \\\" {word}\";\n"),
                format!("\nlet x = r#\"a \" {word}\"#;\n"),
                format!("\nlet x = ('\"', '\\'', b\"{word}\");\n"),
                format!("\nfn f<'a>(x: &'a str) {{ g(\"{word}\") }}\n"),
            ] {
                assert_eq!(lines("a.rs", &text), ["a.rs:2"], "{text}");
            }
        }
    }

    #[test]
    fn case_does_not_matter_and_wrapped_terms_are_found() {
        for term in TERMS.iter().filter(|term| term.words.len() > 1) {
            let (first, rest) = (term.words[0].to_uppercase(), term.words[1..].join(" "));
            assert_eq!(lines("a.md", &format!("so {first}\n{rest} it is\n")), ["a.md:1"]);
            assert_eq!(
                lines("a.rs", &format!("    // so {first}\n    // {rest} it is\n")),
                ["a.rs:1"]
            );
            // Neither a paragraph nor a sentence ends within a term.
            assert!(lines("a.md", &format!("so {first}\n\n{rest} it is\n")).is_empty());
            assert!(lines("a.md", &format!("so {first}. {rest} it is\n")).is_empty());
        }
    }

    #[test]
    fn names_and_other_files_are_left_alone() {
        for term in TERMS {
            let (name, word) = (term.words.join("_"), spelled(term));
            assert!(
                lines("a.md", &format!("see `a_{name}_b` and {name}7x\n")).is_empty(),
                "{name}"
            );
            assert!(lines("a.rs", &format!("fn {name}(x: {name}) {{}}\n")).is_empty(), "{name}");
            assert!(lines("a.toml", &word).is_empty());
        }
        // Two strings are no phrase, and a lifetime begins no character.
        let (first, second) = (TERMS[6].words[0], TERMS[6].words[1]);
        assert!(lines("a.rs", &format!("concat!(\"{first}\", \"{second}\")")).is_empty());
        assert!(lines("a.rs", "impl<'a> A<'a> { const B: char = '\"'; }\n").is_empty());
    }

    #[test]
    fn a_term_about_members_is_a_plain_word_elsewhere() {
        let term = TERMS.iter().find(|term| term.about.is_some()).expect("there is one");
        let word = term.words[0];
        assert_eq!(lines("a.md", &format!("The members have a {word}.\n")).len(), 1);
        assert!(lines("a.md", &format!("A {word} wave. A member.\n")).is_empty());
    }

    #[test]
    fn a_file_on_the_list_may_use_its_terms() {
        let (file, _) = ALLOWED[0];
        let text = spelled(&TERMS[0]);
        assert!(lines(file, &text).is_empty());
        assert_eq!(lines("docs/other.md", &text).len(), 1);
    }

    #[test]
    fn this_file_keeps_its_rule() {
        assert!(lines("words.rs", include_str!("words.rs")).is_empty());
    }

    #[test]
    fn each_commit_of_a_log_is_judged() {
        let log = "a1\x1flfs: clean\x1fIt was slow.\n\x1e\nb2\x1fClean it\x1fWhy.\n\x1e\n\
                   c3\x1flfs: drop it\x1f\x1e\nd4\x1flfs: rename\x1f\x1e\n";
        let changed = |hash: &str| Ok(if hash == "c3" { TINY_LINES + 1 } else { 1 });
        let mut found = Findings::default();
        judge_commits(log, changed, &mut found).expect("the log is whole");
        let places: Vec<&str> = found.errors.iter().map(|error| &error[..9]).collect();
        assert_eq!(places, ["commit b2", "commit c3"], "{found:?}");
    }

    #[test]
    fn commit_messages_are_judged() {
        let fine = ["lfs: clean into separate segments", "arrays, serve: name the member"];
        for subject in fine {
            assert!(message_offences(subject, "It was slow.\n", 500).is_empty(), "{subject}");
            assert!(message_offences(subject, "", TINY_LINES).is_empty(), "{subject}");
        }
        let long = format!("lfs: {}", "x".repeat(SUBJECT_CHARS));
        for subject in [&long, "Clean it", "Lfs: clean", "lfs:clean", ": clean", "lfs: clean."] {
            assert_eq!(message_offences(subject, "Why.", 1).len(), 1, "{subject}");
        }
        for body in ["", "\n", "Signed-off-by: A <a@example.org>\n"] {
            assert_eq!(message_offences("lfs: clean", body, TINY_LINES + 1).len(), 1, "{body}");
        }
        assert_eq!(count_lines("3\t4\ta.rs\n-\t-\tb.png\n1\t0\tc.rs\n"), 8);
    }
}
