//! Which options have an effect on which layouts. An option that was given and has no effect on any
//! chosen layout is refused: the user expects an effect.

use crate::failure::{Failure, Outcome};
use clap::ArgMatches;
use clap::parser::ValueSource;
use seekless_layouts::Kind;
use std::collections::BTreeSet;

/// The layouts that a flag has an effect on: all, for a flag that is not a layout's.
fn users(flag: &str) -> Vec<Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.obeys(flag)).collect()
}

/// The options on the command line, by the names of their flags. A default counts only if it is
/// spelled out.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Those of a subcommand.
    pub fn of(matches: &ArgMatches) -> Given {
        let ids = matches.ids().map(clap::Id::as_str);
        let spelled = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Given(ids.filter(spelled).map(|id| id.replace('_', "-")).collect())
    }

    /// Those without one that a command uses for something else.
    pub fn without(&self, flag: &str) -> Given {
        Given(self.0.iter().filter(|one| *one != flag).cloned().collect())
    }

    /// The given options that have no effect on some layouts, each with the layouts it has an
    /// effect on.
    fn particular(&self) -> impl Iterator<Item = (&str, Vec<Kind>)> {
        let with_users = self.0.iter().map(|flag| (flag.as_str(), users(flag)));
        with_users.filter(|(_, users)| !users.is_empty() && users.len() < Kind::ALL.len())
    }

    /// True if an option was given whose effect depends on the layout.
    pub fn depends_on_layout(&self) -> bool {
        self.particular().next().is_some()
    }

    /// Refuses options that have no effect on any of these layouts. The message ends with `remedy`
    /// and the names of layouts they have an effect on.
    ///
    /// # Errors
    /// Names the first such option.
    pub fn refuse_without_effect(&self, layouts: &[Kind], remedy: &str) -> Outcome {
        let means_nothing =
            |(_, users): &(&str, Vec<Kind>)| layouts.iter().all(|layout| !users.contains(layout));
        let Some((option, users)) = self.particular().find(means_nothing) else { return Ok(()) };
        let which = match layouts {
            [] => "there is no layout that has any use for it".to_owned(),
            [layout] => format!("the layout {layout} has no use for it"),
            _ => format!("none of the layouts {} has any use for it", names(layouts, ", ")),
        };
        let hint = format!("leave it out, or {remedy} {}", names(&users, " or "));
        Err(Failure::usage(format!("--{option}: {which}")).hint(hint))
    }
}

fn names(layouts: &[Kind], between: &str) -> String {
    let names: Vec<&str> = layouts.iter().map(|layout| layout.name()).collect();
    names.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory as _;

    fn given(line: &str) -> Given {
        let matches = Cli::command().try_get_matches_from(line.split(' ')).expect(line);
        Given::of(matches.subcommand().expect("a subcommand").1)
    }

    fn refusal(line: &str, layouts: &[Kind]) -> Option<String> {
        let refused = given(line).refuse_without_effect(layouts, "choose --layout");
        refused.err().map(|failure| failure.cause)
    }

    #[test]
    fn every_flag_of_a_layout_is_one_of_some_command() {
        let command = Cli::command();
        for kind in Kind::ALL {
            let options = kind.options().map(|option| option.name());
            for flag in options.chain(kind.device_flags.iter().copied()) {
                let has = |one: &clap::Command| {
                    one.get_arguments().any(|arg| arg.get_long() == Some(flag))
                };
                assert!(command.get_subcommands().any(has), "{kind}: --{flag}");
            }
        }
    }

    #[test]
    fn what_means_nothing_is_refused_though_it_is_the_default() {
        let line = "seekless sim --disk x --layout lfs --fill-percent 75 --cleaning copy";
        let refused = refusal(line, &[Kind::LFS]).expect("it is refused");
        assert!(refused.contains("--fill-percent: the layout lfs has no use for it"), "{refused}");
        assert_eq!(refusal(line, &[Kind::LFS, Kind::VLOG]), None);
        let both = refusal(line, &[Kind::DCD, Kind::LOGE]).expect("it is refused");
        assert!(both.contains("none of the layouts dcd, loge has any use for it"), "{both}");
        assert_eq!(refusal("seekless sim --disk x --layout lfs", &[Kind::LFS]), None);
    }

    #[test]
    fn what_is_of_use_to_all_does_not_depend_on_the_layout() {
        assert!(!given("seekless serve a --socket s --read-only --direct").depends_on_layout());
        assert!(given("seekless serve a --socket s --past-unreadable").depends_on_layout());
    }
}
