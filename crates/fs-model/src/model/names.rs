//! Names: looking up, making, linking, removing and renaming.

use super::{By, Entries, Model, Node, Outcome};
use bytes::Bytes;
use seekless_fs::call::{Answer, Attr, Errno, FileKind, Ino, New, ROOT, RenameHow, Timestamp};

const SET_GROUP: u16 = 0o2000;

/// How an object is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    pub mode: u16,
    pub open: bool,
    pub by: By,
}

/// A rename: from where, to where, and how.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pub dir: Ino,
    pub name: Bytes,
    pub to_dir: Ino,
    pub to_name: Bytes,
    pub how: RenameHow,
}

impl Model {
    fn entries(&self, dir: Ino) -> Result<&Entries, Errno> {
        self.get(dir)?.entries().ok_or(Errno::NotDir)
    }

    /// Names in a directory that exists by a call before.
    fn known_entries(&mut self, dir: Ino) -> &mut Entries {
        self.known(dir).entries_mut().expect("the call has checked that it is a directory")
    }

    /// The object of a name in a directory.
    fn find(&self, dir: Ino, name: &[u8]) -> Result<Ino, Errno> {
        let entries = self.entries(dir)?;
        self.name_fits(name)?;
        entries.get(name).ok_or(Errno::NoEnt)
    }

    fn name_fits(&self, name: &[u8]) -> Result<(), Errno> {
        if name.len() > self.limits.most_name { Err(Errno::NameTooLong) } else { Ok(()) }
    }

    /// A directory in which names can be made: one that has not been removed.
    fn place(&self, dir: Ino, name: &[u8]) -> Result<(), Errno> {
        let entries = self.entries(dir)?;
        self.name_fits(name)?;
        if entries.get(name).is_some() {
            return Err(Errno::Exist);
        }
        if self.get(dir)?.links == 0 { Err(Errno::NoEnt) } else { Ok(()) }
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.nodes.get(&ino).is_some_and(|node| node.kind() == FileKind::Directory)
    }

    fn room_for_link(&self, ino: Ino) -> Result<(), Errno> {
        if self.get(ino)?.links >= self.limits.most_links { Err(Errno::MLink) } else { Ok(()) }
    }

    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> Outcome {
        let ino = self.find(dir, name)?;
        Ok(Answer::Object(self.looked_up(ino), None))
    }

    /// Makes an object. It belongs to its maker; its group is that of the maker, or that of a
    /// directory with the set-group-id bit, which directories inherit. Symbolic links have the mode
    /// of their call, too; the kernel gives 0777.
    pub(super) fn make(&mut self, dir: Ino, name: Bytes, what: New, how: Making) -> Outcome {
        self.place(dir, &name)?;
        if how.open && what != New::File {
            return Err(Errno::Inval);
        }
        match &what {
            New::Symlink(text) if text.is_empty() => return Err(Errno::NoEnt),
            New::Symlink(text) if text.len() > self.limits.most_text => {
                return Err(Errno::NameTooLong);
            }
            New::CharDevice(number) | New::BlockDevice(number)
                if *number > self.limits.most_device =>
            {
                return Err(Errno::Inval);
            }
            New::Directory => self.room_for_link(dir)?,
            _ => {}
        }
        let mut node = Node::new(self.new_ino(), &what, how.by.who, how.by.now);
        if self.limits.time_step != 1 {
            node.btime = 0;
        }
        let above = self.known(dir);
        above.changed(how.by.now);
        node.mode = how.mode & 0o7777;
        if above.mode & SET_GROUP != 0 {
            node.gid = above.gid;
            if what == New::Directory {
                node.mode |= SET_GROUP;
            }
        }
        if let Some(entries) = node.entries_mut() {
            entries.parent = dir;
            above.links += 1;
        }
        let ino = node.ino;
        self.known_entries(dir).set(name, ino);
        self.nodes.insert(ino, node);
        let handle = how.open.then(|| self.new_handle(ino));
        Ok(Answer::Object(self.looked_up(ino), handle))
    }

    /// Gives a file another name. One that has none does not get one again.
    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: Bytes, by: By) -> Outcome {
        let node = self.get(ino)?;
        self.place(dir, &name)?;
        if node.kind() == FileKind::Directory {
            return Err(Errno::Perm);
        }
        if node.links == 0 {
            return Err(Errno::NoEnt);
        }
        self.room_for_link(ino)?;
        let node = self.known(ino);
        node.links += 1;
        node.ctime = by.now;
        self.known_entries(dir).set(name, ino);
        self.known(dir).changed(by.now);
        Ok(Answer::Object(self.looked_up(ino), None))
    }

    pub(super) fn unlink(&mut self, dir: Ino, name: &[u8], by: By) -> Outcome {
        let ino = self.find(dir, name)?;
        if self.is_directory(ino) {
            return Err(Errno::IsDir);
        }
        self.known_entries(dir).remove(name);
        self.known(dir).changed(by.now);
        self.drop_name(dir, ino, by.now);
        Ok(Answer::Done)
    }

    pub(super) fn rmdir(&mut self, dir: Ino, name: &[u8], by: By) -> Outcome {
        let ino = self.find(dir, name)?;
        if !self.entries(ino)?.is_empty() {
            return Err(Errno::NotEmpty);
        }
        self.known_entries(dir).remove(name);
        self.known(dir).changed(by.now);
        self.drop_name(dir, ino, by.now);
        Ok(Answer::Done)
    }

    /// An object in `dir` has lost a name: its count falls, and that of `dir` for a directory.
    fn drop_name(&mut self, dir: Ino, ino: Ino, now: Timestamp) {
        let node = self.known(ino);
        node.ctime = now;
        if node.entries().is_some() {
            node.links = 0;
            self.known(dir).links -= 1;
        } else {
            node.links -= 1;
        }
        self.reap(ino);
    }

    /// Renames. If both names are of one object nothing happens.
    pub(super) fn rename(&mut self, rename: &Rename, by: By) -> Outcome {
        if let Some(errno) = self.rename_refusals(rename).first() {
            return Err(*errno);
        }
        let from = self.find(rename.dir, &rename.name)?;
        let to = self.entries(rename.to_dir)?.get(&rename.to_name);
        if to == Some(from) {
            return Ok(Answer::Done);
        }
        self.known_entries(rename.to_dir).set(rename.to_name.clone(), from);
        match (to, rename.how) {
            (Some(to), RenameHow::Exchange) => {
                self.known_entries(rename.dir).set(rename.name.clone(), to);
                self.moved(to, rename.to_dir, rename.dir, by.now);
            }
            (replaced, _) => {
                self.known_entries(rename.dir).remove(&rename.name);
                if let Some(replaced) = replaced {
                    self.drop_name(rename.to_dir, replaced, by.now);
                }
            }
        }
        self.moved(from, rename.dir, rename.to_dir, by.now);
        self.known(rename.dir).changed(by.now);
        self.known(rename.to_dir).changed(by.now);
        Ok(Answer::Done)
    }

    /// An object has moved between directories. Its time of change moves, too.
    fn moved(&mut self, ino: Ino, from: Ino, to: Ino, now: Timestamp) {
        let node = self.known(ino);
        node.ctime = now;
        if let Some(entries) = node.entries_mut() {
            entries.parent = to;
            self.known(from).links -= 1;
            self.known(to).links += 1;
        }
    }

    /// Every reason to refuse a rename, in the order in which Linux looks for them. POSIX allows
    /// each of them as the answer.
    pub(super) fn rename_refusals(&self, rename: &Rename) -> Vec<Errno> {
        let (from, to) = match self.rename_ends(rename) {
            Ok(ends) => ends,
            Err(errno) => return vec![errno],
        };
        let mut refusals = Vec::new();
        if rename.how == RenameHow::Exchange && !self.limits.exchanges {
            refusals.push(Errno::Inval);
        }
        match (rename.how, to) {
            (RenameHow::NoReplace, Some(_)) => refusals.push(Errno::Exist),
            (RenameHow::Exchange, None) => refusals.push(Errno::NoEnt),
            _ => {}
        }
        if to == Some(from) {
            return refusals;
        }
        if self.is_at_or_above(from, rename.to_dir) {
            refusals.push(Errno::Inval);
        }
        if let Some(to) = to {
            self.target_refusals(rename, from, to, &mut refusals);
        }
        if self.get(rename.to_dir).is_ok_and(|node| node.links == 0) {
            refusals.push(Errno::NoEnt);
        }
        refusals.extend(self.link_refusal(rename, from, to));
        refusals
    }

    /// The object that is renamed, and the one that has the new name.
    fn rename_ends(&self, rename: &Rename) -> Result<(Ino, Option<Ino>), Errno> {
        self.entries(rename.to_dir)?;
        self.entries(rename.dir)?;
        self.name_fits(&rename.to_name)?;
        let from = self.find(rename.dir, &rename.name)?;
        Ok((from, self.entries(rename.to_dir)?.get(&rename.to_name)))
    }

    fn target_refusals(&self, rename: &Rename, from: Ino, to: Ino, refusals: &mut Vec<Errno>) {
        let above = self.is_at_or_above(to, rename.dir);
        if rename.how == RenameHow::Exchange {
            if above {
                refusals.push(Errno::Inval);
            }
            return;
        }
        // Linux looks for this before it compares the kinds.
        if above {
            refusals.push(Errno::NotEmpty);
        }
        match (self.is_directory(from), self.is_directory(to)) {
            (true, false) => refusals.push(Errno::NotDir),
            (false, true) => refusals.push(Errno::IsDir),
            (true, true) if self.entries(to).is_ok_and(|entries| !entries.is_empty()) => {
                refusals.push(Errno::NotEmpty);
            }
            _ => {}
        }
    }

    /// A directory that moves to another one needs a link there, unless it takes that of another.
    fn link_refusal(&self, rename: &Rename, from: Ino, to: Option<Ino>) -> Option<Errno> {
        if rename.dir == rename.to_dir {
            return None;
        }
        let arrives = self.is_directory(from);
        let leaves = to.is_some_and(|to| self.is_directory(to));
        if arrives && !leaves {
            return self.room_for_link(rename.to_dir).err();
        }
        let back = rename.how == RenameHow::Exchange && leaves && !arrives;
        if back { self.room_for_link(rename.dir).err() } else { None }
    }

    /// True if `above` is `dir` or a directory on its path.
    fn is_at_or_above(&self, above: Ino, dir: Ino) -> bool {
        let mut at = dir;
        loop {
            if at == above {
                return true;
            }
            match self.entries(at) {
                Ok(entries) if at != ROOT && entries.parent != at => at = entries.parent,
                _ => return false,
            }
        }
    }

    /// Every reason to refuse a rename; none if it must succeed.
    pub fn refusals_of_rename(
        &self,
        (dir, name): (Ino, &Bytes),
        (to_dir, to_name): (Ino, &Bytes),
        how: RenameHow,
    ) -> Vec<Errno> {
        let (name, to_name) = (name.clone(), to_name.clone());
        self.rename_refusals(&Rename { dir, name, to_dir, to_name, how })
    }

    /// Attributes of the object at a path from the root, its names separated by slashes.
    pub fn at(&self, path: &str) -> Option<Attr> {
        let names = path.split('/').filter(|name| !name.is_empty());
        let found = names.map(str::as_bytes).try_fold(ROOT, |dir, name| self.find(dir, name));
        self.nodes.get(&found.ok()?).map(Node::attr)
    }
}
