//! Where the disk held what was acknowledged: the state beside which a bad one is shown.
//!
//! The disk never holds a picture of the moment of an acknowledgement: what was not flushed may
//! come to it much later. So the first later state is taken that loses nothing and that the check
//! accepts with the same acknowledgements. The end of the recording is one.

use super::{Sweep, SweepError};
use crate::replay::check::Verdict;
use crate::session::CrashImage;
use crate::states::history::Epoch;
use crate::states::state::{Fate, State};

/// Boundaries at which the check is asked, before the end is taken.
const MOST_ASKED: usize = 12;

/// A state that holds what was acknowledged.
#[derive(Debug)]
pub struct Whole {
    /// Its content.
    pub image: CrashImage,
    /// When the disk held it, in words.
    pub when: String,
}

impl Sweep<'_> {
    /// The first state, from the cut of this epoch on, that holds what was acknowledged before it.
    ///
    /// # Errors
    /// If a state cannot be presented as a file, or the check cannot be started.
    pub fn whole(&self, epoch: &Epoch) -> Result<Whole, SweepError> {
        let acked = self.acked(epoch.cut);
        let mut ground = self.session.ground();
        let mut asked = 0;
        for later in self.session.history().epochs() {
            ground.settle(self.session, &later);
            if later.cut < epoch.cut {
                continue;
            }
            if asked == MOST_ASKED || self.bench.stop.asked().is_some() {
                break;
            }
            asked += 1;
            let fates = vec![Fate::Kept; later.unsettled.len()];
            let state = State { cut: later.cut, fates };
            let image = ground.state(self.session, &later, &state);
            let checked = self.bench.check(image.unchanged(), "everything kept", &acked)?;
            if checked.verdict == Verdict::Good {
                let when = match later.cut == epoch.cut {
                    true => "with every write kept".to_owned(),
                    false => format!("at event {}, where the check accepts it", later.cut),
                };
                return Ok(Whole { image, when });
            }
        }
        Ok(Whole { image: self.end_state(), when: "at the end of the recording".to_owned() })
    }
}
