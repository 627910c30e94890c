//! The syntax tree of parameter files: blocks of parameters, lists, the topology.

use super::lexer::{Files, Lexer, Place, Token, shorten};
use super::{Fetch, ImportError};

/// Deepest nesting of blocks and lists.
const DEEPEST: u32 = 64;
/// Names that `a0 .. a9` may stand for.
const MOST_NAMES: i64 = 65_536;

/// The content of the files.
#[derive(Debug, Default)]
pub struct Document {
    /// Named blocks, nested ones included, in the order of their ends.
    pub blocks: Vec<Block>,
    /// `instantiate [ names ] as block`.
    pub instances: Vec<Instance>,
    /// `topology`: the components and their children.
    pub topology: Vec<Node>,
}

/// `type name { key = value, … }`, the name only where it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it describes, such as `disksim_disk`.
    pub kind: String,
    /// Its name.
    pub name: Option<String>,
    /// Where it begins.
    pub place: Place,
    /// Its parameters, in order.
    pub params: Vec<Param>,
}

/// `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The words of the key, one blank between them.
    pub key: String,
    /// Its value.
    pub value: Node,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it begins.
    pub place: Place,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A word.
    Word(String),
    /// `[ …, … ]`
    List(Vec<Node>),
    /// `type { … }` or `type name { … }`
    Block(Box<Block>),
    /// `type name [ … ]`, of a topology.
    Component(String, String, Vec<Node>),
}

/// Names of components that are made from a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The components.
    pub names: Vec<String>,
    /// The block.
    pub block: String,
    /// Where this stands.
    pub place: Place,
}

/// Reads a file and all that it includes.
///
/// # Errors
/// If a file cannot be read or has a syntax error.
pub fn parse(name: &str, files: &mut Files, fetch: Fetch<'_>) -> Result<Document, ImportError> {
    let lexer = Lexer::open(name, files, fetch)?;
    let mut parser = Parser { lexer, ahead: None, depth: 0, document: Document::default() };
    while parser.top_level()? {}
    Ok(parser.document)
}

struct Parser<'a, 'f> {
    lexer: Lexer<'a, 'f>,
    ahead: Option<(Token, Place)>,
    depth: u32,
    document: Document,
}

impl Parser<'_, '_> {
    fn next(&mut self) -> Result<(Token, Place), ImportError> {
        match self.ahead.take() {
            Some(token) => Ok(token),
            None => self.lexer.token(),
        }
    }

    fn peek(&mut self) -> Result<&Token, ImportError> {
        if self.ahead.is_none() {
            self.ahead = Some(self.lexer.token()?);
        }
        Ok(self.ahead.as_ref().map_or(&Token::End, |(token, _)| token))
    }

    fn at_sign(&mut self, sign: char) -> Result<bool, ImportError> {
        Ok(*self.peek()? == Token::Sign(sign))
    }

    fn expected(&self, place: Place, found: &Token, what: &str) -> ImportError {
        let problem = format!("{found} where {what} is expected");
        self.lexer.files.error(place, problem, "correct the file here or shortly before")
    }

    fn sign(&mut self, sign: char) -> Result<(), ImportError> {
        let (token, place) = self.next()?;
        if token == Token::Sign(sign) {
            return Ok(());
        }
        Err(self.expected(place, &token, &format!("`{sign}`")))
    }

    fn word(&mut self, what: &str) -> Result<(String, Place), ImportError> {
        match self.next()? {
            (Token::Word(word), place) => Ok((word, place)),
            // Names may be numbers: nothing forbids a disk called 9100.
            (Token::Int(number), place) => Ok((number.to_string(), place)),
            (token, place) => Err(self.expected(place, &token, what)),
        }
    }

    fn top_level(&mut self) -> Result<bool, ImportError> {
        if *self.peek()? == Token::End {
            return Ok(false);
        }
        let (kind, place) = self.word("the type of a block")?;
        match kind.as_str() {
            "topology" => {
                let component = self.value()?;
                self.document.topology.push(component);
            }
            "instantiate" => {
                self.sign('[')?;
                let names = self.list()?;
                let (word, at) = self.word("`as`")?;
                if word != "as" {
                    return Err(self.expected(at, &Token::Word(word), "`as`"));
                }
                let (block, _) = self.word("the name of a block")?;
                let names = names.into_iter().filter_map(|node| match node.value {
                    Value::Word(name) => Some(name),
                    _ => None,
                });
                let names = names.collect();
                self.document.instances.push(Instance { names, block, place });
            }
            _ => {
                let (name, _) = self.word("the name of the block")?;
                let (token, at) = self.next()?;
                if token != Token::Sign('{') {
                    let problem = format!("{token} where `{{` is expected");
                    let remedy = "blocks are `type name { … }`; files of DiskSim 2 are not known";
                    return Err(self.lexer.files.error(at, problem, remedy));
                }
                self.block(kind, Some(name), place)?;
            }
        }
        Ok(true)
    }

    /// The rest of a block whose `{` has been read. A block with a name can be built on by others.
    fn block(
        &mut self,
        kind: String,
        name: Option<String>,
        place: Place,
    ) -> Result<Block, ImportError> {
        self.descend(place)?;
        let mut params = Vec::new();
        while !self.at_sign('}')? {
            self.param(&mut params)?;
            if !self.at_sign(',')? {
                break;
            }
            self.next()?;
        }
        self.sign('}')?;
        self.depth -= 1;
        let block = Block { kind, name, place, params };
        if block.name.is_some() {
            self.document.blocks.push(block.clone());
        }
        Ok(block)
    }

    fn descend(&mut self, place: Place) -> Result<(), ImportError> {
        self.depth += 1;
        if self.depth <= DEEPEST {
            return Ok(());
        }
        let problem = format!("more than {DEEPEST} blocks and lists in each other");
        Err(self.lexer.files.error(place, problem, "is a bracket missing?"))
    }

    /// `some words = value`, or `[ one key, another ] = value`.
    fn param(&mut self, params: &mut Vec<Param>) -> Result<(), ImportError> {
        let mut keys = Vec::new();
        if self.at_sign('[')? {
            self.next()?;
            for node in self.list()? {
                match node.value {
                    Value::Word(key) => keys.push(key),
                    _ => {
                        let problem = "a key that is not a word";
                        return Err(self.lexer.files.error(node.place, problem, "write its name"));
                    }
                }
            }
            self.sign('=')?;
        } else {
            keys.push(self.key()?);
        }
        let value = self.value()?;
        let plain = matches!(value.value, Value::Int(_) | Value::Float(_) | Value::Word(_));
        if keys.len() > 1 && !plain {
            let problem = "several keys share a block or a list";
            return Err(self.lexer.files.error(value.place, problem, "write it for each of them"));
        }
        params.extend(keys.into_iter().map(|key| Param { key, value: value.clone() }));
        Ok(())
    }

    /// The words before `=`.
    fn key(&mut self) -> Result<String, ImportError> {
        let mut key = String::new();
        loop {
            let (token, place) = self.next()?;
            match token {
                Token::Sign('=') if !key.is_empty() => return Ok(key),
                Token::Word(word) => push(&mut key, &word),
                Token::Int(number) => push(&mut key, &number.to_string()),
                Token::Float(number) => push(&mut key, &number.to_string()),
                token => return Err(self.expected(place, &token, "`key = value`")),
            }
        }
    }

    fn value(&mut self) -> Result<Node, ImportError> {
        let (token, place) = self.next()?;
        let value = match token {
            Token::Int(number) => Value::Int(number),
            Token::Float(number) => Value::Float(number),
            Token::Sign('[') => Value::List(self.list()?),
            Token::Word(word) => self.after_word(word, place)?,
            token => return Err(self.expected(place, &token, "a value")),
        };
        Ok(Node { value, place })
    }

    /// A value that begins with a word.
    fn after_word(&mut self, word: String, place: Place) -> Result<Value, ImportError> {
        if self.at_sign('{')? {
            self.next()?;
            return Ok(Value::Block(Box::new(self.block(word, None, place)?)));
        }
        if !matches!(self.peek()?, Token::Word(_)) {
            return Ok(Value::Word(word));
        }
        let (name, at) = self.word("a name")?;
        match self.next()? {
            (Token::Sign('{'), _) => {
                Ok(Value::Block(Box::new(self.block(word, Some(name), place)?)))
            }
            (Token::Sign('['), _) => Ok(Value::Component(word, name, self.list()?)),
            _ => {
                let problem =
                    format!("the value has two words, the second is `{}`", shorten(&name));
                Err(self.lexer.files.error(at, problem, "is a comma missing?"))
            }
        }
    }

    /// The rest of a list whose `[` has been read.
    fn list(&mut self) -> Result<Vec<Node>, ImportError> {
        self.descend(self.lexer_place())?;
        let mut items = Vec::new();
        while !self.at_sign(']')? {
            let first = self.value()?;
            if *self.peek()? == Token::Dots {
                self.next()?;
                let (last, place) = self.word("the end of a range")?;
                self.range(&first, &last, place, &mut items)?;
            } else {
                items.push(first);
            }
            if !self.at_sign(',')? {
                break;
            }
            self.next()?;
        }
        self.sign(']')?;
        self.depth -= 1;
        Ok(items)
    }

    fn lexer_place(&self) -> Place {
        self.ahead.as_ref().map_or_else(|| self.lexer.place(), |&(_, place)| place)
    }

    /// `disk0 .. disk9`.
    fn range(
        &self,
        first: &Node,
        last: &str,
        place: Place,
        items: &mut Vec<Node>,
    ) -> Result<(), ImportError> {
        let ends = match &first.value {
            Value::Word(first) => split(first).zip(split(last)),
            _ => None,
        };
        match ends {
            Some(((stem, from), (other, to)))
                if stem == other && from <= to && to - from < MOST_NAMES =>
            {
                items.extend((from..=to).map(|number| Node {
                    value: Value::Word(format!("{stem}{number}")),
                    place: first.place,
                }));
                Ok(())
            }
            _ => Err(self.lexer.files.error(
                place,
                "a range that is none",
                "write it like disk0 .. disk9",
            )),
        }
    }
}

fn push(key: &mut String, word: &str) {
    if !key.is_empty() {
        key.push(' ');
    }
    key.push_str(word);
}

/// A name and the number at its end.
fn split(name: &str) -> Option<(&str, i64)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[stem.len()..].parse().ok().map(|number| (stem, number))
}
