//! What the server says of a rebuild below it.

use super::Driver;
use seekless_engine::io::Rebuild;
use seekless_engine::node::Node;

/// The rebuild of an array below a volume, if there is one.
pub(super) fn rebuild_below(node: &Node) -> Option<Rebuild> {
    node.devices.iter().find_map(|device| device.status().rebuild())
}

impl Driver {
    /// Says how far a rebuild has come if that is news. None begins while an array is served.
    pub(super) fn announce_rebuild(&mut self, watch: &mut dyn FnMut(Rebuild)) {
        if !matches!(self.rebuild, Some(Rebuild::Running { .. })) {
            return;
        }
        let found = rebuild_below(&self.parts.node);
        if let Some(news) = found.filter(|_| found != self.rebuild) {
            self.rebuild = found;
            watch(news);
        }
    }
}
