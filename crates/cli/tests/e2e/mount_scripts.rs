//! Random scripts through the kernel: each call becomes system calls on a mount, and the model of
//! POSIX says what they must answer. After the script the trees are compared, also after an
//! unmount, a check and another mount.
//!
//! All calls are root's, and times are compared where a call has just set them.
//! `SEEKLESS_SCRIPTS=20` runs twenty times as many scripts.

mod kernel;

use crate::mount::{Disk, VLFS, policies, possible, runs_on};
use crate::tree::is_full;
use kernel::{Got, Kernel};
use rustix::fs::Stat;
use rustix::io::Errno;
use seekless_fs::call::{
    AllocateHow, Answer, Call, Credentials, Errno as Expected, FileKind, New, ROOT, RenameHow,
    Request, SeekWhat, SetAttr,
};
use seekless_fs::system::Runs as _;
use seekless_fs_model::model::{Content, Limits, Model, Node};
use seekless_fs_model::script::{Bindings, Kind, Script, Shape};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Calls of a script.
const LENGTH: usize = 1500;
/// Bytes of content that are compared at once.
const PIECE: usize = 1 << 20;

/// A rule of the model that a control changes.
type Plant = fn(&mut Request);

/// The mount beside the model.
struct Pair {
    kernel: Kernel,
    model: Model,
    ours: Bindings,
    may_fill: bool,
    plant: Option<Plant>,
    no_exchange: bool,
    passed: u64,
    full: u64,
}

fn is_exchange(call: &Call) -> bool {
    matches!(call.request, Request::Rename { how: RenameHow::Exchange, .. })
}

impl Pair {
    fn new(root: &Path, may_fill: bool, limits: Limits, plant: Option<Plant>) -> Pair {
        let mut model = Model::new(limits);
        let mode = 0o7777 & fs::metadata(root).expect("stat").mode() as u16;
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let request = Request::SetAttr { ino: ROOT, set };
        model.run(Call { id: ROOT, who: Credentials::default(), now: 0, request });
        let (kernel, ours) = (Kernel::new(root), Bindings::default());
        let no_exchange = !limits.exchanges;
        Pair { kernel, model, ours, may_fill, plant, no_exchange, passed: 0, full: 0 }
    }

    /// Runs a script as far as both sides agree.
    fn run(&mut self, calls: &[Call]) -> Result<(), String> {
        for call in calls {
            let Some(call) = suited(call) else { continue };
            // The kernel answers an exchange of a name with itself, whatever the file system does.
            if self.no_exchange && is_exchange(&call) {
                continue;
            }
            self.step(&call).map_err(|what| format!("{call:?}: {what}"))?;
        }
        Ok(())
    }

    fn step(&mut self, call: &Call) -> Result<(), String> {
        let Some(mut ours) = self.ours.call(call) else { return Ok(()) };
        if self.is_strange(&ours.request) {
            return Ok(());
        }
        let got = self.kernel.run(call);
        if self.may_fill && matches!(got, Err(Errno::NOSPC)) {
            self.full += 1;
            return Ok(());
        }
        if let (true, Request::Write { data, .. }, Ok(Got::Written(written))) =
            (self.may_fill, &mut ours.request, &got)
            && *written > 0
        {
            data.truncate(*written);
        }
        let refusals = self.refusals(&ours.request);
        if let Some(plant) = self.plant {
            plant(&mut ours.request);
        }
        let expected = self.model.run(ours.clone()).result;
        self.passed += 1;
        self.compare(&ours.request, (&expected, &got), &refusals)?;
        self.ours.learn(call, &expected);
        Ok(())
    }

    /// True for calls that the kernel answers by itself, with errors of its own.
    fn is_strange(&self, request: &Request) -> bool {
        let kind = |ino: &u64| self.model.node(*ino).map(Node::kind);
        match request {
            Request::ReadLink { ino } => kind(ino) != Some(FileKind::Symlink),
            Request::Open { ino, truncate: false } => {
                !matches!(kind(ino), Some(FileKind::File | FileKind::Directory))
            }
            Request::List { handle, .. } => {
                let dir = self.model.opened(*handle).and_then(|ino| self.model.node(ino));
                dir.is_none_or(|dir| dir.links == 0)
            }
            _ => false,
        }
    }

    fn refusals(&self, request: &Request) -> Vec<Expected> {
        let Request::Rename { dir, name, to_dir, to_name, how } = request else {
            return Vec::new();
        };
        self.model.refusals_of_rename((*dir, name), (*to_dir, to_name), *how)
    }

    fn compare(
        &self,
        request: &Request,
        (expected, got): (&Result<Answer, Expected>, &Result<Got, Errno>),
        refusals: &[Expected],
    ) -> Result<(), String> {
        let opened = |handle: &u64| {
            self.model.opened(*handle).and_then(|ino| self.model.node(ino)).expect("it is open")
        };
        match (request, expected, got) {
            (Request::Seek { handle, at, what }, _, _) => seeks(opened(handle), (*at, *what), got),
            (_, Err(ours), Err(theirs)) => {
                let number = theirs.raw_os_error();
                let fits = |errno: &Expected| errno.number() == number;
                if fits(ours) || refusals.iter().any(fits) {
                    return Ok(());
                }
                Err(format!("fails with {theirs}; expected {ours}"))
            }
            (Request::List { handle, .. }, Ok(_), Ok(Got::Names(names))) => {
                let entries = opened(handle).entries().ok_or("it lists no directory")?;
                let ours: Vec<Vec<u8>> = entries.iter().map(|(name, _)| name.to_vec()).collect();
                same("names", names, &ours)
            }
            (_, Ok(Answer::Attr(attr)), Ok(Got::Object(stat))) => {
                let node = self.model.node(attr.ino).expect("it has attributes");
                attributes(node, stat)?;
                times(request, stat)
            }
            (_, Ok(Answer::Object(attr, _)), Ok(Got::Object(stat))) => {
                attributes(self.model.node(attr.ino).expect("it is held"), stat)
            }
            (_, Ok(Answer::Bytes(ours) | Answer::Text(ours)), Ok(Got::Bytes(theirs))) => {
                content(0, theirs, ours)
            }
            (_, Ok(Answer::Written(ours)), Ok(Got::Written(theirs))) => {
                same("bytes written", theirs, &(*ours as usize))
            }
            (_, Ok(_), Ok(Got::Nothing)) => Ok(()),
            _ => Err(format!("it brings {got:?}; expected {expected:?}")),
        }
    }

    /// Compares everything that names reach.
    fn walk(&self, root: &Path) -> Result<(), String> {
        let mut left: Vec<(u64, PathBuf)> = vec![(ROOT, root.to_owned())];
        while let Some((ino, path)) = left.pop() {
            let node = self.model.node(ino).expect("it has a name");
            let named = |what: String| format!("{}: {what}", path.display());
            let stat = rustix::fs::lstat(&path).map_err(|error| named(error.to_string()))?;
            attributes(node, &stat).map_err(named)?;
            if let Some(entries) = node.entries() {
                let ours: Vec<Vec<u8>> = entries.iter().map(|(name, _)| name.to_vec()).collect();
                same("names", &kernel::names(&path), &ours).map_err(named)?;
                let inside =
                    entries.iter().map(|(name, ino)| (ino, path.join(OsStr::from_bytes(name))));
                left.extend(inside);
            } else if let Some(bytes) = node.content() {
                holds(&path, node.size, bytes).map_err(named)?;
            } else if node.kind() == FileKind::Symlink {
                let text = fs::read_link(&path).map_err(|error| named(error.to_string()))?;
                same("length of the text", &(text.as_os_str().len() as u64), &node.size)
                    .map_err(named)?;
            }
        }
        Ok(())
    }
}

/// The call as root makes it through the kernel; `None` if no program can make it.
fn suited(call: &Call) -> Option<Call> {
    let mut call = Call { who: Credentials::default(), ..call.clone() };
    match &mut call.request {
        // What the process masks is not asked for; directories have no more bits than these.
        Request::Make { what: New::Directory, mode, .. } => *mode &= 0o1700,
        Request::Make { mode, .. } => *mode &= 0o7700,
        Request::SetAttr { set, .. } if set.size.is_some_and(|size| size > 1 << 40) => return None,
        // The id of a list is enough: each begins anew.
        Request::List { cookie, .. } => *cookie = 0,
        _ => {}
    }
    Some(call)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, ours: &T) -> Result<(), String> {
    if got == ours { Ok(()) } else { Err(format!("{what}: {got:?}; expected {ours:?}")) }
}

fn content(at: u64, got: &[u8], ours: &[u8]) -> Result<(), String> {
    same("bytes read", &got.len(), &ours.len())?;
    match got.iter().zip(ours).position(|(got, ours)| got != ours) {
        None => Ok(()),
        Some(n) => Err(format!("byte {}: {}; expected {}", at + n as u64, got[n], ours[n])),
    }
}

fn attributes(node: &Node, stat: &Stat) -> Result<(), String> {
    let kind = match node.kind() {
        FileKind::File => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
    };
    same("kind", &(stat.st_mode & 0o170_000), &kind)?;
    same("names of it", &stat.st_nlink, &node.links.into())?;
    same("owner", &(stat.st_uid, stat.st_gid), &(node.uid, node.gid))?;
    if node.kind() != FileKind::Symlink {
        same("mode", &(stat.st_mode & 0o7777), &node.mode.into())?;
    }
    match node.kind() {
        FileKind::File | FileKind::Symlink => same("size", &(stat.st_size as u64), &node.size),
        _ => Ok(()),
    }
}

/// Times that a call has set.
fn times(request: &Request, stat: &Stat) -> Result<(), String> {
    let Request::SetAttr { set, .. } = request else { return Ok(()) };
    let got = |seconds: i64, part: i64| seconds * 1_000_000_000 + part;
    if let Some(mtime) = set.mtime {
        same("time of change", &got(stat.st_mtime, stat.st_mtime_nsec as i64), &mtime)?;
    }
    if let Some(atime) = set.atime {
        same("time of access", &got(stat.st_atime, stat.st_atime_nsec as i64), &atime)?;
    }
    Ok(())
}

/// Data may not hide before the place where data begins, nor stand where a hole begins.
fn seeks(node: &Node, (at, what): (u64, SeekWhat), got: &Result<Got, Errno>) -> Result<(), String> {
    let Some(bytes) = node.content() else { return Ok(()) };
    let data = bytes.next_nonzero(at).filter(|next| *next < node.size);
    let fine = match (what, got) {
        (_, Err(Errno::NXIO)) if at >= node.size => true,
        (SeekWhat::Data, Err(Errno::NXIO)) => data.is_none(),
        (SeekWhat::Data, Ok(Got::At(found))) => {
            (at..node.size).contains(found) && data.is_none_or(|data| *found <= data)
        }
        (SeekWhat::Hole, Ok(Got::At(found))) if at < node.size => {
            *found == node.size || ((at..node.size).contains(found) && bytes.read(*found, 1) == [0])
        }
        _ => false,
    };
    if fine { Ok(()) } else { Err(format!("it finds {got:?}; data begins at {data:?}")) }
}

/// Compares the beginning of a file, its end, and every place where the model has data.
fn holds(path: &Path, size: u64, ours: &Content) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; PIECE];
    let mut piece = |at: u64| {
        let length = size.saturating_sub(at).min(PIECE as u64) as usize;
        file.read_exact_at(&mut buffer[..length], at).map_err(|error| error.to_string())?;
        content(at, &buffer[..length], &ours.read(at, length))
    };
    piece(0)?;
    piece(size.saturating_sub(PIECE as u64))?;
    let mut at = PIECE as u64;
    while let Some(next) = ours.next_nonzero(at).filter(|next| *next < size) {
        piece(next)?;
        at = next + PIECE as u64;
    }
    Ok(())
}

fn script(kind: Kind, seed: u64) -> Script {
    let capacity = if kind.may_fill() { 16 << 20 } else { 64 << 20 };
    Script::random(kind, seed, LENGTH, Shape { capacity, ..Shape::default() })
}

fn disk(kind: Kind, layout: &str, policy: &str) -> Disk {
    let size = if kind.may_fill() { "16M" } else { "64M" };
    let more = if layout == VLFS { &[][..] } else { &["--bytes-per-inode", "8k"] };
    Disk::with_policy(policy, layout, size, more)
}

/// Runs a script on a fresh mount; then everything must be there after another mount, too.
fn run(kind: Kind, seed: u64, (layout, policy): (&str, &str)) -> u64 {
    let disk = disk(kind, layout, policy);
    let mounted = disk.mount(&["--policy", policy]);
    // Where operations are not atomic, an exchange cannot be.
    let exchanges = layout == VLFS || !["sync", "soft"].contains(&policy);
    let limits = Limits { exchanges, allocates: layout != VLFS, ..Limits::default() };
    let mut pair = Pair::new(&disk.point(), kind.may_fill(), limits, None);
    let told = |what: String| panic!("{kind:?}, seed {seed}, {layout}, {policy}: {what}");
    pair.run(&script(kind, seed).calls).unwrap_or_else(told);
    pair.walk(&disk.point()).unwrap_or_else(told);
    assert_eq!(pair.full > 0, kind.may_fill(), "{kind:?}, seed {seed}");
    pair.kernel = Kernel::new(disk.dir.path());
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&["--read-only"]);
    pair.walk(&disk.point()).unwrap_or_else(told);
    mounted.unmount();
    pair.passed
}

fn scripts() -> u64 {
    std::env::var("SEEKLESS_SCRIPTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn scripts_do_what_the_model_says() {
    if !possible() {
        return;
    }
    let layouts = ["vlog", "raw", "inplace", "lfs", "loge", "hylog", "dcd", "wolf", "lld", VLFS];
    let mut passed = 0;
    for seed in 1..=scripts() {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            let layout = layouts[(n + seed as usize) % layouts.len()];
            let policies: Vec<_> = policies().filter(|one| runs_on(one, layout)).collect();
            // One policy of each kind of script, in turn; a nightly run takes all.
            let turn = std::slice::from_ref(&policies[n % policies.len()]);
            for policy in if is_full() { &policies } else { turn } {
                passed += run(kind, seed, (layout, *policy));
            }
        }
    }
    eprintln!("{passed} calls through the kernel answer as the model does");
}

#[test]
fn a_model_with_another_rule_differs() {
    if !possible() {
        return;
    }
    let plants: [(Kind, Plant); 5] = [
        (Kind::Sizes, |request| {
            if let Request::Write { append, .. } = request {
                *append = false;
            }
        }),
        (Kind::Holes, |request| {
            if let Request::Allocate { how, .. } = request
                && *how == AllocateHow::Punch
            {
                *how = AllocateHow::KeepSize;
            }
        }),
        (Kind::Renames, |request| {
            if let Request::Rename { how, .. } = request
                && *how == RenameHow::Exchange
            {
                *how = RenameHow::Replace;
            }
        }),
        (Kind::Users, |request| {
            if let Request::SetAttr { set, .. } = request {
                set.gid = None;
            }
        }),
        (Kind::Times, |request| {
            if let Request::SetAttr { set, .. } = request {
                set.mtime = set.mtime.map(|time| time + 1);
            }
        }),
    ];
    for (kind, plant) in plants {
        let disk = disk(kind, "vlog", "async");
        let mounted = disk.mount(&[]);
        let mut pair = Pair::new(&disk.point(), kind.may_fill(), Limits::default(), Some(plant));
        let told = pair.run(&script(kind, 1).calls).and_then(|()| pair.walk(&disk.point()));
        drop(pair);
        mounted.unmount();
        assert!(told.is_err(), "{kind:?}: the other rule is not seen");
    }
}
