//! Requests to the members, joined where they meet: chunks of neighbouring stripes lie side by side
//! on a member, and one large request costs less than many small ones.

use super::Call;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Op, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;
use slab::Slab;
use smallvec::{SmallVec, smallvec};

/// Largest joined request, in blocks (1 MiB); what is larger by itself stays whole.
const MOST_BLOCKS: u32 = 256;

/// A request that is not sent yet.
#[derive(Clone, Debug)]
struct Outgoing {
    member: usize,
    op: Op,
    at: BlockNr,
    count: u32,
    data: Data,
    purpose: Purpose,
    call: Call,
    /// Joined with others it has failed.
    alone: bool,
}

/// A request that is under way, and whom its parts belong to.
#[derive(Clone, Debug)]
struct Sent {
    member: usize,
    op: Op,
    at: BlockNr,
    purpose: Purpose,
    calls: SmallVec<[(Call, u32); 1]>,
}

/// What came of one part of a request.
#[derive(Debug)]
pub struct Answer {
    /// Whom it belongs to.
    pub call: Call,
    /// Its answer, with its share of the time.
    pub done: Done,
    /// The member that gave it.
    pub member: usize,
}

/// Requests to all members.
#[derive(Clone, Debug, Default)]
pub struct MemberQueue {
    /// Member by member.
    waiting: Vec<Vec<Outgoing>>,
    sent: Slab<Sent>,
}

impl MemberQueue {
    /// Takes a request on; the tag of `io` is ignored.
    pub fn push(&mut self, member: usize, io: Io, call: Call) {
        let Io { op, at, count, data, purpose, .. } = io;
        debug_assert!(op == Op::Flush || count > 0, "{call:?} asks for nothing");
        debug_assert!(op != Op::Write || data.blocks() == count, "{call:?} has another length");
        let one = Outgoing { member, op, at, count, data, purpose, call, alone: false };
        self.queue(member).push(one);
    }

    /// Sends everything, joined.
    pub fn send(&mut self, cx: &mut Cx<'_>) {
        let rank = |op| match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim => 2,
            Op::Flush => 3,
        };
        // Requests under way at the same time have no order between them, so sorting loses none.
        // Those of one member are mostly in order as they are.
        for member in 0..self.waiting.len() {
            let mut waiting = std::mem::take(&mut self.waiting[member]);
            waiting.sort_by_key(|one| (rank(one.op), one.at));
            self.send_joined(&mut waiting, cx);
            self.waiting[member] = waiting;
        }
    }

    /// Sends what is for one member.
    fn send_joined(&mut self, waiting: &mut Vec<Outgoing>, cx: &mut Cx<'_>) {
        debug_assert!(waiting.windows(2).all(|two| two[0].member == two[1].member));
        let mut rest = waiting.drain(..).peekable();
        while let Some(mut first) = rest.next() {
            let mut calls: SmallVec<[(Call, u32); 1]> = smallvec![(first.call, first.count)];
            let meets = |first: &Outgoing, next: &Outgoing| {
                next.op == first.op
                    && first.op != Op::Flush
                    && !(first.alone || next.alone)
                    && next.at == first.at + u64::from(first.count)
                    && (next.purpose == Purpose::Rebuild) == (first.purpose == Purpose::Rebuild)
                    && first.count + next.count <= MOST_BLOCKS
            };
            while let Some(next) = rest.next_if(|next| meets(&first, next)) {
                first.count += next.count;
                first.data.append(next.data);
                calls.push((next.call, next.count));
            }
            self.submit(first, calls, cx);
        }
    }

    fn queue(&mut self, member: usize) -> &mut Vec<Outgoing> {
        if member >= self.waiting.len() {
            self.waiting.resize_with(member + 1, Vec::new);
        }
        &mut self.waiting[member]
    }

    fn submit(&mut self, one: Outgoing, calls: SmallVec<[(Call, u32); 1]>, cx: &mut Cx<'_>) {
        let Outgoing { member, op, at, count, data, purpose, .. } = one;
        debug_assert_eq!(calls.iter().map(|&(_, count)| count).sum::<u32>(), count);
        debug_assert!(op != Op::Write || data.blocks() == count, "joined data of another length");
        let tag = self.sent.insert(Sent { member, op, at, purpose, calls }) as Tag;
        let io = Io { op, data, ..Io::read(tag, at, count) }.for_purpose(purpose);
        cx.send(member, io);
    }

    /// Takes an answer apart. Parts of a joined read that failed are asked for one by one: the
    /// others may be readable.
    pub fn answered(&mut self, done: Done) -> SmallVec<[Answer; 1]> {
        let Sent { member, op, at, purpose, calls } = self.sent.remove(done.tag as usize);
        let parts = calls.len();
        let spent = done.spent.share(parts as u64);
        let mut answers = SmallVec::new();
        let mut from = 0;
        let read = done.outcome.as_ref().ok().filter(|_| op == Op::Read);
        let mut cuts = read.map(Data::cuts);
        for (call, count) in calls {
            let block = at + u64::from(from);
            if op == Op::Read && parts > 1 && done.outcome.is_err() {
                let data = Data::none();
                let alone = true;
                self.queue(member).push(Outgoing {
                    member,
                    op,
                    at: block,
                    count,
                    data,
                    purpose,
                    call,
                    alone,
                });
            } else {
                let part = cuts.as_mut().map_or_else(Data::none, |cuts| cuts.take(count));
                let outcome = done.outcome.as_ref().map(|_| part).map_err(|error| *error);
                answers.push(Answer { call, done: Done { tag: 0, outcome, spent }, member });
            }
            from += count;
        }
        // Each part is answered or asked for again, never both: its operation counts answers.
        debug_assert!(
            answers.len() == parts || answers.is_empty(),
            "{} of {parts} parts are answered",
            answers.len()
        );
        answers
    }

    /// True if nothing is under way to a member or waits to be sent to it.
    pub fn is_idle_at(&self, member: usize) -> bool {
        self.waiting.get(member).is_none_or(Vec::is_empty)
            && self.sent.iter().all(|(_, sent)| sent.member != member)
    }

    /// True if nothing is under way or waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.waiting.iter().all(Vec::is_empty) && self.sent.is_empty()
    }
}
