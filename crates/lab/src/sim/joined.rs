//! A volume with a second device behind it, for the log of a file system.

use super::Target;
use seekless_engine::device::medium::Cells;
use seekless_engine::joined::join;
use seekless_engine::middleware::record::{Log, Record};
use seekless_engine::node::Node;

impl Target {
    /// A volume, and behind it the first `blocks` blocks of the device for the log.
    pub(crate) fn join_journal(&self, volume: Node, blocks: u64, seed: u64) -> Node {
        let journal = self.journal().device(Box::new(Cells::new(blocks)));
        join(volume, journal, [u64::MAX, blocks], seed)
    }

    /// The same, and a recording of the device for the log.
    pub(crate) fn join_recorded(&self, volume: Node, blocks: u64) -> (Node, Log) {
        let journal = self.journal().device(Box::new(Cells::new(blocks)));
        let (journal, log) = Record::new(journal);
        (join(volume, Box::new(journal), [u64::MAX, blocks], 1), log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_disk::specs;
    use seekless_engine::data::Data;
    use seekless_engine::io::Io;
    use seekless_engine::options::Options;
    use seekless_layouts::Kind;

    /// Bytes behind the volume go to the second disk, and only they do.
    #[test]
    fn what_lies_behind_the_volume_is_on_the_second_disk() {
        let disk = |name: &str| {
            Target::disk(&specs::find(name).expect("built in"), None).expect("it can be simulated")
        };
        let target = disk("st19101").with_journal(disk("hp97560"));
        let volume = target.volume(Kind::INPLACE, &Options::default(), 2000, 1).expect("it fits");
        let mut node = target.join_journal(volume, 500, 1);
        assert_eq!(node.layer.blocks(), 2500);
        assert!(node.takes_parts());
        let mut now = 0;
        for (at, written) in [(7, [1, 0]), (2000, [1, 1]), (2499, [1, 2])] {
            node.run(&mut now, Io::write(0, at, Data::stamp(1, at, 1))).expect("it is written");
            let counts: Vec<u64> = node.traffic().iter().map(|one| one.writes).collect();
            assert_eq!(counts, written, "block {at}");
        }
        assert_eq!(node.accounts().len(), 2, "one for each disk");
        assert_eq!(disk("st19101").journal().name(), "st19101", "equal unless another is given");
    }
}
