//! One lock over a whole volume, as the driver of paper 002 has one over its cache (claim D26): a
//! request takes it when it comes to the head of a queue, and keeps it until it is answered.

use seekless_engine::io::{Io, Tag};
use seekless_engine::layer::{Cx, Layer};
use seekless_engine::middleware::LayerAround;
use seekless_engine::node::Node;
use std::collections::VecDeque;

/// A node whose requests take the lock one after the other, in the order in which they came.
pub(super) fn lock(node: Node) -> Node {
    node.with_layer(|inner| Box::new(Lock { inner, holder: None, waiting: VecDeque::new() }) as _)
}

/// The layer. `waiting` is empty while no request holds the lock.
#[derive(Debug)]
struct Lock {
    inner: Box<dyn Layer>,
    holder: Option<Tag>,
    waiting: VecDeque<Io>,
}

impl Lock {
    /// Runs the layer; each time it has answered the holder, the next request takes the lock.
    /// Returns true if one did.
    fn with(&mut self, cx: &mut Cx<'_>, run: impl FnOnce(&mut dyn Layer, &mut Cx<'_>)) -> bool {
        let mut seen = cx.above.len();
        run(self.inner.as_mut(), cx);
        let mut taken = false;
        // The layer may answer a request from memory as soon as it has it.
        while let Some(holder) = self.holder
            && cx.above[seen..].iter().any(|done| done.tag == holder)
        {
            seen = cx.above.len();
            let next = self.waiting.pop_front();
            self.holder = next.as_ref().map(|io| io.tag);
            if let Some(io) = next {
                self.inner.submit(io, cx);
                taken = true;
            }
        }
        taken
    }
}

impl LayerAround for Lock {
    fn inner(&self) -> &dyn Layer {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Layer {
        self.inner.as_mut()
    }

    fn run(&mut self, cx: &mut Cx<'_>, event: impl FnOnce(&mut dyn Layer, &mut Cx<'_>)) {
        self.with(cx, event);
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        if self.holder.is_some() {
            self.waiting.push_back(io);
            return;
        }
        self.holder = Some(io.tag);
        self.with(cx, |inner, cx| inner.submit(io, cx));
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        // A request that took the lock meanwhile needs a pump of its own.
        while self.with(cx, |inner, cx| inner.pump(cx)) {}
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        debug_assert!(self.waiting.is_empty(), "a client stops a volume when it has its answers");
        self.inner.stop(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_engine::io::{Done, IoError};
    use seekless_engine::layer::{Port, Status};
    use seekless_engine::units::{MILLIS, Time};

    /// Answers each request as many milliseconds after its submission as its block says, and those
    /// for block 0 as it gets them.
    #[derive(Debug)]
    struct Slow(Vec<(Time, Io)>);

    impl Status for Slow {}

    impl Layer for Slow {
        fn blocks(&self) -> u64 {
            1000
        }

        fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
            if io.at == 0 {
                return cx.answer(Done::new(io.tag, Ok(Data::none())));
            }
            self.0.push((cx.now + io.at * MILLIS, io));
        }

        fn complete(&mut self, _port: Port, _done: Done, _cx: &mut Cx<'_>) {}

        fn pump(&mut self, cx: &mut Cx<'_>) {
            let (due, later): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.0).into_iter().partition(|(at, _)| *at <= cx.now);
            self.0 = later;
            due.iter().for_each(|(_, io)| cx.answer(Done::new(io.tag, Ok(Data::none()))));
        }

        fn deadline(&self) -> Option<Time> {
            self.0.iter().map(|one| one.0).min()
        }

        fn stop(&mut self, _cx: &mut Cx<'_>) {}

        fn stopped(&self) -> bool {
            true
        }

        fn failed(&self) -> Option<IoError> {
            None
        }

        fn status(&self) -> &dyn Status {
            self
        }
    }

    /// When each of five requests is answered, in milliseconds: tags and times.
    fn answers(wrap: impl FnOnce(Node) -> Node) -> Vec<(Tag, Time)> {
        let mut node = wrap(Node::new(Box::new(Slow(Vec::new())), Vec::new(), 1));
        for (tag, at) in [(1, 5), (2, 3), (3, 0), (4, 0), (5, 2)] {
            node.submit(0, Io::read(tag, at, 1));
        }
        let (mut all, mut now) = (Vec::new(), 0);
        loop {
            let mut done = Vec::new();
            node.settle(now, &mut done);
            all.extend(done.into_iter().map(|done| (done.tag, now / MILLIS)));
            match node.next_event() {
                Some(next) => now = next,
                None => return all,
            }
        }
    }

    #[test]
    fn requests_take_the_lock_one_after_the_other() {
        assert_eq!(answers(|node| node), [(3, 0), (4, 0), (5, 2), (2, 3), (1, 5)], "without");
        assert_eq!(answers(lock), [(1, 5), (2, 8), (3, 8), (4, 8), (5, 10)]);
    }
}
