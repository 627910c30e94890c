//! What a page holds: blocks of commands with the output that is expected of them.
//!
//! Every command of a page is either in a `console` block, and so executed, or an error: a fence of
//! another kind that holds a line beginning with `$ ` is refused.

use std::ops::Range;

/// A page, by lines, and its console blocks in order.
#[derive(Debug)]
pub struct Page {
    pub lines: Vec<String>,
    pub blocks: Vec<Block>,
}

/// A console block.
#[derive(Debug)]
pub struct Block {
    /// How many headings come before it: blocks under one heading are skipped together.
    pub section: usize,
    /// What must be there for it to run.
    pub needs: Vec<String>,
    /// Why it is not run, if it is not.
    pub not_run: Option<String>,
    pub commands: Vec<Command>,
}

/// A command and the lines of the page that hold its output.
#[derive(Debug)]
pub struct Command {
    /// Index of its first line in the page.
    pub line: usize,
    pub text: String,
    pub output: Range<usize>,
}

impl Page {
    /// Finds the blocks of a page.
    ///
    /// # Errors
    /// If the page has no console block, a block no command, a command no block, or a note no block
    /// right behind it. The message begins with the number of the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut parser = Parser::default();
        for (index, line) in lines.iter().enumerate() {
            parser.line(index, line).map_err(|what| format!("{}: {what}", index + 1))?;
        }
        if parser.fence.is_some() {
            return Err(format!("{}: the last block is not closed", lines.len()));
        }
        if parser.blocks.is_empty() {
            return Err("1: no console block: nothing of this page is tested".to_owned());
        }
        Ok(Self { lines, blocks: parser.blocks })
    }

    /// The output that the page shows for a command.
    pub fn expected(&self, command: &Command) -> String {
        self.lines[command.output.clone()].iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Inside which fence a line is.
#[derive(Debug, PartialEq)]
enum Fence {
    Console,
    Other,
}

#[derive(Default)]
struct Parser {
    blocks: Vec<Block>,
    fence: Option<Fence>,
    section: usize,
    needs: Vec<String>,
    not_run: Option<String>,
    /// The command line so far, if its last line ended with `\`.
    continued: bool,
}

impl Parser {
    fn line(&mut self, index: usize, line: &str) -> Result<(), String> {
        match (&self.fence, line.trim_start().strip_prefix("```")) {
            (None, Some("console")) => self.open(),
            (None, Some(_)) => self.fence = Some(Fence::Other),
            (None, None) => return self.prose(line),
            (Some(Fence::Console), Some(_)) => return self.close(),
            (Some(Fence::Other), Some(_)) => self.fence = None,
            (Some(Fence::Console), None) => return self.console(index, line),
            (Some(Fence::Other), None) if line.trim_start().starts_with("$ ") => {
                return Err("a command outside a console block is never tested".to_owned());
            }
            (Some(Fence::Other), None) => {}
        }
        Ok(())
    }

    fn prose(&mut self, line: &str) -> Result<(), String> {
        if let Some(needs) = note(line, "needs:") {
            self.needs = needs.split_whitespace().map(str::to_owned).collect();
        } else if let Some(reason) = note(line, "not run:") {
            if reason.is_empty() {
                return Err("say why the block is not run".to_owned());
            }
            self.not_run = Some(reason.to_owned());
        } else if !line.trim().is_empty() && (self.not_run.is_some() || !self.needs.is_empty()) {
            return Err("the note above must stand right before a console block".to_owned());
        } else if line.starts_with('#') {
            self.section += 1;
        }
        Ok(())
    }

    fn open(&mut self) {
        self.fence = Some(Fence::Console);
        self.blocks.push(Block {
            section: self.section,
            needs: std::mem::take(&mut self.needs),
            not_run: self.not_run.take(),
            commands: Vec::new(),
        });
    }

    fn close(&mut self) -> Result<(), String> {
        self.fence = None;
        match self.blocks.last() {
            Some(block) if block.commands.is_empty() => {
                Err("a console block without a command: begin one with `$ `".to_owned())
            }
            _ if self.continued => Err("the last command is not complete".to_owned()),
            _ => Ok(()),
        }
    }

    fn console(&mut self, index: usize, line: &str) -> Result<(), String> {
        let commands = &mut self.blocks.last_mut().ok_or("a line without a block")?.commands;
        let next = index + 1;
        if let Some(text) = line.strip_prefix("$ ") {
            commands.push(Command { line: index, text: text.to_owned(), output: next..next });
            self.continued = text.ends_with('\\');
            return Ok(());
        }
        let command = commands.last_mut().ok_or("output before the first command")?;
        let begun = command.output.is_empty();
        let more = line.strip_prefix("> ").filter(|_| begun);
        if let Some(more) = more.or(self.continued.then_some(line)) {
            command.text = format!("{}\n{more}", command.text);
            command.output = next..next;
            self.continued = more.ends_with('\\');
        } else {
            command.output.end = next;
        }
        Ok(())
    }
}

/// The text of a comment of one line that begins with `name`.
fn note<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let inside = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    inside.trim().strip_prefix(name).map(str::trim)
}
