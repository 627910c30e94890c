//! Writing: commands on their way to the device.

use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;

/// Places, each with the data of the blocks from there on.
pub type Content = SmallVec<[(u32, Data); 2]>;

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

    /// Where the blocks go, and what is written there, command by command.
    pub(super) fn content(&self) -> Content {
        self.runs.iter().map(|run| (run.place, run.data.clone())).collect()
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
