//! Attributes: what calls change, and what changes with them.

use super::{Body, By, Model, Node, Outcome};
use seekless_fs::call::{Answer, Credentials, Errno, Ino, SetAttr};

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;

impl Node {
    /// Clears the set-user-id bit, and the set-group-id bit if the group may execute the object.
    /// Without that right the bit means mandatory locking, which a change does not end. Directories
    /// keep both bits, since there they only say what new entries inherit.
    pub(super) fn drop_set_ids(&mut self) {
        if self.entries().is_none() {
            let group = if self.mode & GROUP_EXECUTES == 0 { 0 } else { SET_GROUP };
            self.mode &= !(SET_USER | group);
        }
    }

    /// A user has changed the content: root keeps the set-id bits.
    pub(super) fn content_changed_by(&mut self, who: Credentials) {
        if who.uid != 0 {
            self.drop_set_ids();
        }
    }
}

impl Model {
    /// Changes attributes. The time of change moves with each of them; a size, though it stays the
    /// same, moves the time of content, too.
    pub(super) fn set_attr(&mut self, ino: Ino, set: &SetAttr, by: By) -> Outcome {
        let limits = self.limits;
        let node = self.get_mut(ino)?;
        let nothing = SetAttr { handle: set.handle, ..SetAttr::default() };
        if *set == nothing {
            return Ok(Answer::Attr(node.attr()));
        }
        if let Some(size) = set.size {
            node.resize(size, limits.most_bytes)?;
            node.content_changed_by(by.who);
            node.mtime = by.now;
        }
        if set.uid.is_some() || set.gid.is_some() {
            node.drop_set_ids();
        }
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        node.mode = set.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.mtime = set.mtime.map_or(node.mtime, |time| limits.time(time));
        if let Some(atime) = set.atime {
            (node.atime, node.reads) = (limits.time(atime), None);
        }
        node.ctime = by.now;
        Ok(Answer::Attr(node.attr()))
    }

    pub(super) fn read_link(&mut self, ino: Ino, by: By) -> Outcome {
        let node = self.get_mut(ino)?;
        node.was_read(by.now);
        match &node.body {
            Body::Symlink(text) => Ok(Answer::Text(text.clone())),
            _ => Err(Errno::Inval),
        }
    }
}

impl Node {
    /// Sets the size of a file; what lies behind it goes, what is new reads as zeros.
    pub(super) fn resize(&mut self, size: u64, most: u64) -> Result<(), Errno> {
        match &mut self.body {
            Body::Directory(_) => return Err(Errno::IsDir),
            Body::Symlink(_) | Body::Special(..) => return Err(Errno::Inval),
            Body::File(_) if size > most => return Err(Errno::FBig),
            Body::File(content) => content.cut(size),
        }
        self.size = size;
        Ok(())
    }
}
