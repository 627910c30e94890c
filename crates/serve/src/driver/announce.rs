//! What the server says of an array below it: members that fail, and how far a rebuild has come.

use super::Driver;
use seekless_engine::io::Rebuild;
use seekless_engine::node::Node;

/// The rebuild of an array below a volume, if there is one.
pub(super) fn rebuild_below(node: &Node) -> Option<Rebuild> {
    node.devices.iter().find_map(|device| device.status().rebuild())
}

impl Driver {
    /// Says which members of an array have failed, once each.
    pub(super) fn announce_failed_members(&mut self) {
        let failed_members =
            self.parts.node.devices.iter().flat_map(|device| device.status().failed_members());
        for (member, error) in failed_members.skip(self.failed_members) {
            self.failed_members += 1;
            eprintln!(
                "seekless: member {member} has failed ({error}) and is out of the array; \
                 `seekless replace` puts another one in its place"
            );
        }
    }

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
