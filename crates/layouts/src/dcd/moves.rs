//! Moving the first 128 KiB of a volume between the log device and the origin, in steps that a
//! power cut may separate.
//!
//! A *release* gives the origin its own bytes back when the log is clean, so that it is whole
//! without the log. A *refresh* renews the rescue copy below the binding. Block 0 of the origin
//! is the switch: it is written last when the origin gets its bytes back, and first when it loses
//! them. While it is torn, each of its sectors is either that of the log device or that of a
//! binding which follows from the superblock of the log; so the next mount knows where it stands.

use super::binding::{Binding, FirstBlocks, beside};
use super::format::BOUND_BLOCKS;
use super::rescue::Rescue;
use super::{Dcd, MOVE, attach};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Op, Outcome, Purpose};
use seekless_engine::layer::{Cx, Port};
use seekless_engine::layout::LayoutError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BlockNr, SECONDS, Time};
use std::collections::VecDeque;

const ORIGIN: Port = 0;
const LOG: Port = 1;
/// Least time between two refreshes of the rescue copy: each costs the origin a seek.
const REFRESH_PAUSE: Time = 10 * SECONDS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Read the first blocks from the log device.
    ReadFirst,
    /// Write the second copy of the binding, and the other blocks inverted.
    HideRest,
    /// Write the first copy of the binding.
    Hide,
    /// Write a first copy of the binding that follows from the superblock of the log.
    HidePlainly,
    /// Write all but block 0 of the first blocks to their own places.
    ShowRest,
    /// Write block 0 to its own place.
    Show,
    Flush(Port),
    /// Write to a superblock of the log where the first blocks are.
    Mark(BlockNr, FirstBlocks),
}

/// Steps under way.
#[derive(Clone, Debug)]
pub struct Move {
    log: Superblock,
    binding: Binding,
    steps: VecDeque<Step>,
    first: Data,
    rescue: Rescue,
    /// A step has not been answered.
    waits: bool,
}

impl Move {
    fn of(log: Superblock, binding: Binding, steps: Vec<Step>) -> Move {
        let (first, rescue) = (Data::none(), Rescue::default());
        Move { log, binding, steps: steps.into(), first, rescue, waits: false }
    }

    /// Gives an origin its first blocks back. The log must hold nothing, durably.
    pub fn release(log: &Superblock, binding: Binding) -> Move {
        let end = log.device_blocks - 1;
        let marks = |first| [end, 0].map(|at| [Step::Mark(at, first), Step::Flush(LOG)]).concat();
        let mut steps = vec![Step::ReadFirst];
        steps.extend(marks(FirstBlocks::Moving));
        steps.extend([Step::HidePlainly, Step::Flush(ORIGIN)]);
        steps.extend(match planted(PlantedBug::ReleasedOutOfOrder) {
            false => [Step::ShowRest, Step::Flush(ORIGIN), Step::Show, Step::Flush(ORIGIN)],
            true => [Step::Show, Step::Flush(ORIGIN), Step::ShowRest, Step::Flush(ORIGIN)],
        });
        steps.extend(marks(FirstBlocks::OnOrigin));
        Move::of(*log, binding, steps)
    }

    /// Renews the rescue copy.
    fn refresh(log: &Superblock, binding: Binding) -> Move {
        let mut steps = vec![Step::ReadFirst, Step::HideRest, Step::Flush(ORIGIN), Step::Hide];
        // A stale-log marker may follow, in the other copy: they must not be torn together.
        steps.push(Step::Flush(ORIGIN));
        Move::of(*log, binding, steps)
    }

    /// The command of the next step.
    fn command(&mut self) -> Option<(Port, Io)> {
        let step = self.steps.pop_front()?;
        let rest = BOUND_BLOCKS as u32 - 1;
        let marks = |first| {
            let generation = self.binding.generation;
            Binding::for_log(&self.log, generation, generation, first).encode()
        };
        let (port, io) = match step {
            Step::ReadFirst => (LOG, Io::read(MOVE, beside(&self.log), BOUND_BLOCKS as u32)),
            Step::HideRest => {
                self.rescue = Rescue::of(&self.first);
                let mut data = self.binding.copy_with(&self.rescue, 1);
                data.append(Rescue::hidden(&self.first));
                (ORIGIN, Io::write(MOVE, 1, data))
            }
            Step::Hide => (ORIGIN, Io::write(MOVE, 0, self.binding.copy_with(&self.rescue, 0))),
            Step::HidePlainly => {
                let plain = Binding::new(&self.log, self.binding.generation);
                (ORIGIN, Io::write(MOVE, 0, plain.encode()))
            }
            Step::ShowRest => (ORIGIN, Io::write(MOVE, 1, self.first.slice(1, rest))),
            Step::Show => (ORIGIN, Io::write(MOVE, 0, self.first.slice(0, 1))),
            Step::Flush(port) => (port, Edge::MoveFlush.flush(MOVE)),
            Step::Mark(at, first) => (LOG, Io::write(MOVE, at, marks(first))),
        };
        Some((port, io.for_purpose(Purpose::Destaging)))
    }

    /// Does all steps at once.
    ///
    /// # Errors
    /// What the media report.
    pub fn run(mut self, origin: &mut dyn Disk, log: &mut dyn Disk) -> Result<(), LayoutError> {
        while let Some((port, io)) = self.command() {
            let disk: &mut dyn Disk = if port == LOG { &mut *log } else { &mut *origin };
            let done = match io.op {
                Op::Read => disk.read(io.at, io.count).map(|data| self.first = data),
                Op::Flush => disk.flush(),
                _ => disk.write(io.at, io.data),
            };
            if port == LOG { attach::of_log(done)? } else { done? }
        }
        Ok(())
    }
}

impl Dcd {
    /// A block whose home is beside the log has been written there.
    pub(super) fn first_blocks_written(&mut self, port: Port) {
        if let Some(markers) = self.markers.as_mut().filter(|_| port == LOG) {
            markers.first_changed = true;
        }
    }

    /// When the rescue copy is to be renewed.
    pub(super) fn refresh_due(&self) -> Option<Time> {
        let markers = self.markers.as_ref().filter(|markers| markers.first_changed)?;
        let may = self.requests.is_running() && self.requests.failed().is_none();
        // A batch may have a stale-log marker in flight, which goes to the same block.
        (may && self.moving.is_none() && self.destage.rests()).then_some(markers.next_refresh)
    }

    /// Gives the origin its first blocks back; the clean shutdown ends with it.
    pub(super) fn begin_release(&mut self) -> bool {
        let Some(markers) = &self.markers else { return false };
        self.moving = Some(Move::release(&markers.log, markers.binding));
        true
    }

    /// Goes on with moving the first blocks.
    pub(super) fn advance_moves(&mut self, cx: &mut Cx<'_>) {
        let due = self.refresh_due().is_some_and(|due| due <= cx.now);
        if due && let Some(markers) = &mut self.markers {
            (markers.first_changed, markers.next_refresh) = (false, cx.now + REFRESH_PAUSE);
            self.moving = Some(Move::refresh(&markers.log, markers.binding));
        }
        if self.requests.failed().is_some() {
            return;
        }
        let Some(moving) = self.moving.as_mut().filter(|moving| !moving.waits) else { return };
        if let Some((port, io)) = moving.command() {
            moving.waits = true;
            return self.send(port, io, cx);
        }
        let refreshed = self.requests.shutdown() < CleanShutdown::Flush;
        let rescue = self.moving.take().map(|moving| moving.rescue);
        if let Some((markers, rescue)) = self.markers.as_mut().zip(rescue).filter(|_| refreshed) {
            markers.rescue = rescue;
        }
    }

    /// A step has been answered.
    pub(super) fn move_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let Some(moving) = &mut self.moving else { return };
        moving.waits = false;
        let outcome: Outcome = done.outcome;
        match outcome {
            // Only the first step reads.
            Ok(data) if moving.first.is_empty() => moving.first = data,
            Ok(_) => {}
            // Nothing has been written yet: the origin stays bound as it is.
            Err(_) if moving.first.is_empty() => self.moving = None,
            Err(error) => {
                self.moving = None;
                self.fail_volume(error, cx);
            }
        }
    }
}
