//! Mounts a crash state and reads what is there.

use super::script::{History, Name, bytes_of, dir_name, file_name};
use crate::files::driver::{FilesDriver, Next, Program};
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::units::Time;
use seekless_formats::Kind;
use seekless_formats::{FsError, MountOptions};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Credentials, Ino, ROOT, Reply, Request, by_inode};
use seekless_fs::policy::PolicyKind;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a crash state holds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Names of the script that lead to a file.
    pub names: BTreeSet<Name>,
    /// A file has, within its size, bytes that its program never wrote there, or cannot be read.
    pub foreign: bool,
}

/// Mounts and looks all names of the script up.
///
/// # Errors
/// If it cannot be mounted.
pub(super) fn look(
    cells: Cells,
    (fs, policy): (Kind, PolicyKind),
    history: &History,
) -> Result<Seen, FsError> {
    let node = Plain::node(Box::new(Ram::new(Box::new(cells))));
    let mount = MountOptions { policy, ..MountOptions::default() };
    let mut driver = FilesDriver::mount(node, |disk: &mut NodeDisk<'_>| (fs.mount)(disk, &mount))?;
    let mut looker = Looker::new(history);
    let ended = driver.run(&mut [&mut looker as &mut dyn Program], |_| {});
    let mut seen = looker.seen;
    seen.foreign |= ended.is_err();
    Ok(seen)
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Dir(u32),
    File(Name),
    Read(Name, Ino),
}

struct Looker<'h> {
    history: &'h History,
    open: VecDeque<Ask>,
    asked: Option<Ask>,
    dirs: BTreeMap<u32, Ino>,
    seen: Seen,
}

impl Looker<'_> {
    fn new(history: &History) -> Looker<'_> {
        let dirs = history.dirs().into_iter().map(Ask::Dir);
        let open = dirs.chain(history.names().into_iter().map(Ask::File)).collect();
        Looker { history, open, asked: None, dirs: BTreeMap::new(), seen: Seen::default() }
    }

    fn take(&mut self, ask: Ask, reply: Reply) {
        match (ask, reply.result) {
            (Ask::Dir(dir), Ok(Answer::Object(attr, _))) => {
                self.dirs.insert(dir, attr.ino);
            }
            (Ask::File(name), Ok(Answer::Object(attr, _))) => {
                self.seen.names.insert(name);
                self.open.push_front(Ask::Read(name, attr.ino));
            }
            (Ask::Read((_, file), _), Ok(Answer::Bytes(bytes))) => {
                let whole = bytes_of(file, self.history.sizes[&file]);
                self.seen.foreign |= !whole.starts_with(&bytes);
            }
            (Ask::Read(..), _) => self.seen.foreign = true,
            (Ask::Dir(_) | Ask::File(_), _) => {}
        }
    }

    fn request(&self, ask: Ask) -> Option<Request> {
        match ask {
            Ask::Dir(dir) => Some(Request::Lookup { dir: ROOT, name: dir_name(dir) }),
            Ask::File((dir, file)) => {
                let dir = *self.dirs.get(&dir)?;
                Some(Request::Lookup { dir, name: file_name(file) })
            }
            Ask::Read((_, file), ino) => {
                // One byte more than it may have.
                let length = self.history.sizes[&file] + 1;
                Some(Request::Read { handle: by_inode(ino), at: 0, length })
            }
        }
    }
}

impl Program for Looker<'_> {
    fn next(&mut self, reply: Option<Reply>, _now: Time) -> Next {
        if let (Some(reply), Some(ask)) = (reply, self.asked.take()) {
            self.take(ask, reply);
        }
        while let Some(ask) = self.open.pop_front() {
            if let Some(request) = self.request(ask) {
                self.asked = Some(ask);
                return Next::Call(Credentials::default(), request);
            }
        }
        Next::End
    }
}
