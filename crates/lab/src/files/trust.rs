//! A volume whose answers count as durable, as kernels of 1999 took them: a flush is answered at
//! once, and a write is answered when the volume has it. A power cut then breaks what the file
//! system has promised.

use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Op, Tag};
use seekless_engine::layer::{Cx, Layer};
use seekless_engine::middleware::LayerAround;
use seekless_engine::node::Node;

/// A node that is trusted.
pub(super) fn trust(node: Node) -> Node {
    node.with_layer(|inner| Box::new(Trust { inner, flushes: Vec::new() }) as _)
}

/// The layer. `flushes` are answered by the next pump, because no layer answers inside `submit`.
#[derive(Debug)]
struct Trust {
    inner: Box<dyn Layer>,
    flushes: Vec<Tag>,
}

impl LayerAround for Trust {
    fn inner(&self) -> &dyn Layer {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Layer {
        self.inner.as_mut()
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        match io.op {
            Op::Flush => self.flushes.push(io.tag),
            _ => self.inner.submit(Io { fua: false, ..io }, cx),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        for tag in self.flushes.drain(..) {
            cx.answer(Done::new(tag, Ok(Data::none())));
        }
        self.inner.pump(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::options::Options;
    use seekless_engine::units::Time;
    use seekless_layouts::Kind;

    /// When a write and a flush behind it are answered over a disk caching disk, in nanoseconds.
    fn answers(wrap: impl FnOnce(Node) -> Node) -> Vec<Time> {
        let spec = seekless_disk::specs::find("st19101").expect("built in");
        let target = crate::sim::Target::disk(&spec, None).expect("it can be simulated");
        let node = target.volume(Kind::DCD, &Options::default(), 2000, 1).expect("it fits");
        let (mut node, mut now) = (wrap(node), 0);
        let mut at = Vec::new();
        for io in [Io::write(1, 7, Data::zeros(1)), Io::flush(2)] {
            node.run(&mut now, io).expect("nothing fails");
            at.push(now);
        }
        at
    }

    #[test]
    fn a_flush_takes_time_unless_the_volume_is_trusted() {
        let (plain, trusted) = (answers(|node| node), answers(trust));
        assert_eq!(plain[0], trusted[0]);
        assert!(plain[1] > plain[0], "the log is written: {plain:?}");
        assert_eq!(trusted[1], trusted[0]);
    }
}
