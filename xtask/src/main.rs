//! Development tasks: `cargo xtask ci|sweep|fuzz|tidy|guided|bench|docs|dist|man`. One command is
//! the whole of continuous integration, so that everything that runs on a CI server also runs
//! locally.

mod bench;
mod ci;
mod dist;
mod docs;
mod explore;
mod fuzz;
mod guided;
mod models;
mod mutants;
mod prover;
mod run;
mod stages;
mod sweep;
mod test_run;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  ci [smoke|test|sweep|replay|soak|figures|fuzz|nightly]
                     smoke    format, lints, tidy, generated pages, unit tests
                     test     every test, end to end with real clients
                     sweep    power-cut sweeps of every layout and array, of fixed seeds
                     replay   every saved run of a violation or of a planted bug
                     soak     a search with a planted bug saves a run that fails again
                     figures  the reproduced claims, measured now
                     fuzz     property tests with many cases, then the fuzz targets
                     nightly  everything, and what takes too long for each commit: planted
                              bugs from three seeds, ten times the sweep, fuzz, figures,
                              models, an hour of explore; a second run of the same tree
                              leaves out what has passed
                     without a name: smoke's checks, docs, replay, soak, sweep, test
  ci explore --minutes N [--seed N] [--dir DIR] [--plant BUG]
                     power-cut sweeps of every subject in turn, of fresh seeds; saves the run
                     of each violation in crates/prove/tests/found
  sweep [--states N] [--seed N]
                     power-cut sweeps of every layout and array, 1.9 million states in all
  fuzz [SECONDS]     the fuzz targets alone, each for so long (default: 60)
  models [SECONDS]   kernel file systems against the models of crash-test, by random sequences
                     of calls, for so long each (default: 300); needs root
  mutants [--states N] [EDGE]...
                     cuts edges, a flush or a comparison at a time, to see the prover notice:
                     those of these names, or all that nothing has caught yet
  mutants --tested   runs each test that shows an edge, with the edge cut
  tidy               house rules that the compiler does not know
  guided             a build guided by a profile of what the program does: target/guided/seekless
  bench [--quick] [--guided|--program=PATH] [SECTION]...
                     comparisons with peers on this machine, of all sections or of simulation,
                     factors, disk, servers, faults, emulated, mount, files; with --guided of a
                     build guided by a profile, with --program of the program at PATH
  docs [--check] [--recordings DIR] [--eager|--bugs|--file-bugs|--log-bugs|--faults]
       [--program PATH]
                     write the measured part of docs/, or fail if it is out of date; with --eager
                     only the page about eager writing, with the others only that table of
                     what the prover finds, measured with the program at PATH
  dist [--program PATH]
                     build what is given away, write it to dist/ and test it: a static program as
                     tarball, wheel, Debian package and container image, and the crates; with
                     --program of a static program that is there already
  man [DIR]          write manual pages and shell completions (default: target/man)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::all(),
        ["ci", "smoke"] => ci::smoke(),
        ["ci", "test"] => ci::test(),
        ["ci", "sweep"] => sweep::sweep(&[]),
        ["ci", "replay"] => explore::replay(),
        ["ci", "soak"] => explore::finds(),
        ["ci", "explore", rest @ ..] => explore::explore(rest),
        ["ci", "figures"] => ci::figures(),
        ["ci", "fuzz"] => ci::fuzz(),
        ["ci", "nightly"] => ci::nightly(),
        ["sweep", rest @ ..] => sweep::sweep(rest),
        ["fuzz", rest @ ..] if rest.len() <= 1 => targets(rest.first().copied()),
        ["models", rest @ ..] if rest.len() <= 1 => models::models(rest.first().copied()),
        ["mutants", "--tested"] => mutants::tested(),
        ["mutants", rest @ ..] => mutants::mutants(rest),
        ["tidy"] => tidy::tidy(),
        ["bench", rest @ ..] => bench::bench(rest),
        ["guided"] => guided::guided().map(drop),
        ["docs", rest @ ..] => docs::docs(rest),
        ["dist", rest @ ..] => dist::dist(rest),
        ["man", rest @ ..] if rest.len() <= 1 => ci::man(rest.first().copied()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<run::Said>() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The fuzz targets, with a seed from the clock.
fn targets(seconds: Option<&str>) -> anyhow::Result<()> {
    let seed = explore::fresh_seed()?;
    println!("fuzz: seed {seed}");
    ci::targets(seconds, seed)
}
