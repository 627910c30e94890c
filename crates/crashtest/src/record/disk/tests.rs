use super::super::Recorded;
use super::super::tape::{Payload, Recording, TapeEnd, What};
use super::*;
use crate::replay::extents::Extents;
use seekless_engine::rng::Rng;
use seekless_serve::fuse::disks::DiskDirectory;
use std::fs::OpenOptions;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory with a recorded disk and its log of acknowledgements.
struct Bench {
    dir: TempDir,
    recorder: Arc<Recorder>,
    mounted: DiskDirectory<Node>,
    disk: PathBuf,
    acks: PathBuf,
}

/// A recording as it is read: the events in short, and the content with every write kept.
struct Played {
    events: Vec<String>,
    content: Vec<u8>,
}

impl Played {
    fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event.starts_with(kind)).count()
    }

    fn marks(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event.strip_prefix("mark ")).collect()
    }
}

fn sparse(path: &Path, size: u64) -> File {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(path);
    let file = file.expect("a file");
    file.set_len(size).expect("a length");
    file
}

impl Bench {
    /// `None`, visibly, without FUSE.
    fn new(size: u64) -> Option<Bench> {
        let dir = tempfile::tempdir().expect("a directory");
        let point = dir.path().join("point");
        std::fs::create_dir(&point).expect("a directory");
        let mounted = match DiskDirectory::mount_at(&point) {
            Ok(mounted) => mounted,
            Err(error) => {
                eprintln!("skipped: no FUSE here: {error}");
                return None;
            }
        };
        let tape = dir.path().join("run.tape");
        let recorder = Recorder::create(&tape, size, false).expect("a recording");
        let file = sparse(&dir.path().join("copy"), size);
        let disk = RecordedDisk::new(Arc::clone(&recorder), file, size).expect("a disk");
        let (_, disk) = mounted.insert_named("disk", Arc::new(Node::Disk(disk))).expect("a name");
        let acks = Node::Acks(MarkFile::new(Arc::clone(&recorder)));
        let (_, acks) = mounted.insert_named("acks", Arc::new(acks)).expect("a name");
        Some(Bench { dir, recorder, mounted, disk, acks })
    }

    /// Ends the recording and compares it with the disk.
    fn end(self) -> (Recorded, Played) {
        drop(self.mounted);
        let recorded = self.recorder.finish().expect("it ends");
        let played = play(&self.dir.path().join("run.tape"));
        let copy = std::fs::read(self.dir.path().join("copy")).expect("the disk");
        assert!(played.content == copy, "the recording is another disk");
        (recorded, played)
    }

    /// Runs a script with the paths in variables; `false` if it fails.
    fn shell(&self, script: &str) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("SEEKLESS_ACKS", &self.acks).env("DISK", &self.disk);
        command.current_dir(self.dir.path()).status().expect("a shell").success()
    }
}

fn play(tape: &Path) -> Played {
    let file = File::open(tape).expect("a recording");
    let mut recording = Recording::open(BufReader::new(&file)).expect("a recording");
    let size = recording.header().size_bytes;
    let (mut events, mut writes) = (Vec::new(), std::collections::BTreeMap::new());
    let mut extents = Extents::default();
    while let Some(event) = recording.next_event().expect("it reads") {
        let number = event.number;
        let (text, range) = match event.what {
            What::Write { offset, length, payload, .. } => {
                ("write".to_owned(), Some((offset, length, payload)))
            }
            What::Zeros { offset, length, .. } => {
                ("zeros".to_owned(), Some((offset, length, Payload::Zeros)))
            }
            What::Trim { offset, length, .. } => {
                ("trim".to_owned(), Some((offset, length, Payload::Zeros)))
            }
            What::Flush => ("flush".to_owned(), None),
            What::Begin => ("begin".to_owned(), None),
            What::Answer { errno } => {
                // Of two writes to the same bytes the one answered later is on top.
                if let Some((offset, length, payload)) = writes.remove(&number) {
                    extents.insert(offset, offset + u64::from(length), payload);
                }
                (format!("answer {errno}"), None)
            }
            What::Mark { .. } => (format!("mark {}", recording.mark()), None),
        };
        writes.extend(range.map(|range| (number, range)));
        events.push(text);
    }
    assert_eq!(recording.end(), Some(TapeEnd::Clean));
    let mut content = vec![0; size as usize];
    for (from, to, payload) in extents.pieces(0, size) {
        if let Payload::At(at) = payload {
            file.read_exact_at(&mut content[from as usize..to as usize], at).expect("it reads");
        }
    }
    Played { events, content }
}

/// A loop device over a path; detached when dropped.
struct Loop(String);

impl Loop {
    /// `None`, visibly, where there are none.
    fn new(path: &Path) -> Option<Loop> {
        let mut command = Command::new("losetup");
        let attached = command.args(["--direct-io=on", "--find", "--show"]).arg(path).output();
        match attached {
            Ok(attached) if attached.status.success() => {
                Some(Loop(String::from_utf8_lossy(&attached.stdout).trim().to_owned()))
            }
            failed => {
                eprintln!("skipped: no loop devices here: {failed:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn installed(program: &str) -> bool {
    let script = format!("command -v {program} >/dev/null");
    let found = Command::new("sh").args(["-c", &script]).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn the_recording_of_parallel_overlapping_requests_is_byte_exact() {
    const SIZE: u64 = 64 << 10;
    let dir = tempfile::tempdir().expect("a directory");
    let (tape, copy) = (dir.path().join("run.tape"), dir.path().join("copy"));
    let recorder = Recorder::create(&tape, SIZE, false).expect("a recording");
    let file = sparse(&copy, SIZE);
    let disk = RecordedDisk::new(Arc::clone(&recorder), file, SIZE).expect("a disk");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let disk = &disk;
            scope.spawn(move || {
                let mut rng = Rng::stream(thread, "disk");
                for turn in 0..300_u64 {
                    let offset = rng.below(SIZE / 512) * 512;
                    let length = (512 * (1 + rng.below(16))).min(SIZE - offset);
                    let data = vec![(1 + turn % 200) as u8; length as usize];
                    match rng.below(8) {
                        0 => disk.flush(),
                        1 => disk.discard(offset, length, true),
                        2 => disk.discard(offset, length, false),
                        _ => disk.write(offset, &data),
                    }
                    .expect("carried out");
                }
            });
        }
    });
    let recorded = recorder.finish().expect("it ends");
    assert_eq!(recorded.requests, 1200);
    let played = play(&tape);
    assert!(played.content == std::fs::read(&copy).expect("the disk"), "it is another disk");
    for kind in ["write", "zeros", "trim", "flush"] {
        assert!(played.count(kind) > 50, "{kind}");
    }
    assert!(disk.write(0, &[1; 512]).is_err(), "what cannot be recorded fails");
    assert!(played.content == std::fs::read(&copy).expect("the disk"), "and is not carried out");
}

#[test]
fn a_disk_needs_a_file_of_its_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let recorder = Recorder::create(&dir.path().join("tape"), 8192, false).expect("a recording");
    let short = sparse(&dir.path().join("copy"), 4096);
    let refused = RecordedDisk::new(recorder, short, 8192).expect_err("it is too short");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn lines_of_a_shell_become_marks() {
    let Some(bench) = Bench::new(1 << 20) else { return };
    assert!(bench.shell("echo 1 >> $SEEKLESS_ACKS; echo 2 > $SEEKLESS_ACKS"));
    assert!(bench.shell("printf '3\n4\n' >> $SEEKLESS_ACKS; printf 5 >> $SEEKLESS_ACKS"));
    assert!(bench.shell("{ printf si; printf 'x\n'; } >> $SEEKLESS_ACKS"));
    assert!(bench.shell("touch $SEEKLESS_ACKS && : > $SEEKLESS_ACKS && sync $SEEKLESS_ACKS"));
    let (recorded, played) = bench.end();
    assert_eq!(played.marks(), ["1", "2", "3", "4", "5", "six"]);
    assert_eq!((recorded.marks, recorded.requests), (6, 0));
}

#[test]
fn what_is_no_value_is_refused_as_a_whole() {
    let Some(bench) = Bench::new(1 << 20) else { return };
    let mut acks = OpenOptions::new().append(true).open(&bench.acks).expect("it opens");
    let long = [b'x'; 4097];
    for bad in [&b"\n"[..], b"1\n\n2\n", b"\xff\n", b"a\0b\n", &long, &[&long[..], b"\n"].concat()]
    {
        let refused = acks.write(bad).expect_err("it is refused");
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "{bad:.9?}");
    }
    acks.write_all(&long[1..]).expect("the longest value");
    acks.write_all(b"\nlast\n").expect("it goes on");
    drop(acks);
    let (_, played) = bench.end();
    assert_eq!(played.marks().len(), 2);
    assert_eq!(played.marks()[1], "last");
}

#[test]
fn programs_in_python_append() {
    if !installed("python3") {
        return;
    }
    let Some(bench) = Bench::new(1 << 20) else { return };
    let script = r#"python3 - <<'END'
import os
path = os.environ["SEEKLESS_ACKS"]
with open(path, "a") as acks:
    for n in range(3):
        print(n, file=acks, flush=True)
with open(path, "ab", buffering=0) as acks:
    acks.write(b"3\n")
acks = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(acks, b"4")
os.close(acks)
END"#;
    assert!(bench.shell(script));
    let (_, played) = bench.end();
    assert_eq!(played.marks(), ["0", "1", "2", "3", "4"]);
}

/// What stands before the mark was answered before: a program that waits for its flush.
#[test]
fn a_mark_stands_behind_the_flush_that_it_follows() {
    let Some(bench) = Bench::new(1 << 20) else { return };
    let script = "for n in 0 1 2; do
        printf row | dd of=$DISK bs=512 seek=$n conv=notrunc,fsync status=none
        echo $n >> $SEEKLESS_ACKS
    done";
    assert!(bench.shell(script));
    let (_, played) = bench.end();
    let one = |n: u32| {
        let mark = format!("mark {n}");
        ["write", "answer 0", "flush", "answer 0", &mark].map(str::to_owned)
    };
    assert_eq!(played.events, [one(0), one(1), one(2)].concat());
}

#[test]
fn attaching_a_loop_device_writes_nothing() {
    let Some(bench) = Bench::new(16 << 20) else { return };
    let Some(attached) = Loop::new(&bench.disk) else { return };
    drop(attached);
    // The kernel detaches in its own time.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (recorded, played) = bench.end();
    assert!(recorded.requests <= 2, "{:?}", played.events);
    assert_eq!(played.count("flush") as u64, recorded.requests, "{:?}", played.events);
}

/// A whole life of ext4 on a loop device: mkfs, mount, files, unmount.
#[test]
fn the_recording_of_a_file_system_is_byte_exact() {
    if !installed("mkfs.ext4") || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: it takes mkfs.ext4 and root");
    }
    let Some(bench) = Bench::new(32 << 20) else { return };
    let Some(attached) = Loop::new(&bench.disk) else { return };
    let script = format!(
        "set -e; mkfs.ext4 -q -F -b 4096 {0}; mkdir m; mount -o discard {0} m
        trap 'umount m' EXIT
        for n in 1 2 3 4 5; do
            head -c 300000 /dev/zero | tr '\\0' $n > m/$n; sync m/$n; echo $n >> $SEEKLESS_ACKS
        done
        rm m/1 m/2; sync -f m; cat m/5 > /dev/null",
        attached.0
    );
    let worked = bench.shell(&script);
    drop(attached);
    assert!(worked, "the file system works");
    let (recorded, played) = bench.end();
    assert_eq!(played.marks(), ["1", "2", "3", "4", "5"]);
    assert!(played.count("flush") >= 5, "each sync reaches the disk");
    assert!(recorded.bytes > 5 * 300_000, "content is on the recording");
    assert!(played.count("trim") > 0, "freed space is trimmed");
}
