//! Development tasks: `cargo xtask ci|sweep|fuzz|tidy|guided|bench|docs|man`. One command is the
//! whole of continuous integration, so that everything that runs on a CI server also runs locally.

mod bench;
mod ci;
mod docs;
mod fuzz;
mod guided;
mod run;
mod stages;
mod sweep;
mod test_run;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  ci [smoke|test|sweep|soak|figures|fuzz|nightly]
                     smoke    format, lints, tidy, generated pages, unit tests
                     test     every test, end to end with real clients
                     sweep    power-cut sweeps of every layout and array, with a fixed seed
                     soak     a soak with a planted bug saves cases that fail again
                     figures  the reproduced claims, measured now
                     fuzz     property tests with many cases, then the fuzz targets
                     nightly  what takes too long for each commit: planted bugs from three
                              seeds, 14 times the sweep, soak, fuzz, figures
                     without a name: format, lints, tidy, pages, sweep, soak, test
  sweep [--states N] [--seed N] [--soak DIR [--rounds N] [--plant BUG]]
                     power-cut sweeps of every layout and array, two million states in all; with
                     --soak until DIR has a file `stop`, saving failures there
  fuzz [SECONDS]     the fuzz targets alone, each for so long (default: 60)
  tidy               house rules that the compiler does not know
  guided             a build guided by a profile of what the program does: target/guided/seekless
  bench [--quick] [--guided|--program=PATH] [SECTION]...
                     comparisons with peers on this machine, of all sections or of simulation,
                     factors, disk, servers, faults, emulated, mount, files; with --guided of a
                     build guided by a profile, with --program of the program at PATH
  docs [--check] [--recordings DIR] [--eager|--bugs|--file-bugs|--faults] [--program PATH]
                     write the measured part of docs/, or fail if it is out of date; with --eager
                     only the page about eager writing, with the others only that table of
                     what the prover finds, measured with the program at PATH
  man [DIR]          write manual pages and shell completions (default: target/man)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::all(),
        ["ci", "smoke"] => ci::smoke(),
        ["ci", "test"] => ci::test(),
        ["ci", "sweep"] => ci::sweep(),
        ["ci", "soak"] => sweep::soak_finds(),
        ["ci", "figures"] => ci::figures(),
        ["ci", "fuzz"] => ci::fuzz(),
        ["ci", "nightly"] => ci::nightly(),
        ["sweep", rest @ ..] => sweep::sweep(rest),
        ["fuzz", rest @ ..] if rest.len() <= 1 => ci::targets(rest.first().copied()),
        ["tidy"] => tidy::tidy(),
        ["bench", rest @ ..] => bench::bench(rest),
        ["guided"] => guided::guided().map(drop),
        ["docs", rest @ ..] => docs::docs(rest),
        ["man", rest @ ..] if rest.len() <= 1 => ci::man(rest.first().copied()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
