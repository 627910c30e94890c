//! When a volume that no client uses says on the device that its last commits are durable.
//!
//! On a device with a volatile cache only a later commit says that a commit was durable. After a
//! crash a commit of which nothing says so, and that is not whole, counts as cut off by the crash:
//! a single wrong bit would take it along, and what it had made durable. So a volume that rests
//! does not leave it at that.

use seekless_engine::request_table::RequestTable;
use seekless_engine::units::{SECONDS, Time};

/// How long no client must have waited before a volume rests: it costs a write and a flush, and
/// clients that come each second do not pay for it.
const REST: Time = 2 * SECONDS;

/// When the last commits get their witness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witness {
    due: Option<Time>,
}

impl Witness {
    /// True if it is time; `lacks` says that something has no witness yet.
    pub fn is_due<W>(&mut self, lacks: bool, requests: &RequestTable<W>, now: Time) -> bool {
        let writes = requests.is_running() && requests.failed().is_none();
        let wanted = lacks && writes && !requests.is_read_only();
        self.is_time(requests.idle_since().filter(|_| wanted), now)
    }

    /// The same for a volume that rests since then, if it does.
    fn is_time(&mut self, since: Option<Time>, now: Time) -> bool {
        let at = since.map(|since| since + REST);
        self.due = at.filter(|&at| now < at);
        at.is_some() && self.due.is_none()
    }

    /// When to look again though nothing happens.
    pub fn due(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::io::IoError;

    #[test]
    fn a_volume_rests_when_no_client_has_waited_for_a_while() {
        let mut witness = Witness::default();
        assert!(!witness.is_time(None, 9 * REST));
        assert!(!witness.is_time(Some(5), REST));
        assert_eq!(witness.due(), Some(REST + 5));
        assert!(witness.is_time(Some(5), REST + 5));
        assert_eq!(witness.due(), None);
        let mut requests: RequestTable = RequestTable::new(false);
        assert!(witness.is_due(true, &requests, REST) && !witness.is_due(false, &requests, REST));
        requests.refuse_changes(IoError::ReadOnly);
        assert!(!witness.is_due(true, &requests, REST), "it cannot write");
        assert!(!witness.is_due(true, &RequestTable::<u64>::new(true), REST), "it may not write");
    }
}
