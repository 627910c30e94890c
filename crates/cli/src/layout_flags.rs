//! Flags for the options of layouts, derived from what each layout declares.
//!
//! A command flattens [`LayoutFlags`] for the options it takes. Which layouts obey a flag, for
//! help texts and for refusals, comes from the descriptors as well.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use seekless_engine::options::{AnyChoice, Options};
use seekless_layouts::{Descriptor, Kind};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Which options of layouts a command takes.
pub trait Stage: Send + Sync + 'static {
    /// The options of a layout that the command takes.
    fn options(layout: &'static Descriptor) -> Vec<&'static dyn AnyChoice>;
    /// The flag that options require if they have an effect only on a device with an arm.
    const ARM_FLAG: Option<&'static str> = None;
}

/// Options of volumes that are made.
#[derive(Clone, Copy, Debug)]
pub enum Format {}

impl Stage for Format {
    fn options(layout: &'static Descriptor) -> Vec<&'static dyn AnyChoice> {
        layout.format_options.to_vec()
    }
}

/// Options of volumes that are served.
#[derive(Clone, Copy, Debug)]
pub enum Mount {}

impl Stage for Mount {
    fn options(layout: &'static Descriptor) -> Vec<&'static dyn AnyChoice> {
        layout.mount_options.to_vec()
    }

    const ARM_FLAG: Option<&'static str> = Some("disk");
}

/// Options of volumes that are made and mounted in virtual time, without a crash in between.
#[derive(Clone, Copy, Debug)]
pub enum Simulate {}

/// Options without an effect on a simulation: it sizes volumes itself and mounts none after a
/// crash.
const NOT_SIMULATED: [&str; 3] = ["sparse", "past-unreadable", "no-punch"];

impl Stage for Simulate {
    fn options(layout: &'static Descriptor) -> Vec<&'static dyn AnyChoice> {
        layout.options().filter(|option| !NOT_SIMULATED.contains(&option.name())).collect()
    }
}

/// The options on the command line.
#[derive(Clone, Debug)]
pub struct LayoutFlags<S> {
    /// The choices, in the order of the descriptors.
    pub options: Options,
    stage: PhantomData<S>,
}

/// Every option of a stage once, with the layouts that declare it, by name.
fn declared<S: Stage>() -> BTreeMap<&'static str, (&'static dyn AnyChoice, Vec<&'static str>)> {
    let mut all = BTreeMap::new();
    for layout in Kind::ALL.map(Kind::descriptor) {
        for option in S::options(layout) {
            let entry = all.entry(option.name()).or_insert_with(|| (option, Vec::new()));
            entry.1.push(layout.name);
        }
    }
    all
}

impl<S: Stage> clap::Args for LayoutFlags<S> {
    fn augment_args(mut command: Command) -> Command {
        for (option, layouts) in declared::<S>().into_values() {
            command = command.arg(flag::<S>(option, &layouts));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag<S: Stage>(option: &'static dyn AnyChoice, layouts: &[&str]) -> Arg {
    let default = match option.default_text() {
        text if text.is_empty() => text,
        text => format!(" [default: {text}]"),
    };
    let help = StyledStr::from(format!("{}{default}", option.help()));
    let heading = format!("Options of {}", layouts.join(", "));
    let arg = Arg::new(option.name()).long(option.name()).help(help).help_heading(heading);
    let arg = match S::ARM_FLAG.filter(|_| option.needs_arm()) {
        Some(flag) => arg.requires(flag),
        None => arg,
    };
    if option.value().is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    arg.value_name(option.value()).value_parser(move |text: &str| {
        let checked = option.choose(text, &mut Options::default());
        checked.map(|()| text.to_owned())
    })
}

impl<S: Stage> FromArgMatches for LayoutFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::default();
        for (name, (option, _)) in declared::<S>() {
            let text = match option.value().is_empty() {
                true => matches.get_flag(name).then(String::new),
                false => matches.get_one::<String>(name).cloned(),
            };
            if let Some(text) = text {
                option.choose(&text, &mut options).map_err(|reason| {
                    clap::Error::raw(clap::error::ErrorKind::InvalidValue, reason)
                })?;
            }
        }
        Ok(LayoutFlags { options, stage: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
