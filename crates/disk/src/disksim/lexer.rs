//! Words, numbers and signs of parameter files, across the files that they include.

use super::{Fetch, ImportError};

/// Most levels of included files. Deeper means that a file includes itself.
const DEEPEST: usize = 32;
/// Most included files.
const MOST_FILES: usize = 1024;
/// Most text in all files, in bytes.
const MOST_BYTES: usize = 128 << 20;

/// A line of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    file: u16,
    /// From one.
    pub line: u32,
}

/// The names of the files that were read.
#[derive(Debug, Default)]
pub struct Files {
    names: Vec<String>,
}

impl Files {
    /// The place as `file:line`.
    pub fn show(&self, place: Place) -> String {
        format!("{}:{}", self.name(place), place.line)
    }

    /// Name of the file.
    pub fn name(&self, place: Place) -> &str {
        self.names.get(usize::from(place.file)).map_or("?", String::as_str)
    }

    pub(super) fn error(
        &self,
        place: Place,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ImportError {
        ImportError::At {
            file: self.name(place).to_owned(),
            line: place.line,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Anything else.
    Word(String),
    /// One of `{ } [ ] , =`.
    Sign(char),
    /// `..`
    Dots,
    /// Nothing is left.
    End,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Int(number) => write!(f, "`{number}`"),
            Token::Float(number) => write!(f, "`{number}`"),
            Token::Word(word) => write!(f, "`{}`", shorten(word)),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::Dots => write!(f, "`..`"),
            Token::End => write!(f, "the end of the file"),
        }
    }
}

/// A word for an error message, shortened.
pub(crate) fn shorten(word: &str) -> String {
    match word.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", word[..end].escape_debug()),
        None => word.escape_debug().to_string(),
    }
}

struct Text {
    bytes: String,
    at: usize,
    line: u32,
    file: u16,
}

/// Tokens of a file and of those that it includes.
pub struct Lexer<'a, 'f> {
    /// Names of what was read.
    pub files: &'a mut Files,
    fetch: Fetch<'f>,
    stack: Vec<Text>,
    bytes: usize,
    /// Where the last token stood.
    last: Place,
}

impl<'a, 'f> Lexer<'a, 'f> {
    /// Begins with a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(
        name: &str,
        files: &'a mut Files,
        fetch: Fetch<'f>,
    ) -> Result<Lexer<'a, 'f>, ImportError> {
        let last = Place { file: 0, line: 1 };
        let mut lexer = Lexer { files, fetch, stack: Vec::new(), bytes: 0, last };
        lexer.enter(name, name, None)?;
        Ok(lexer)
    }

    /// Where the last token stood.
    pub fn place(&self) -> Place {
        self.last
    }

    fn enter(&mut self, from: &str, name: &str, at: Option<Place>) -> Result<(), ImportError> {
        let place = at.unwrap_or(self.last);
        if self.stack.len() >= DEEPEST || self.files.names.len() >= MOST_FILES {
            let problem = format!("too many files include each other here: {}", shorten(name));
            return Err(self.files.error(place, problem, "does a file include itself?"));
        }
        let text = (self.fetch)(from, name).map_err(|problem| match at {
            Some(place) => {
                let cause = format!("cannot read {}: {problem}", shorten(name));
                self.files.error(place, cause, "included files lie beside the one that names them")
            }
            None => ImportError::File { file: name.to_owned(), problem },
        })?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MOST_BYTES {
            let problem = format!("the files are larger than {} MiB in all", MOST_BYTES >> 20);
            return Err(self.files.error(place, problem, "are these parameter files?"));
        }
        // There are fewer than `MOST_FILES` of them.
        let file = self.files.names.len() as u16;
        self.files.names.push(beside(from, name));
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        self.stack.push(Text { bytes: text, at, line: 1, file });
        Ok(())
    }

    /// The next token and its place.
    ///
    /// # Errors
    /// If an included file cannot be read or a character is invalid.
    pub fn token(&mut self) -> Result<(Token, Place), ImportError> {
        loop {
            let Some(text) = self.stack.last_mut() else { return Ok((Token::End, self.last)) };
            let word = text.skip();
            let place = Place { file: text.file, line: text.line };
            let Some(word) = word else {
                self.last = place;
                self.stack.pop();
                continue;
            };
            self.last = place;
            match word {
                Raw::Sign(sign @ ('{' | '}' | '[' | ']' | ',' | '=')) => {
                    return Ok((Token::Sign(sign), place));
                }
                Raw::Sign(sign) => {
                    let problem = format!("`{}` has no place here", sign.escape_debug());
                    // Files of version 2 have lines such as `Disk brand name: X`.
                    let remedy = match sign {
                        ':' => "is this a file of DiskSim 2? those of versions 3 and 4 are known",
                        _ => "is this a parameter file?",
                    };
                    return Err(self.files.error(place, problem, remedy));
                }
                Raw::Word(word) if word == "source" => {
                    let name = text.skip();
                    let Some(Raw::Word(name)) = name else {
                        let problem = "`source` is not followed by the name of a file";
                        return Err(self.files.error(place, problem, "write source FILE"));
                    };
                    let from = self.files.name(place).to_owned();
                    self.enter(&from, &name, Some(place))?;
                }
                Raw::Word(word) => return Ok((classify(word), place)),
            }
        }
    }
}

/// The path of a file that another one sources, so that the files it sources are found beside it.
fn beside(from: &str, name: &str) -> String {
    match from.rsplit_once('/') {
        Some((dir, _)) if from != name && !name.starts_with('/') => format!("{dir}/{name}"),
        _ => name.to_owned(),
    }
}

enum Raw {
    Sign(char),
    Word(String),
}

impl Text {
    /// Passes blanks and comments and takes the next word or sign.
    fn skip(&mut self) -> Option<Raw> {
        let bytes = self.bytes.as_bytes();
        loop {
            match bytes.get(self.at)? {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0C => self.at += 1,
                b'#' => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
        let rest = &self.bytes[self.at..];
        let end = rest.find(|c: char| is_sign(c) || c.is_ascii_whitespace() || c == '\u{c}');
        match end.unwrap_or(rest.len()) {
            0 => {
                let sign = rest.chars().next()?;
                self.at += sign.len_utf8();
                Some(Raw::Sign(sign))
            }
            length => {
                self.at += length;
                Some(Raw::Word(rest[..length].to_owned()))
            }
        }
    }
}

fn is_sign(c: char) -> bool {
    matches!(c, ';' | '{' | '}' | ',' | '[' | ']' | ':' | '?' | '=')
}

fn classify(word: String) -> Token {
    if word == ".." {
        return Token::Dots;
    }
    let digits = word.strip_prefix('-').unwrap_or(&word);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Token::Word(word);
    }
    if let Ok(number) = word.parse() {
        return Token::Int(number);
    }
    if let Some(hex) = digits.strip_prefix("0x")
        && let Ok(number) = i64::from_str_radix(hex, 16)
    {
        return Token::Int(if digits.len() == word.len() { number } else { -number });
    }
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Token::Float(number),
        _ => Token::Word(word),
    }
}
