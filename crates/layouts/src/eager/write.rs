//! Writing: commands on their way to the device, and whose they are.

use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{RequestNr, RequestTable};
use seekless_engine::units::BlockNr;
use slab::Slab;
use smallvec::SmallVec;

/// A run of blocks for the device, with what goes beside each of them.
#[derive(Debug)]
struct Run<L> {
    place: u32,
    end: u32,
    data: Data,
    beside: L,
    purpose: Purpose,
}

/// Commands collected for the device, neighbouring blocks joined into one. `L` collects what goes
/// beside the blocks: labels, or nothing.
#[derive(Debug)]
pub struct Commands<L> {
    runs: SmallVec<[Run<L>; 2]>,
    purpose: Purpose,
}

impl<L> Default for Commands<L> {
    fn default() -> Commands<L> {
        Commands::of(Purpose::Data)
    }
}

impl<L> Commands<L> {
    /// None, for that purpose.
    pub fn of(purpose: Purpose) -> Commands<L> {
        Commands { runs: SmallVec::new(), purpose }
    }
}

impl<L: Default> Commands<L> {
    /// Adds a block. A block right behind the last one goes with it.
    pub fn push<T>(&mut self, place: u32, piece: Piece, beside: T)
    where
        L: Extend<T>,
    {
        self.add(place, piece, beside, self.purpose);
    }

    /// The same for a block that says where others are. A command that has others as well counts as
    /// what these are for, and so does what goes with another purpose.
    pub fn push_map<T>(&mut self, place: u32, piece: Piece, beside: T)
    where
        L: Extend<T>,
    {
        let own = self.purpose != Purpose::Data;
        self.add(place, piece, beside, if own { self.purpose } else { Purpose::Map });
    }

    #[inline(always)]
    fn add<T>(&mut self, place: u32, piece: Piece, beside: T, purpose: Purpose)
    where
        L: Extend<T>,
    {
        match self.runs.last_mut() {
            Some(run) if place == run.end => {
                run.data.push(piece);
                run.beside.extend(Some(beside));
                run.end += 1;
                if run.purpose == Purpose::Map {
                    run.purpose = purpose;
                }
            }
            _ => {
                let (data, mut labels) = (Data::from(piece), L::default());
                labels.extend(Some(beside));
                self.runs.push(Run { place, end: place + 1, data, beside: labels, purpose });
            }
        }
    }

    /// Sends all commands with one tag; `dress` puts on what goes beside the blocks. Returns how
    /// many there were.
    #[inline(always)]
    pub fn send(self, tag: Tag, cx: &mut Cx<'_>, dress: impl Fn(Io, L) -> Io) -> u32 {
        let count = self.runs.len() as u32;
        for run in self.runs {
            debug_assert_eq!(run.place + run.data.blocks(), run.end, "a run without gaps");
            let io = Io::write(tag, BlockNr::from(run.place), run.data).for_purpose(run.purpose);
            cx.send(0, dress(io, run.beside));
        }
        count
    }
}

/// Part of a write whose data is on its way to the device, and what is to be installed then.
#[derive(Clone, Debug)]
pub struct Writing<T> {
    /// Whose part it is.
    pub request: RequestNr,
    /// What to do when the data is there.
    pub then: T,
    commands_left: u32,
}

/// Parts of writes in flight, on devices with a volatile cache.
#[derive(Clone, Debug)]
pub struct Writes<T> {
    /// Commands have this tag, and the number of the part below it.
    tag: Tag,
    parts: Slab<Writing<T>>,
}

impl<T> Writes<T> {
    /// None. The lower 32 bits of `tag` are zeros.
    pub fn new(tag: Tag) -> Writes<T> {
        debug_assert_eq!(tag as u32, 0);
        Writes { tag, parts: Slab::new() }
    }

    /// Number of parts in flight.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// True if none is in flight.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// What is to be done when they are there.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|(_, part)| &part.then)
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
        let part = self.parts.insert(Writing { request, then, commands_left: 0 });
        let sent = commands.send(self.tag | part as Tag, cx, dress);
        self.parts[part].commands_left = sent;
        let early = sent == 0 || planted(PlantedBug::MapBeforeData);
        early.then(|| self.parts.remove(part))
    }

    /// A command of a part has been answered; `part` is the lower half of its tag. Returns the
    /// part if that was the last one: its data is on the device.
    pub fn done(
        &mut self,
        part: usize,
        done: Done,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) -> Option<Writing<T>> {
        // A planted bug installs parts ahead of their data; without it this finds each of them.
        let one = self.parts.get_mut(part);
        debug_assert!(one.is_some() || planted(PlantedBug::MapBeforeData));
        let one = one?;
        debug_assert!(one.commands_left > 0, "a part is done before its last command");
        one.commands_left -= 1;
        let last = one.commands_left == 0;
        requests.spend(one.request, &done.spent);
        if let Err(error) = done.outcome
            && !planted(PlantedBug::ErrorSwallowed)
        {
            requests.fail(one.request, error);
            requests.fail_volume(error, cx);
        }
        last.then(|| self.parts.remove(part))
    }
}
