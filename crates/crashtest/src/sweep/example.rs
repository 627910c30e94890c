//! One bad state of each cause, made small.
//!
//! States with one signature are a group. Its first state is shrunk as long as the check fails in
//! the same way: to the fewest writes with an unusual fate, then to the fewest sectors of each torn
//! write.

use super::{Row, Sweep, SweepError, Tried};
use crate::report::{Kind, signature};
use crate::session::CrashImage;
use crate::states::history::Epoch;
use crate::states::minimise::{minimise, minimise_in, minimise_tears};
use crate::states::state::State;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Bounds of the work on examples.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// States tried for one example at most.
    pub tries: usize,
    /// After this moment nothing more is tried.
    pub until: Instant,
}

/// States that fail in the same way.
#[derive(Clone, Debug)]
pub struct Found {
    /// What they share.
    pub signature: String,
    /// The verdict on the first one.
    pub tried: Tried,
    /// How many there are.
    pub states: u64,
    /// Short name of the first one.
    pub first_seen: String,
    /// The example: the first one, or a smaller state.
    pub epoch: Arc<Epoch>,
    /// Its fates.
    pub state: State,
    /// It was made as small as possible.
    pub is_minimised: bool,
}

/// The groups of these rows, in the order in which they were found, and the group of each row.
pub fn groups(rows: &[Row]) -> (Vec<Found>, Vec<Option<usize>>) {
    let mut groups: Vec<Found> = Vec::new();
    let mut known: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    let mut of_rows = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(tried) = row.tried.as_ref().filter(|tried| tried.kind != Kind::Good) else {
            of_rows.push(None);
            continue;
        };
        let signature = signature(tried.kind, tried.exit, &tried.output);
        let key = (tried.kind, signature);
        let group = match (known.get(&key), &row.state) {
            (Some(&group), _) => group,
            (None, Some((epoch, state))) => {
                groups.push(Found {
                    signature: key.1.clone(),
                    tried: tried.clone(),
                    states: 0,
                    first_seen: row.name.clone(),
                    epoch: Arc::clone(epoch),
                    state: state.clone(),
                    is_minimised: false,
                });
                known.insert(key, groups.len() - 1);
                groups.len() - 1
            }
            // The row of the same content comes first and has the state.
            (None, None) => unreachable!("a bad state without its fates"),
        };
        groups[group].states += 1;
        of_rows.push(Some(group));
    }
    (groups, of_rows)
}

impl Sweep<'_> {
    /// Makes the example of a group small.
    ///
    /// # Errors
    /// If a state cannot be presented as a file, or the check cannot be started.
    pub fn shrink(&self, found: &mut Found, effort: Effort) -> Result<(), SweepError> {
        if !matches!(found.tried.kind, Kind::Lost | Kind::Broken) {
            return Ok(());
        }
        let epoch = Arc::clone(&found.epoch);
        let mut ground = self.session.ground_at(epoch.cut);
        let mut trouble = None;
        let mut last = None;
        let mut is_cut_off = false;
        let mut fails = |state: &State| {
            if Instant::now() >= effort.until || self.bench.stop.asked().is_some() {
                is_cut_off = true;
                return false;
            }
            let image = ground.state(self.session, &epoch, state);
            match self.fails_alike(found, image, &epoch, state) {
                Ok(Some(tried)) => {
                    last = Some((state.clone(), tried));
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    trouble.get_or_insert(error);
                    false
                }
            }
        };
        let (history, sector) = (self.session.history(), self.options.bounds.sector);
        let (state, used, more) = if history.calls().is_some() {
            let (state, used) =
                minimise_in(history, &epoch, &found.state, effort.tries, &mut fails);
            (state, used, 0)
        } else {
            let (state, used) = minimise(&found.state, effort.tries, &mut fails);
            let left = effort.tries - used;
            let (state, more) = minimise_tears(history, &epoch, sector, &state, left, &mut fails);
            (state, used, more)
        };
        if let Some(error) = trouble {
            return Err(error);
        }
        if let Some((_, tried)) = last.filter(|(last, _)| *last == state) {
            found.tried = tried;
        }
        found.is_minimised = !is_cut_off && used + more < effort.tries;
        found.state = state;
        Ok(())
    }

    /// What the check says, if it fails as it does on the states of a group.
    fn fails_alike(
        &self,
        found: &Found,
        image: CrashImage,
        epoch: &Epoch,
        state: &State,
    ) -> Result<Option<Tried>, SweepError> {
        let row = self.only_of(image, epoch, state, false)?;
        Ok(row.tried.filter(|tried| {
            tried.kind == found.tried.kind
                && signature(tried.kind, tried.exit, &tried.output) == found.signature
        }))
    }
}
