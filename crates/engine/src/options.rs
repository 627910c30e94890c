//! Options of layouts: each is declared once, beside the code that uses it.
//!
//! A [`Choice`] has a name, a type, a default and a text form. [`Options`] holds the chosen values;
//! other choices have their default. Flags of the command line, messages about options without
//! effect and the manual derive from the choices that a layout lists in its descriptor.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// One thing that can be chosen about a layout.
#[derive(Debug)]
pub struct Choice<T: 'static> {
    /// Its name, which is that of the flag: `fill-percent`.
    pub name: &'static str,
    /// Name of its value in help texts; empty for a switch, which takes none.
    pub value: &'static str,
    /// One or two sentences for help texts and the manual.
    pub help: &'static str,
    /// Has an effect only on a device with an arm, a simulated disk.
    pub needs_arm: bool,
    /// The default.
    pub default: fn() -> T,
    /// Parses a value; an error message says what is accepted.
    pub parse: fn(&str) -> Result<T, String>,
    /// The text of a value, as `parse` takes it; empty if help should show no default.
    pub show: fn(&T) -> String,
}

/// A choice of any type, as the command line and the manual need it.
pub trait AnyChoice: fmt::Debug + Sync {
    /// See [`Choice::name`].
    fn name(&self) -> &'static str;
    /// See [`Choice::value`].
    fn value(&self) -> &'static str;
    /// See [`Choice::help`].
    fn help(&self) -> &'static str;
    /// See [`Choice::needs_arm`].
    fn needs_arm(&self) -> bool;
    /// The default as text; empty if help should show none.
    fn default_text(&self) -> String;
    /// Parses a value and stores it in `options`.
    ///
    /// # Errors
    /// A message that says what is accepted.
    fn choose(&self, text: &str, options: &mut Options) -> Result<(), String>;
}

impl<T: Clone + Send + Sync + fmt::Debug + 'static> AnyChoice for Choice<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn value(&self) -> &'static str {
        self.value
    }

    fn help(&self) -> &'static str {
        self.help
    }

    fn needs_arm(&self) -> bool {
        self.needs_arm
    }

    fn default_text(&self) -> String {
        (self.show)(&(self.default)())
    }

    fn choose(&self, text: &str, options: &mut Options) -> Result<(), String> {
        options.set(self, (self.parse)(text)?);
        Ok(())
    }
}

impl Choice<bool> {
    /// A switch: off by default, on if its flag is given.
    pub const fn switch(name: &'static str, help: &'static str) -> Choice<bool> {
        Choice {
            name,
            value: "",
            help,
            needs_arm: false,
            default: || false,
            parse: |_| Ok(true),
            show: |_| String::new(),
        }
    }

    /// The same for an option that needs a device with an arm.
    pub const fn on_arm(self) -> Choice<bool> {
        Choice { needs_arm: true, ..self }
    }
}

/// A value that was chosen.
#[derive(Clone)]
struct Setting {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
    text: String,
}

/// The chosen values. Two sets are equal if they hold the same choices in the same order.
#[derive(Clone, Default)]
pub struct Options(Vec<Setting>);

impl Options {
    /// Chooses a value; an earlier choice of the same name is replaced.
    pub fn set<T>(&mut self, choice: &Choice<T>, value: T)
    where
        T: Clone + Send + Sync + fmt::Debug + 'static,
    {
        let text = format!("{value:?}");
        let setting = Setting { name: choice.name, value: Arc::new(value), text };
        match self.0.iter_mut().find(|one| one.name == choice.name) {
            Some(one) => *one = setting,
            None => self.0.push(setting),
        }
    }

    /// The same with one more choice.
    #[must_use]
    pub fn with<T>(mut self, choice: &Choice<T>, value: T) -> Options
    where
        T: Clone + Send + Sync + fmt::Debug + 'static,
    {
        self.set(choice, value);
        self
    }

    /// The chosen value, or the default.
    ///
    /// # Panics
    /// If two choices of different types have the same name.
    pub fn get<T>(&self, choice: &Choice<T>) -> T
    where
        T: Clone + Send + Sync + fmt::Debug + 'static,
    {
        match self.0.iter().find(|one| one.name == choice.name) {
            Some(one) => one.value.downcast_ref::<T>().expect("one type for a name").clone(),
            None => (choice.default)(),
        }
    }

    /// The names of the chosen options, in the order of choosing.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|one| one.name)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|one| (one.name, &one.text))).finish()
    }
}

impl PartialEq for Options {
    fn eq(&self, other: &Options) -> bool {
        let same = |(a, b): (&Setting, &Setting)| a.name == b.name && a.text == b.text;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for Options {}

#[cfg(test)]
mod tests {
    use super::*;

    static SPEED: Choice<u32> = Choice {
        name: "speed",
        value: "N",
        help: "How fast.",
        needs_arm: false,
        default: || 3,
        parse: |text| text.parse().map_err(|_| format!("`{text}` is not a number")),
        show: u32::to_string,
    };
    static LOUD: Choice<bool> = Choice::switch("loud", "Tell more.");

    #[test]
    fn what_is_not_chosen_has_its_default() {
        let mut options = Options::default();
        assert_eq!((options.get(&SPEED), options.get(&LOUD)), (3, false));
        SPEED.choose("7", &mut options).expect("a number");
        LOUD.choose("", &mut options).expect("a switch");
        assert_eq!((options.get(&SPEED), options.get(&LOUD)), (7, true));
        assert_eq!(options.names().collect::<Vec<_>>(), ["speed", "loud"]);
        assert_eq!(SPEED.choose("x", &mut options), Err("`x` is not a number".to_owned()));
        assert_eq!(options.get(&SPEED), 7, "a refused value changes nothing");
        options.set(&SPEED, 8);
        assert_eq!(options, Options::default().with(&SPEED, 8).with(&LOUD, true));
        assert_ne!(options, Options::default().with(&SPEED, 9).with(&LOUD, true));
    }
}
