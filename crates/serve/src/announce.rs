//! What the log says of the members of an array: those that failed, blocks that they did not give
//! as they should, and what a scrub has found.
//!
//! A member with many bad blocks must not fill the log. Its first block is a line at once; after
//! that a line at most every ten seconds says how many there were since. Nothing is left out: what
//! is not said by then is said at the end.

use seekless_engine::member::Member;
use seekless_engine::node::Node;
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

/// Watches the members of an array and says what is new.
#[derive(Debug)]
pub(crate) struct Announcer {
    images: Vec<Option<PathBuf>>,
    /// How many failed members have been announced.
    failed_members: usize,
    told: Vec<Told>,
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
            seen: 0,
            due: None,
            scrub: None,
        }
    }

    /// When there is something to say though nothing happens.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Says what is new.
    pub(crate) fn tell(&mut self, node: &Node, now: Time) {
        self.tell_failed(node);
        self.tell_scrub(node);
        let faults = node.devices.iter().map(|device| device.status().member_faults()).sum();
        if faults != self.seen || self.due.is_some_and(|due| due <= now) {
            self.seen = faults;
            self.tell_blocks(node, now);
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
        self.due = None;
        for (member, found) in members.enumerate() {
            if self.told.len() == member {
                self.told.push(Told::default());
            }
            let news = news(&mut self.told[member], &found, now);
            self.due = [self.due, news.as_ref().err().copied()].into_iter().flatten().min();
            if let Ok(Some(text)) = news {
                tracing::warn!("{} {text}", self.name(member));
            }
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
    use seekless_engine::traffic::Traffic;

    fn member(unreadable_blocks: u64, healed_blocks: u64) -> Member {
        let (state, error, traffic) = ("active", None, Traffic::default());
        Member { state, error, unreadable_blocks, healed_blocks, traffic }
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
