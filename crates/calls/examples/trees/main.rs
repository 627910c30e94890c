//! Compares trees that a power cut left with a model, for `calibrate/sequences.py`.
//!
//! `trees RUN.CALLS MODEL [WITHOUT-RULE]` prints a line for each tree that the model allows: the
//! number of acknowledgements before the cut, a tab, the tree. Nothing is sampled, so recordings
//! must be short. `trees RUN.CALLS MODEL [WITHOUT-RULE] --seen FILE` prints those lines of a file
//! that the model does not allow; recordings may be longer. `trees RUN.CALLS --told` prints the
//! recording as text.
// The rest of the crate does no I/O, and is handed its configuration.
#![allow(clippy::disallowed_methods)]

use seekless_calls::file;
use seekless_calls::model::{Model, Modelled, Recorded, Rule};
use std::error::Error;
use std::sync::Arc;

mod allows;
mod every;
mod shown;
mod told;

const USAGE: &str = "usage: trees RUN.CALLS MODEL [WITHOUT-RULE] [--seen FILE] | RUN.CALLS --told";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let [path, rest @ ..] = words.as_slice() else { return Err(USAGE.into()) };
    let (_, mut entries) = file::read(std::fs::read(path)?.into())?;
    let recorded = Recorded::read(&entries)?;
    let (rest, seen) = match rest {
        ["--told"] => {
            told::without_times(&mut entries);
            let lines = told::write(&entries).ok_or("the recording has calls without a text")?;
            let again = told::read(lines.iter().map(String::as_str))?;
            if Recorded::read(&again)? != Recorded::read(&entries)? {
                return Err("the text does not give the recording; record as root".into());
            }
            lines.iter().for_each(|line| println!("{line}"));
            return Ok(());
        }
        [rest @ .., "--seen", seen] => (rest, Some(std::fs::read_to_string(seen)?)),
        rest => (rest, None),
    };
    let (model, without) = match rest {
        [model] => (model, None),
        [model, rule] => (model, Some(rule)),
        _ => return Err(USAGE.into()),
    };
    let mut model = Model::named(model).ok_or("there is no such model")?;
    if let Some(rule) = without {
        let known = Rule::OPTIONAL.into_iter().find(|known| format!("{known:?}") == **rule);
        model = model.without(known.ok_or("no such rule")?);
    }
    let modelled = Modelled::new(Arc::new(recorded), model);
    let Some(seen) = seen else {
        let every = every::every(&modelled).ok_or("too many states; record a shorter run")?;
        every.iter().for_each(|(count, tree)| println!("{count}\t{tree}"));
        return Ok(());
    };
    for line in seen.lines() {
        let (count, tree) = line.split_once('\t').ok_or("a line has no tab")?;
        let wanted = shown::read(tree).ok_or_else(|| format!("no tree: {tree}"))?;
        if !allows::allows(&modelled, count.parse()?, &wanted) {
            println!("{line}");
        }
    }
    Ok(())
}
