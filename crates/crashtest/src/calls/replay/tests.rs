//! Calls that are heard and made again.

use super::*;
use crate::calls::record::{CallRecorder, Heard};
use crate::file_system::Choice;
use crate::own::run::image_of;
use crate::record::marks::Marks as _;
use crate::session::{Load, Session};
use seekless_formats::Kind;
use seekless_fs::call::{Answer, Credentials, New, ROOT, RenameHow, Reply};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// The time of the first call of every program.
const BEGIN: Timestamp = 1_700_000_000_000_000_000;

/// A directory with an empty file system.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        let file = std::fs::File::create(place.path("base")).expect("a file");
        file.set_len(8 * MIB).expect("a size");
        let fs = Choice::EveryPolicy(Kind::default()).to_make();
        fs.make(&place.path("base")).expect("a file system");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn image(&self) -> Image {
        image_of(&self.path("base")).expect("an image")
    }

    fn recorder(&self, name: &str) -> Arc<Recorder> {
        Recorder::create(&self.path(name), 8 * MIB, false).expect("a recording")
    }

    fn session(&self, tape: &Path) -> Session {
        let base = self.path("base");
        Load { recording: tape, base: Some(&base) }.session().expect("a recording")
    }

    /// Replays calls under a policy; what was found, and the recording.
    fn replayed(
        &self,
        name: &str,
        entries: &[Entry],
        policy: OwnPolicy,
        pause: Time,
    ) -> (Replayed, PathBuf) {
        let recorder = self.recorder(name);
        let replayed = replay(entries, self.image(), policy, pause, &recorder).expect("a replay");
        recorder.finish().expect("an end");
        (replayed, self.path(name))
    }
}

/// A program whose calls are heard, over a volume that records blocks.
struct Live {
    client: FsClient<Heard<Box<dyn MountedFs>>>,
    node: Node,
    exchange: Exchange,
    now: Time,
    calls: Arc<CallRecorder>,
    blocks: Arc<Recorder>,
}

impl Live {
    fn new(place: &Place, blocks: &Arc<Recorder>) -> Live {
        let device = ImageDevice::recorded(Arc::new(place.image()), Arc::clone(blocks));
        let mut node = Plain::node(Box::new(device));
        let mut now = 0;
        let mut disk = NodeDisk::new(&mut node, &mut now);
        let fs = own::mount(&mut disk, OwnPolicy::default(), BEGIN).expect("a mount");
        let calls = CallRecorder::new();
        let client = FsClient::new(Heard::new(fs, Arc::clone(&calls)));
        let (exchange, blocks) = (Exchange::new(1), Arc::clone(blocks));
        Live { client, node, exchange, now, calls, blocks }
    }

    fn turn(&mut self) {
        let moved = self.exchange.move_all(&mut self.client, from_mut(&mut self.node), self.now);
        moved.expect("it cannot fail");
    }

    /// Lets time pass; the file system does what is due.
    fn pass(&mut self, span: Time) {
        let until = self.now + span;
        self.turn();
        while let Some(next) = self.client.fs.deadline().filter(|&next| next <= until) {
            self.now = next;
            self.turn();
        }
        self.now = until;
    }

    fn call(&mut self, request: Request) -> Answer {
        let now = BEGIN + self.now as Timestamp;
        // Ids are used again, as a driver does.
        let call = Call { id: 7, who: Credentials::default(), now, request };
        self.client.submit(call, &mut Below::new(self.now, from_mut(&mut self.node)));
        self.turn();
        let replies = std::mem::take(&mut self.client.replies);
        let [Reply { result, .. }] = replies.try_into().expect("one reply");
        result.expect("it succeeds")
    }

    fn make(&mut self, name: &'static str) -> Ino {
        let (what, name) = (New::File, name.into());
        match self.call(Request::Make { dir: ROOT, name, what, mode: 0o644, open: false }) {
            Answer::Object(attr, _) => attr.ino,
            other => panic!("{other:?}"),
        }
    }

    fn mark(&self, value: &str) {
        self.calls.mark(value).expect("a mark");
        self.blocks.mark(value).expect("a mark");
    }

    /// Two versions of a file, each renamed into place; with a pause in between.
    fn versions(mut self) -> Vec<Entry> {
        self.calls.begin();
        self.blocks.begin().expect("a begin");
        for version in ["one", "two"] {
            let ino = self.make("new");
            let data = version.repeat(3000).into();
            let handle = by_inode(ino);
            self.call(Request::Write { handle, at: 0, data, append: false });
            self.call(Request::Fsync { ino, data_only: false });
            let (how, name, to_name) = (RenameHow::Replace, "new".into(), "config".into());
            self.call(Request::Rename { dir: ROOT, name, to_dir: ROOT, to_name, how });
            self.mark(version);
            self.pass(40 * SECONDS);
        }
        let handle = by_inode(self.made());
        self.call(Request::Read { handle, at: 0, length: 100 });
        self.client.stop(&mut Below::new(self.now, from_mut(&mut self.node)));
        while !self.client.fs.stopped() {
            self.turn();
        }
        self.blocks.finish().expect("an end");
        self.calls.take()
    }

    fn made(&mut self) -> Ino {
        match self.call(Request::Lookup { dir: ROOT, name: "config".into() }) {
            Answer::Object(attr, _) => attr.ino,
            other => panic!("{other:?}"),
        }
    }
}

fn recorded(place: &Place) -> (Vec<Entry>, PathBuf) {
    let blocks = place.recorder("live");
    (Live::new(place, &blocks).versions(), place.path("live"))
}

#[test]
fn a_replay_writes_the_blocks_of_the_run() {
    let place = Place::new();
    let (entries, live) = recorded(&place);
    let (found, tape) = place.replayed("again", &entries, OwnPolicy::default(), 0);
    assert_eq!((found.differences, found.first), (0, None));
    assert_eq!(found.calls, 10);
    let bytes = |path: &Path| std::fs::read(path).expect("a recording");
    assert!(bytes(&live) == bytes(&tape), "the recordings differ");
    // And a run that was another one is told apart.
    let (_, other) =
        place.replayed("other", &entries[..entries.len() - 6], OwnPolicy::default(), 0);
    assert!(bytes(&live) != bytes(&other));
}

#[test]
fn a_program_that_would_see_a_difference_is_reported() {
    let place = Place::new();
    let (mut entries, _) = recorded(&place);
    let read = entries.iter_mut().rev().find_map(|entry| match entry {
        Entry::Reply { told: Told::Bytes(_, sum), .. } => Some(sum),
        _ => None,
    });
    *read.expect("a read") ^= 1;
    let (found, _) = place.replayed("again", &entries, OwnPolicy::default(), 0);
    assert_eq!(found.differences, 1);
    let first = found.first.expect("it is told");
    assert!(first.starts_with("call 9 (read): Bytes(100, "), "{first}");
}

#[test]
fn every_policy_gives_the_program_what_it_saw() {
    let place = Place::new();
    let (entries, _) = recorded(&place);
    for policy in OwnPolicy::of(Kind::default()) {
        for pause in [0, WRITTEN_BACK] {
            let name = format!("{policy}-{pause}");
            let (found, tape) = place.replayed(&name, &entries, policy, pause);
            assert_eq!((found.differences, found.first), (0, None), "{name}");
            let session = place.session(&tape);
            assert_eq!(session.history().marks().len(), 2, "{name}");
            assert!(session.flaw().is_none(), "{name}");
        }
    }
}

#[test]
fn a_pause_lets_each_change_be_written_back() {
    let place = Place::new();
    let (entries, _) = recorded(&place);
    let writes = |pause| {
        let name = format!("pause-{pause}");
        let (found, tape) = place.replayed(&name, &entries, OwnPolicy::default(), pause);
        (found.took_ns / SECONDS, place.session(&tape).history().writes().len())
    };
    let ((short, few), (long, many)) = (writes(0), writes(WRITTEN_BACK));
    assert!(long >= short + 6 * 31, "{long} s, {short} s");
    assert!(many > few, "{many} writes, {few} without pauses");
}

#[test]
fn a_recording_on_another_disk_is_no_panic() {
    let place = Place::new();
    let (entries, _) = recorded(&place);
    let empty = place.path("empty");
    std::fs::File::create(&empty).and_then(|file| file.set_len(8 * MIB)).expect("a file");
    let image = image_of(&empty).expect("an image");
    let refused = replay(&entries, image, OwnPolicy::default(), 0, &place.recorder("none"));
    assert!(matches!(refused, Err(ReplayError::Mount(FsError::Foreign))), "{refused:?}");
}

/// Other numbers for the objects that a program made, as another policy may give them.
fn renumbered(entries: &[Entry]) -> Vec<Entry> {
    let other = |ino: Ino| if ino == ROOT { ino } else { ino + 1000 };
    let handle = |handle: Handle| inode_of(handle).map_or(handle, |ino| by_inode(other(ino)));
    let mut entries = entries.to_vec();
    for entry in &mut entries {
        match entry {
            Entry::Reply { told: Told::Object(ino, ..), .. } => *ino = other(*ino),
            Entry::Call { call, .. } => match &mut call.request {
                Request::Fsync { ino, .. } => *ino = other(*ino),
                Request::Write { handle: opened, .. } | Request::Read { handle: opened, .. } => {
                    *opened = handle(*opened);
                }
                _ => {}
            },
            _ => {}
        }
    }
    entries
}

#[test]
fn numbers_of_the_run_are_translated() {
    let place = Place::new();
    let (entries, live) = recorded(&place);
    let others = renumbered(&entries);
    assert_ne!(entries, others);
    let (found, tape) = place.replayed("others", &others, OwnPolicy::default(), 0);
    assert_eq!((found.differences, found.first), (0, None));
    let bytes = |path: &Path| std::fs::read(path).expect("a recording");
    assert!(bytes(&live) == bytes(&tape), "the recordings differ");
}
