//! Blocks that are not run are still held to the program's help: every option they show exists.

use std::process::Command;

/// The first option of a `seekless` command line that the help of its subcommand does not know.
pub fn unknown(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins = words.iter().enumerate().filter(|(_, word)| **word == "seekless");
    begins.map(|(index, _)| index).find_map(|begin| {
        let end =
            words[begin + 1..].iter().position(|word| matches!(*word, "&" | "|" | ";" | "&&"));
        let line = &words[begin + 1..end.map_or(words.len(), |end| begin + 1 + end)];
        let name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let subcommand = line.iter().take(2).take_while(name).filter(|word| !word.starts_with('-'));
        let help = help(&subcommand.copied().collect::<Vec<_>>())?;
        let shown = line.iter().filter(|word| word.starts_with("--"));
        shown
            .map(|word| word.split('=').next().unwrap_or(word))
            .find(|option| {
                !help.split(|c: char| c.is_whitespace() || c == ',').any(|it| it == *option)
            })
            .map(str::to_owned)
    })
}

fn help(subcommand: &[&str]) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_seekless");
    let output = Command::new(program).args(subcommand).arg("--help").output().ok()?;
    String::from_utf8(output.stdout).ok()
}
