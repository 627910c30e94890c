//! Parts of writes whose data is on its way to the device, and what becomes of one that the medium
//! refuses in part.
//!
//! A command that fails with an error of the medium does not say which of its blocks is bad. So
//! the blocks of the part are written again, one by one: each at its place, or, where the medium
//! refuses it alone, at another one that the layout chooses. No map names any of them yet, so it
//! does not matter what a refused command has left behind. A place that was refused stays taken:
//! nothing else is written there. Where a block is refused too often ([`OneByOne::refused`]) the
//! volume fails.
//!
//! Where the host of a device is full, the request fails and nothing else: its places are free.

use super::one_by_one::OneByOne;
use super::write::{Commands, Content};
use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{RequestNr, RequestTable};
use seekless_engine::units::BlockNr;
use slab::Slab;

/// Part of a write whose data is on its way to the device, and what is to be installed then.
#[derive(Clone, Debug)]
pub struct Writing<T> {
    /// Whose part it is.
    pub request: RequestNr,
    /// What to do when the data is there.
    pub then: T,
    commands_left: u32,
    content: Content,
    failed: Option<IoError>,
    alone: Option<Alone>,
}

/// The blocks of a part that are written one by one, each with its place.
#[derive(Clone, Debug)]
struct Alone {
    blocks: Vec<(u32, Piece)>,
    turn: OneByOne,
}

impl Alone {
    fn new(content: &Content) -> Alone {
        let each = |(place, data): &(u32, Data)| {
            let blocks = (0..data.blocks()).map(|index| (place + index, data.block(index)));
            blocks.collect::<Vec<_>>()
        };
        Alone { blocks: content.iter().flat_map(each).collect(), turn: OneByOne::default() }
    }
}

/// What came of the answer to a command of a part.
#[derive(Debug)]
pub enum Answered<T> {
    /// Other commands of the part are on their way.
    Waits,
    /// All data is on the device, or the part has failed.
    Ended(Writing<T>),
    /// The medium refuses a block of this part: it is to go elsewhere.
    Refused(Refused),
}

/// A block that the medium refuses.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The part.
    pub part: usize,
    /// Where it was to go.
    pub place: u32,
    /// What the device said.
    pub error: IoError,
}

/// Parts of writes in flight, on devices with a volatile cache.
#[derive(Clone, Debug)]
pub struct Writes<T> {
    /// Commands have this tag, and the number of the part below it.
    tag: Tag,
    parts: Slab<Writing<T>>,
    /// Places that the medium has refused.
    refused: u64,
}

impl<T> Writes<T> {
    /// None. The lower 32 bits of `tag` are zeros.
    pub fn new(tag: Tag) -> Writes<T> {
        debug_assert_eq!(tag as u32, 0);
        Writes { tag, parts: Slab::new(), refused: 0 }
    }

    /// True if none is in flight.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// What is to be done when they are there.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|(_, part)| &part.then)
    }

    /// Places that the medium has refused since the mount.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Sends the data of a part of `request`. If there is none, as for zeros, which are not
    /// stored, the part comes back at once.
    pub fn begin<L: Default>(
        &mut self,
        request: RequestNr,
        then: T,
        commands: Commands<L>,
        cx: &mut Cx<'_>,
        dress: impl Fn(Io, L) -> Io,
    ) -> Option<Writing<T>> {
        let content = commands.content();
        let (failed, alone) = (None, None);
        let part = Writing { request, then, commands_left: 0, content, failed, alone };
        let part = self.parts.insert(part);
        let sent = commands.send(self.tag | part as Tag, cx, dress);
        self.parts[part].commands_left = sent;
        let early = sent == 0 || planted(PlantedBug::MapBeforeData);
        early.then(|| self.parts.remove(part))
    }

    /// A command of a part has been answered; `part` is the lower half of its tag. `moves` says
    /// that nothing on the device names the blocks of a part before it is installed: those that the
    /// medium refuses can go elsewhere.
    pub fn done(
        &mut self,
        part: usize,
        done: Done,
        moves: bool,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) -> Answered<T> {
        // A planted bug installs parts ahead of their data; without it this finds each of them.
        let one = self.parts.get_mut(part);
        debug_assert!(one.is_some() || planted(PlantedBug::MapBeforeData));
        let Some(one) = one else { return Answered::Waits };
        debug_assert!(one.commands_left > 0, "a part is done before its last command");
        one.commands_left -= 1;
        requests.spend(one.request, &done.spent);
        if let Err(error) = done.outcome
            && !planted(PlantedBug::ErrorSwallowed)
        {
            one.failed.get_or_insert(error);
        }
        if one.commands_left > 0 {
            return Answered::Waits;
        }
        self.step(part, moves, requests, cx)
    }

    /// All commands of a part that were sent have been answered.
    fn step(
        &mut self,
        part: usize,
        moves: bool,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) -> Answered<T> {
        let one = &mut self.parts[part];
        let failed = one.failed.take();
        let refused = failed.filter(|error| moves && error.is_of_the_medium());
        if let Some(error) = failed.filter(|_| refused.is_none()) {
            return Answered::Ended(match error {
                IoError::NoSpace if moves => self.turn_away(part, requests),
                error => self.give_up(part, error, requests, cx),
            });
        }
        match (&mut one.alone, refused) {
            (None, None) => Answered::Ended(self.parts.remove(part)),
            (None, Some(_)) => {
                one.alone = Some(Alone::new(&one.content));
                self.send_alone(part, cx)
            }
            (Some(Alone { blocks, turn }), None) => match turn.passed() < blocks.len() {
                true => self.send_alone(part, cx),
                false => Answered::Ended(self.parts.remove(part)),
            },
            (Some(Alone { blocks, turn }), Some(error)) => match turn.refused() {
                true => {
                    self.refused += 1;
                    Answered::Refused(Refused { part, place: blocks[turn.at()].0, error })
                }
                false => Answered::Ended(self.give_up(part, error, requests, cx)),
            },
        }
    }

    /// Fails a part that the full host of a device has refused: nothing names its blocks, and the
    /// volume goes on.
    fn turn_away(&mut self, part: usize, requests: &mut RequestTable) -> Writing<T> {
        let part = self.parts.remove(part);
        requests.fail(part.request, IoError::NoSpace);
        part
    }

    fn send_alone(&mut self, part: usize, cx: &mut Cx<'_>) -> Answered<T> {
        let one = &mut self.parts[part];
        if let Some(Alone { blocks, turn }) = &one.alone {
            let (place, ref piece) = blocks[turn.at()];
            let data = Data::from(piece.clone());
            cx.send(0, Io::write(self.tag | part as Tag, BlockNr::from(place), data));
            one.commands_left = 1;
        }
        Answered::Waits
    }

    /// Writes a block that was refused to another place. Returns what is to be done with its part,
    /// where the old place is named.
    pub fn elsewhere(&mut self, refused: Refused, place: u32, cx: &mut Cx<'_>) -> &mut T {
        if let Some(Alone { blocks, turn }) = &mut self.parts[refused.part].alone {
            blocks[turn.at()].0 = place;
        }
        self.send_alone(refused.part, cx);
        &mut self.parts[refused.part].then
    }

    /// Fails a part and the volume. The part ends without its data.
    pub fn give_up(
        &mut self,
        part: usize,
        error: IoError,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) -> Writing<T> {
        let part = self.parts.remove(part);
        requests.fail(part.request, error);
        requests.fail_volume(error, cx);
        part
    }
}
