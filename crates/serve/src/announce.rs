//! What the log says of damage: requests that failed, members of an array that failed, blocks that
//! they did not give as they should, and what a scrub has found.
//!
//! Many bad blocks must not fill the log. The first one is a line at once; after that a line at
//! most every ten seconds says how many there were since. Nothing is left out: what is not said by
//! then is said at the end.

use seekless_engine::member::Member;
use seekless_engine::node::Node;
use seekless_engine::traffic::Faults;
use seekless_engine::units::{SECONDS, Time};
use seekless_engine::upkeep::{Scrub, ScrubState};
use std::path::{Path, PathBuf};

/// Least time between two lines about the blocks of a member.
const PAUSE_NS: Time = 10 * SECONDS;

/// What was said of one member.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    unreadable: u64,
    healed: u64,
    /// Nothing more is said before.
    not_before: Time,
}

/// What was said of requests that fail.
#[derive(Clone, Copy, Debug, Default)]
struct ToldFaults {
    count: u64,
    /// Nothing more is said before.
    not_before: Time,
}

impl ToldFaults {
    /// What is to be said; as an error when, if it is too early.
    fn news(&mut self, found: Faults, now: Time) -> Result<Option<String>, Time> {
        if found.count < self.count {
            // The volume was mounted again, and its counts began anew.
            self.count = 0;
        }
        let count = found.count - self.count;
        let Some(last) = found.last.filter(|_| count > 0) else { return Ok(None) };
        if now < self.not_before {
            return Err(self.not_before);
        }
        let so_far = match self.count {
            0 => String::new(),
            _ => format!(" ({} so far)", found.count),
        };
        *self = ToldFaults { count: found.count, not_before: now.saturating_add(PAUSE_NS) };
        let what = if count == 1 { "request" } else { "requests" };
        Ok(Some(format!("{count} {what} failed{so_far}: {last}")))
    }
}

/// Watches a volume and what is below it, and says what is new.
#[derive(Debug)]
pub(crate) struct Announcer {
    images: Vec<Option<PathBuf>>,
    /// How many failed members have been announced.
    failed_members: usize,
    told: Vec<Told>,
    /// Of each device below, and of clients, if they are told of.
    told_devices: Vec<ToldFaults>,
    told_clients: Option<ToldFaults>,
    /// The sum of the counts when they were looked at last.
    seen: u64,
    /// When something is to be said that was held back.
    due: Option<Time>,
    scrub: Option<Scrub>,
}

impl Announcer {
    /// Nothing has been said. `images` are those of the members, in order.
    pub(crate) fn new(images: &[Option<PathBuf>]) -> Announcer {
        Announcer {
            images: images.to_vec(),
            failed_members: 0,
            told: Vec::new(),
            told_devices: Vec::new(),
            told_clients: Some(ToldFaults::default()),
            seen: 0,
            due: None,
            scrub: None,
        }
    }

    /// The same for a file system, which says itself what fails of what it asks for.
    pub(crate) fn of_files(images: &[Option<PathBuf>]) -> Announcer {
        Announcer { told_clients: None, ..Announcer::new(images) }
    }

    /// When there is something to say though nothing happens.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Says what is new.
    pub(crate) fn tell(&mut self, node: &Node, now: Time) {
        self.tell_failed(node);
        self.tell_scrub(node);
        let members: u64 = node.devices.iter().map(|one| one.status().member_faults()).sum();
        let devices: u64 = node.faults().iter().map(|faults| faults.count).sum();
        let faults = members + devices + node.answered_faults().count;
        if faults != self.seen || self.due.is_some_and(|due| due <= now) {
            self.seen = faults;
            self.due = None;
            self.tell_blocks(node, now);
            self.tell_faults(node, now);
        }
    }

    /// Says what was held back.
    pub(crate) fn end(&mut self, node: &Node) {
        self.tell(node, Time::MAX);
    }

    /// An image has the place of a member that was out.
    pub(crate) fn replaced(&mut self, member: usize, image: &Path) {
        if let Some(place) = self.images.get_mut(member) {
            *place = Some(image.to_owned());
        }
        if let Some(told) = self.told.get_mut(member) {
            *told = Told::default();
        }
        tracing::info!("{} is new and is being filled", self.name(member));
    }

    /// A member with its image.
    fn name(&self, member: usize) -> String {
        match self.images.get(member).and_then(Option::as_ref) {
            Some(image) => format!("member {member} ({})", image.display()),
            None => format!("member {member}"),
        }
    }

    fn tell_failed(&mut self, node: &Node) {
        let failed = node.devices.iter().flat_map(|device| device.status().failed_members());
        for (member, error) in failed.skip(self.failed_members) {
            self.failed_members += 1;
            tracing::error!(
                "{} has failed ({error}) and is out of the array; `seekless replace` puts another \
                 one in its place",
                self.name(*member)
            );
        }
    }

    fn tell_blocks(&mut self, node: &Node, now: Time) {
        let members = node.devices.iter().flat_map(|device| device.status().members());
        for (member, found) in members.enumerate() {
            if self.told.len() == member {
                self.told.push(Told::default());
            }
            let news = news(&mut self.told[member], &found, now);
            self.hold_back(news.as_ref().err());
            if let Ok(Some(text)) = news {
                tracing::warn!("{} {text}", self.name(member));
            }
        }
    }

    /// Something is to be said then.
    fn hold_back(&mut self, due: Option<&Time>) {
        self.due = self.due.into_iter().chain(due.copied()).min();
    }

    fn tell_faults(&mut self, node: &Node, now: Time) {
        self.told_devices.resize(node.devices.len(), ToldFaults::default());
        // Members of an array are told of one by one.
        let is_array = node.devices.iter().any(|one| !one.status().members().is_empty());
        for (port, faults) in node.faults().iter().enumerate().filter(|_| !is_array) {
            let news = self.told_devices[port].news(*faults, now);
            self.hold_back(news.as_ref().err());
            if let Ok(Some(text)) = news {
                let image = self.images.get(port).and_then(Option::as_ref);
                let name =
                    image.map_or_else(|| "device".into(), |image| image.display().to_string());
                tracing::warn!("{name}: {text}");
            }
        }
        let Some(told) = &mut self.told_clients else { return };
        let news = told.news(node.answered_faults(), now);
        self.hold_back(news.as_ref().err());
        if let Ok(Some(text)) = news {
            tracing::warn!("to clients: {text}; `seekless check` names all damage");
        }
    }

    fn tell_scrub(&mut self, node: &Node) {
        let Some(scrub) = node.devices.iter().find_map(|device| device.status().scrub()) else {
            return;
        };
        let was = self.scrub.replace(scrub).map(|scrub| scrub.state);
        if was == Some(scrub.state) {
            return;
        }
        let Scrub { done, stripes, mismatched, unreadable, repaired, .. } = scrub;
        match scrub.state {
            ScrubState::Running => tracing::info!("scrub: comparing {stripes} stripes"),
            ScrubState::Stopped => {
                tracing::warn!("scrub stopped: {done} of {stripes} stripes compared");
            }
            ScrubState::Ended if mismatched + unreadable == 0 => {
                tracing::info!("scrub ended: {stripes} stripes compared, all members agree");
            }
            ScrubState::Ended => tracing::warn!(
                "scrub ended: members disagree about {mismatched} blocks, {unreadable} were \
                 unreadable and {repaired} of these written anew; stop and run `seekless check \
                 --scrub --repair`"
            ),
        }
    }
}

/// What is to be said of a member's blocks; as an error when, if it is too early.
fn news(told: &mut Told, found: &Member, now: Time) -> Result<Option<String>, Time> {
    if found.unreadable_blocks < told.unreadable || found.healed_blocks < told.healed {
        // As for `ToldFaults`.
        *told = Told { not_before: told.not_before, ..Told::default() };
    }
    let unreadable = found.unreadable_blocks - told.unreadable;
    let healed = found.healed_blocks - told.healed;
    if unreadable + healed == 0 {
        return Ok(None);
    }
    if now < told.not_before {
        return Err(told.not_before);
    }
    let before = told.unreadable + told.healed;
    *told = Told {
        unreadable: found.unreadable_blocks,
        healed: found.healed_blocks,
        not_before: now.saturating_add(PAUSE_NS),
    };
    let all = match before {
        0 => String::new(),
        _ => format!(" ({} and {} so far)", told.unreadable, told.healed),
    };
    Ok(Some(format!(
        "gave wrong blocks: {unreadable} unreadable, {healed} put right from the other \
         members{all}; `seekless check --scrub` compares all"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::io::IoError;
    use seekless_engine::traffic::Traffic;

    fn member(unreadable_blocks: u64, healed_blocks: u64) -> Member {
        let (state, error, traffic) = ("active", None, Traffic::default());
        Member { state, error, unreadable_blocks, healed_blocks, traffic }
    }

    #[test]
    fn the_first_fault_is_said_at_once_and_the_others_together() {
        let mut told = ToldFaults::default();
        let faults = |count, block| Faults { count, last: Some(IoError::Media { block }) };
        assert_eq!(told.news(Faults::default(), 5), Ok(None));
        let first = told.news(faults(1, 9), 5).expect("at once").expect("news");
        assert!(first.starts_with("1 request failed: block 9"), "{first}");
        assert_eq!(told.news(faults(4, 2), 6), Err(5 + PAUSE_NS));
        let then = told.news(faults(4, 2), 5 + PAUSE_NS).expect("it is time").expect("news");
        assert!(then.starts_with("3 requests failed (4 so far): block 2"), "{then}");
        let again = told.news(faults(1, 3), Time::MAX).expect("it is time").expect("news");
        assert!(again.starts_with("1 request failed: block 3"), "a new mount: {again}");
    }

    #[test]
    fn the_first_block_is_said_at_once_and_the_others_together() {
        let mut told = Told::default();
        assert_eq!(news(&mut told, &member(0, 0), 5), Ok(None));
        let first = news(&mut told, &member(0, 1), 5).expect("at once").expect("news");
        assert!(first.starts_with("gave wrong blocks: 0 unreadable, 1 put right"), "{first}");
        assert_eq!(news(&mut told, &member(0, 7), 6), Err(5 + PAUSE_NS));
        assert_eq!(news(&mut told, &member(2, 9), PAUSE_NS), Err(5 + PAUSE_NS));
        let then = news(&mut told, &member(2, 9), 5 + PAUSE_NS).expect("it is time");
        assert!(
            then.expect("news")
                .contains("2 unreadable, 8 put right from the other members (2 and 9")
        );
        assert_eq!(news(&mut told, &member(2, 9), Time::MAX), Ok(None));
    }
}
