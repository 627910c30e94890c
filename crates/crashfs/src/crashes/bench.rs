//! Running the check on a state.

use crate::disk::Disk;
use crate::volume::Volume;
use seekless_calls::model::Tree;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Number of values that were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Acked(pub(super) usize);

/// A check: an error is a bad state.
pub(super) type Check<'c, A> = dyn FnMut(&[A]) -> Result<(), Box<dyn Error>> + 'c;

/// Runs a check on states, once for what a program cannot tell apart.
pub(super) struct Bench<'c, A> {
    disk: &'c Disk<A>,
    acks: Vec<A>,
    check: &'c mut Check<'c, A>,
    /// Verdicts by the print of the tree and the count of acknowledgements. The trees of all models
    /// are of one recording.
    known: BTreeMap<(u128, Acked), Result<(), String>>,
}

impl<'c, A> Bench<'c, A> {
    pub(super) fn new(
        disk: &'c Disk<A>,
        acks: Vec<A>,
        check: &'c mut Check<'c, A>,
    ) -> Bench<'c, A> {
        Bench { disk, acks, check, known: BTreeMap::new() }
    }

    /// Everything that was acknowledged.
    pub(super) fn all(&self) -> Acked {
        Acked(self.acks.len())
    }

    /// What the check says about a tree; an error is its reason.
    pub(super) fn verdict(&mut self, tree: &Tree, acked: Acked) -> Result<(), String> {
        let key = (tree.print(), acked);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let shown = self.disk.show(Volume::of_tree(tree));
        let acks = &self.acks[..acked.0];
        let check = &mut *self.check;
        let verdict = match catch(|| check(acks).map_err(|error| error.to_string())) {
            Ok(verdict) => verdict,
            Err(panic) => Err(panic),
        };
        drop(shown);
        self.known.insert(key, verdict.clone());
        verdict
    }
}

thread_local! {
    static IS_CHECKED: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a function; a panic is an error with its message and place. The message of a panic in a
/// check goes to the report, not to the terminal: some states are meant to be bad.
fn catch<R>(function: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| match IS_CHECKED.get() {
            true => SAID.set(Some(info.to_string())),
            false => before(info),
        }));
    });
    let before = IS_CHECKED.replace(true);
    // The check may leave its own captures as they are at the panic: it decides what they are for.
    let result = catch_unwind(AssertUnwindSafe(function));
    IS_CHECKED.set(before);
    result.map_err(|_| SAID.take().unwrap_or_else(|| "the check panicked".to_owned()))
}
