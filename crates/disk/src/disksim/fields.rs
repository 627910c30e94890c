//! The parameters of a block by name. Parameters that the importer does not use are reported.

use super::lexer::Place;
use super::parser::{Block, Document, Node, Param, Value};
use super::{ImportError, Mapping};

/// Most levels of types built on types.
const DEEPEST: usize = 16;

/// A block's parameters.
#[derive(Debug)]
pub(super) struct Fields<'b> {
    pub(super) place: Place,
    params: Vec<(&'b Param, bool)>,
}

/// The type at the bottom of a block: its own, or that of the block it is built on.
pub(super) fn base<'b>(block: &'b Block, document: &'b Document) -> &'b str {
    let mut kind = block.kind.as_str();
    for _ in 0..DEEPEST {
        match named(document, kind) {
            Some(parent) => kind = &parent.kind,
            None => break,
        }
    }
    kind
}

/// The block of that name.
pub(super) fn named<'b>(document: &'b Document, name: &str) -> Option<&'b Block> {
    document.blocks.iter().find(|block| block.name.as_deref() == Some(name))
}

impl<'b> Fields<'b> {
    /// The block's own parameters and those of the blocks it is built on. Where a block gives a
    /// parameter twice the last one counts.
    pub(super) fn of(block: &'b Block, document: &'b Document, mapping: &mut Mapping) -> Self {
        let mut fields = Fields { place: block.place, params: Vec::new() };
        let mut level = Some(block);
        for _ in 0..DEEPEST {
            let Some(block) = level else { break };
            let inherited = fields.params.len();
            for param in &block.params {
                let same = fields.params.iter().position(|(known, _)| known.key == param.key);
                match same {
                    // What is built on a block overrides it.
                    Some(index) if index < inherited => {}
                    Some(index) => {
                        mapping.warn(
                            param.value.place,
                            format!("`{}` is given twice; the last one counts", param.key),
                        );
                        fields.params[index].0 = param;
                    }
                    None => fields.params.push((param, false)),
                }
            }
            level = named(document, &block.kind).filter(|parent| !std::ptr::eq(*parent, block));
        }
        fields
    }

    /// The value of a parameter.
    pub(super) fn get(&mut self, key: &str) -> Option<&'b Node> {
        let (param, used) = self.params.iter_mut().find(|(param, _)| param.key == key)?;
        *used = true;
        Some(&param.value)
    }

    /// A number.
    pub(super) fn number(&mut self, key: &str, m: &Mapping) -> Result<Option<f64>, ImportError> {
        self.get(key).map(|node| number(node, key, m)).transpose()
    }

    /// A whole number.
    pub(super) fn int(&mut self, key: &str, m: &Mapping) -> Result<Option<i64>, ImportError> {
        self.get(key).map(|node| int(node, key, m)).transpose()
    }

    /// A whole number from zero to 2³² − 1.
    pub(super) fn count(&mut self, key: &str, m: &Mapping) -> Result<Option<u32>, ImportError> {
        self.get(key).map(|node| count(node, key, m)).transpose()
    }

    /// A time of zero or more, in milliseconds.
    pub(super) fn ms(&mut self, key: &str, m: &Mapping) -> Result<Option<f64>, ImportError> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let ms = number(node, key, m)?;
        if ms >= 0.0 {
            return Ok(Some(ms));
        }
        Err(m.error(node.place, format!("`{key}` is {ms}"), "times are milliseconds from zero up"))
    }

    /// A switch: 0 or 1; any other number counts as 1.
    pub(super) fn flag(&mut self, key: &str, m: &Mapping) -> Result<Option<bool>, ImportError> {
        Ok(self.int(key, m)?.map(|value| value != 0))
    }

    /// A word.
    pub(super) fn word(&mut self, key: &str, m: &Mapping) -> Result<Option<&'b str>, ImportError> {
        match self.get(key) {
            None => Ok(None),
            Some(Node { value: Value::Word(word), .. }) => Ok(Some(word)),
            Some(node) => {
                Err(m.error(node.place, format!("`{key}` is not a word"), "write a word"))
            }
        }
    }

    /// A list.
    pub(super) fn list(
        &mut self,
        key: &str,
        m: &Mapping,
    ) -> Result<Option<&'b [Node]>, ImportError> {
        match self.get(key) {
            None => Ok(None),
            Some(Node { value: Value::List(list), .. }) => Ok(Some(list)),
            Some(node) => Err(m.error(node.place, format!("`{key}` is not a list"), "write [ … ]")),
        }
    }

    /// A block.
    pub(super) fn block(
        &mut self,
        key: &str,
        m: &Mapping,
    ) -> Result<Option<&'b Block>, ImportError> {
        match self.get(key) {
            None => Ok(None),
            Some(Node { value: Value::Block(block), .. }) => Ok(Some(block)),
            Some(node) => {
                let problem = format!("`{key}` is not a block");
                Err(m.error(node.place, problem, "write the type of the block and { … }"))
            }
        }
    }

    /// Where a parameter stands, or else the block.
    pub(super) fn place(&self, key: &str) -> Place {
        let param = self.params.iter().find(|(param, _)| param.key == key);
        param.map_or(self.place, |(param, _)| param.value.place)
    }

    /// The value, or an error that says that it is missing.
    pub(super) fn must<T>(
        &self,
        key: &str,
        value: Option<T>,
        m: &Mapping,
    ) -> Result<T, ImportError> {
        value.ok_or_else(|| {
            m.error(self.place, format!("the block lacks `{key}`"), "a disk needs this parameter")
        })
    }

    /// Marks parameters as used that say nothing about a drive.
    pub(super) fn ignore(&mut self, keys: &[&str]) {
        for key in keys {
            self.get(key);
        }
    }

    /// Reports a parameter whose effect on the drive cannot be expressed.
    pub(super) fn only(&mut self, key: &str, value: f64, why: &str, m: &mut Mapping) {
        let Some(node) = self.get(key) else { return };
        let found = match node.value {
            Value::Int(int) => int as f64,
            Value::Float(float) => float,
            _ => f64::NAN,
        };
        if found != value {
            m.warn(node.place, format!("`{key}` = {found} is not in the model: {why}"));
        }
    }

    /// Reports every parameter that was not used.
    pub(super) fn name_the_rest(&self, m: &mut Mapping) {
        for (param, used) in &self.params {
            if !used {
                m.warn(
                    param.value.place,
                    format!("`{}` is unknown and was left out", param.key.escape_debug()),
                );
            }
        }
    }
}

pub(super) fn number(node: &Node, key: &str, m: &Mapping) -> Result<f64, ImportError> {
    match node.value {
        Value::Int(int) => Ok(int as f64),
        Value::Float(float) => Ok(float),
        _ => Err(m.error(node.place, format!("`{key}` is not a number"), "write a number")),
    }
}

pub(super) fn int(node: &Node, key: &str, m: &Mapping) -> Result<i64, ImportError> {
    match node.value {
        Value::Int(int) => Ok(int),
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 9e15 => Ok(float as i64),
        _ => Err(m.error(node.place, format!("`{key}` is not a whole number"), "write one")),
    }
}

pub(super) fn count(node: &Node, key: &str, m: &Mapping) -> Result<u32, ImportError> {
    let int = int(node, key, m)?;
    u32::try_from(int).map_err(|_| {
        m.error(node.place, format!("`{key}` is {int}"), "it must lie between 0 and 2³² - 1")
    })
}

pub(super) fn size(node: &Node, key: &str, m: &Mapping) -> Result<u64, ImportError> {
    let int = int(node, key, m)?;
    u64::try_from(int)
        .map_err(|_| m.error(node.place, format!("`{key}` is {int}"), "it must not be negative"))
}
