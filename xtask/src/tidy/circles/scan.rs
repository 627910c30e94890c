//! Reads the tokens of a Rust file, and the paths that its code outside tests names.

/// The names that a file imports, and the paths that it uses.
#[derive(Debug, Default)]
pub struct Scan {
    /// Paths, relative to the module of the file unless they begin with `crate`.
    pub paths: Vec<Vec<String>>,
    /// Imported names, and the paths behind them.
    pub names: Vec<(String, Vec<String>)>,
    /// Modules that the file declares for tests only.
    pub tests: Vec<String>,
}

/// Reads a file.
pub fn scan(text: &str) -> Scan {
    let mut reader =
        Reader { tokens: tokens(text), at: 0, inline: Vec::new(), scan: Scan::default() };
    reader.run();
    reader.scan
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
    /// For each open brace, whether it opens an inline module.
    inline: Vec<bool>,
    scan: Scan,
}

impl Reader {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn run(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "#" if self.token(1) == "[" => self.attribute(),
                "use" => {
                    self.at += 1;
                    self.tree(&[]);
                }
                "mod" if is_name(self.token(1)) && self.token(2) == "{" => {
                    self.inline.push(true);
                    self.at += 3;
                }
                "{" => {
                    self.inline.push(false);
                    self.at += 1;
                }
                "}" => {
                    self.inline.pop();
                    self.at += 1;
                }
                name if is_name(name) => self.path(),
                _ => self.at += 1,
            }
        }
    }

    /// Steps over an attribute, and over the item behind it if that is for tests only.
    fn attribute(&mut self) {
        let begin = self.at;
        self.at += 1;
        self.group();
        let words = &self.tokens[begin..self.at];
        let has = |word: &str| words.iter().any(|token| token == word);
        if has("cfg") && has("test") && !has("not") {
            self.item();
        }
    }

    /// Steps over the group that opens here.
    fn group(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.token(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Steps over an item, field or statement.
    fn item(&mut self) {
        // A test module often begins with an import, which does not make it one.
        let mut head = (0..6).map(|ahead| self.token(ahead)).take_while(|token| *token != "{");
        let is_use = head.any(|token| token == "use");
        while self.at < self.tokens.len() {
            match self.token(0) {
                ";" | "," => {
                    self.at += 1;
                    return;
                }
                "}" => return,
                "mod" if self.token(2) == ";" => {
                    self.scan.tests.push(self.token(1).to_owned());
                    self.at += 1;
                }
                "{" => {
                    self.group();
                    if !is_use {
                        return;
                    }
                }
                "(" | "[" => self.group(),
                _ => self.at += 1,
            }
        }
    }

    /// A path in an expression, a type or a visibility.
    fn path(&mut self) {
        let after = self.at.checked_sub(1).map_or("", |at| self.tokens[at].as_str());
        let mut path = vec![self.token(0).to_owned()];
        self.at += 1;
        while self.token(0) == "::" && is_name(self.token(1)) {
            path.push(self.token(1).to_owned());
            self.at += 2;
        }
        if path.len() > 1 && after != "::" && after != "." {
            self.add(path);
        }
    }

    /// A tree of imports.
    fn tree(&mut self, front: &[String]) {
        let mut path = front.to_vec();
        loop {
            match self.token(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.token(0), "}" | "") {
                        self.tree(&path);
                        if self.token(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = self.token(1).to_owned();
                    self.at += 2;
                    self.import(name, path);
                    return;
                }
                token if is_name(token) || token == "*" => {
                    path.push(token.to_owned());
                    self.at += 1;
                }
                // A token that no import has; the step keeps the walk finite.
                token => {
                    if !matches!(token, ";" | "," | "}") {
                        self.at += 1;
                    }
                    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                        path.pop();
                    }
                    if let Some(name) = path.last().cloned() {
                        self.import(name, path);
                    }
                    return;
                }
            }
        }
    }

    fn import(&mut self, name: String, path: Vec<String>) {
        if let Some(path) = self.add(path)
            && !self.inline.contains(&true)
        {
            self.scan.names.push((name, path));
        }
    }

    /// Adds a path as seen from the module of the file; none if it stays in an inline module.
    fn add(&mut self, mut path: Vec<String>) -> Option<Vec<String>> {
        for _ in self.inline.iter().filter(|inline| **inline) {
            match path.first().map(String::as_str) {
                Some("super") => drop(path.remove(0)),
                Some("crate") => break,
                _ => return None,
            }
        }
        self.scan.paths.push(path.clone());
        Some(path)
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::` and single signs; comments, strings, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if first == '"' {
            string(rest)
        } else if first == '\'' {
            quote(rest)
        } else if first.is_alphanumeric() || first == '_' {
            let length = word(rest);
            match raw_string(&rest[..length], &rest[length..]) {
                0 => found.push(rest[..length].to_owned()),
                more => {
                    rest = &rest[length + more..];
                    continue;
                }
            }
            length
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length.min(rest.len())..];
    }
    found
}

fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Bytes of a block comment; these nest.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = text[at..].find(['/', '*']) {
        at += next;
        let pair = (text[at..].starts_with("/*"), text[at..].starts_with("*/"));
        match pair {
            (true, _) => depth += 1,
            (_, true) => depth = depth.saturating_sub(1),
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Bytes of a string with escapes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of a character, or of the sign that begins a lifetime.
fn quote(text: &str) -> usize {
    let mut chars = text[1..].chars();
    match (chars.next(), chars.next()) {
        (Some('\\'), Some(second)) => {
            let begin = 2 + second.len_utf8();
            begin + text[begin..].find('\'').map_or(0, |at| at + 1)
        }
        (Some(first), Some('\'')) => 2 + first.len_utf8(),
        // The name of a lifetime is no path.
        _ => 1 + word(&text[1..]),
    }
}

/// Bytes of the raw string behind its prefix; 0 if there is none.
fn raw_string(prefix: &str, text: &str) -> usize {
    let hashes = text.len() - text.trim_start_matches('#').len();
    if !["r", "br", "cr"].contains(&prefix) || !text[hashes..].starts_with('"') {
        return 0;
    }
    let (begin, end) = (hashes + 1, format!("\"{}", "#".repeat(hashes)));
    text[begin..].find(&end).map_or(text.len(), |at| begin + at + end.len())
}
