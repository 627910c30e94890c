//! Checks of every kind, good and bad.

use crate::Test;
use crate::machine::Machine;
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::replay::check::{Checked, Checker as _, Verdict};
use seekless_crashtest::replay::extents::Extents;
use seekless_crashtest::replay::image::{Image, Source};
use seekless_crashtest::replay::mount::{Place, Way};
use seekless_crashtest::sandbox::process::Isolation;
use seekless_crashtest::sandbox::{Mounted, Workers};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The argument that makes this program a parent that is to be killed.
pub const PARENT: &str = "be-a-parent";
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(500);

pub const TESTS: &[Test] = &[
    ("a_check_sees_its_state_and_is_heard", a_check_sees_its_state_and_is_heard),
    ("a_look_sees_what_is_there", a_look_sees_what_is_there),
    ("a_check_that_hangs_is_ended", a_check_that_hangs_is_ended),
    ("a_check_that_is_killed_has_failed", a_check_that_is_killed_has_failed),
    ("daemons_end_with_the_check", daemons_end_with_the_check),
    ("a_check_may_unmount_its_state", a_check_may_unmount_its_state),
    ("a_check_has_a_machine_of_its_own", a_check_has_a_machine_of_its_own),
    ("the_working_directory_of_a_check_stays", the_working_directory_of_a_check_stays),
    (
        "equal_trees_are_checked_once_if_they_are_good",
        equal_trees_are_checked_once_if_they_are_good,
    ),
    ("mounts_of_a_check_do_not_reach_the_next", mounts_of_a_check_do_not_reach_the_next),
    ("a_state_that_does_not_mount_is_bad", a_state_that_does_not_mount_is_bad),
    ("a_stop_ends_checks_at_once", a_stop_ends_checks_at_once),
    ("a_killed_parent_leaves_nothing", a_killed_parent_leaves_nothing),
    ("a_raw_state_is_a_file", a_raw_state_is_a_file),
    ("states_of_one_disk_are_checked_together", states_of_one_disk_are_checked_together),
];

fn a_check_sees_its_state_and_is_heard(machine: &Machine) {
    let command = "echo $SEEKLESS_ACKED $$ >&2; echo {dir}; test -d {dir}/lost+found && \
                   head -c 4096 {device} | wc -c; ls /proc | grep -c '^[0-9]'; exit 3";
    let Checked { verdict, output } = machine.check(command, LONG);
    assert_eq!(verdict, Verdict::Bad(3), "{output}");
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("7 "), "{output}");
    assert!(lines[1].ends_with("/mnt"), "{output}");
    assert_eq!(lines[2], "4096");
    // The worker, the shell, and the two of the pipe: not those of the machine.
    let seen: u32 = lines[3].parse().expect("a number");
    assert!(seen <= 5, "{seen} processes");
    assert_eq!(machine.check("true", LONG).verdict, Verdict::Good);
    let missing = machine.check("no-such-program-at-all", LONG).verdict;
    assert!(matches!(missing, Verdict::Failed(_)), "{missing:?}");
}

/// Without this the other tests could count nothing and pass.
fn a_look_sees_what_is_there(machine: &Machine) {
    let options = machine.options(FileSystem::Ext4, "sleep 60", LONG);
    let stop = options.stop.clone();
    let workers = Workers::new(options, 1).expect("a pool");
    let image = machine.image();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| workers.check(&image, &[]).expect("a check"));
        until(|| machine.processes().len() >= 3 && machine.loops().len() == 1);
        stop.ask(15);
        assert_eq!(running.join().expect("no panic").verdict, Verdict::Stopped);
    });
    let mounts = machine.mounts().len();
    let (point, how) = (machine.new_path(), FileSystem::Ext4.for_checks().expect("a way"));
    std::fs::create_dir(&point).expect("a directory");
    let file = File::options().read(true).write(true).open(&image).expect("an image");
    let mounted = Mounted::file(&file, &point, &how).expect("it mounts");
    assert_eq!((machine.mounts().len(), machine.loops().len()), (mounts + 1, 1));
    mounted.unmount().expect("it is idle");
}

fn a_check_that_hangs_is_ended(machine: &Machine) {
    let fills = "echo here; trap '' TERM INT HUP; cd {dir}; \
                 while :; do cat /dev/zero >f 2>/dev/null; done";
    for command in ["echo here; sleep 1000", fills] {
        let began = Instant::now();
        let checked = machine.check(command, SHORT);
        assert_eq!(checked.verdict, Verdict::Hung);
        assert!(checked.output.starts_with("here\n"), "{checked:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

fn a_check_that_is_killed_has_failed(machine: &Machine) {
    for command in ["kill -9 $$", "sh -c 'kill -SEGV $$'", "kill -9 -1; kill -9 $$"] {
        let verdict = machine.check(command, LONG).verdict;
        assert!(matches!(verdict, Verdict::Failed(_)), "{command}: {verdict:?}");
    }
    // Process 1 cannot be killed from inside.
    assert_eq!(machine.check("kill -9 1; kill -TERM 1; exit 4", LONG).verdict, Verdict::Bad(4));
}

fn daemons_end_with_the_check(machine: &Machine) {
    let commands = [
        "setsid sleep 1000 >/dev/null 2>&1 & exit 0",
        "(cd {dir}; exec 3>open; setsid sleep 1000) & sleep .05; exit 0",
        "(trap '' TERM; setsid sh -c 'while :; do sleep 1000; done' &) ; exit 0",
        "unshare -m sleep 1000 & sleep .05; exit 0",
        "unshare -pf sleep 1000 & sleep .05; exit 0",
    ];
    for command in commands {
        let options = machine.options(FileSystem::Ext4, command, LONG);
        let workers = Workers::new(options, 1).expect("a pool");
        for _ in 0..2 {
            let checked = workers.check(&machine.image(), &[]).expect("a check");
            assert_eq!(checked.verdict, Verdict::Good, "{command}: {checked:?}");
            // Nothing waits for the end of the pool.
            until(|| machine.loops().is_empty());
            assert_eq!(machine.processes().len(), 1, "{command}: only the worker");
        }
    }
}

/// Whatever a check leaves in memory, in temporary files or on the network, the next does not find
/// it, nor does the machine. What the machine has in its temporary directories is there to be read.
fn a_check_has_a_machine_of_its_own(machine: &Machine) {
    let name = format!("seekless-left-{}", std::process::id());
    let below = machine.new_path();
    std::fs::write(&below, "of the machine").expect("written");
    let command = format!(
        "cat /proc/sys/kernel/random/boot_id; grep -c : /proc/net/dev; cat {}; \
         for dir in /tmp /var/tmp /dev/shm; do \
         test ! -e $dir/{name} || echo left in $dir; echo x > $dir/{name} || exit 2; done",
        below.display()
    );
    let mut options = machine.options(FileSystem::Ext4, &command, LONG);
    let stop = options.stop.clone();
    let workers = Workers::new(options.clone(), 1).expect("a pool");
    assert_eq!(workers.shared(), [""; 0]);
    let check = |state: &str| {
        // Equal trees are checked once, unless the checks are told something else.
        let turn = machine.new_path().display().to_string();
        let variables = [("SEEKLESS_STATE", state.to_owned()), ("TURN", turn)];
        let checked = workers.check(&machine.image(), &variables).expect("a check");
        assert_eq!(checked.verdict, Verdict::Good, "{checked:?}");
        checked.output
    };
    let (one, other) = (check("1:keep"), check("1:lose"));
    let own = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("it is read");
    assert!(one.ends_with("\n1\nof the machine"), "{one}");
    assert_eq!(one, check("1:keep"), "a state has one boot id");
    assert!(one[..36] != other[..36] && one[..36] != own[..36], "{one}{other}{own}");
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert!(!Path::new(dir).join(&name).exists(), "it reached {dir} of the machine");
    }
    drop(workers);
    // Such things are found where they are shared.
    options.isolation = Isolation::Processes;
    let workers = Workers::new(options, 1).expect("a pool");
    let left = |turn| {
        let variables = [("TURN", String::from(turn))];
        workers.check(&machine.image(), &variables).expect("a check").output
    };
    let [_, second] = ["0", "1"].map(left);
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert!(second.contains(&format!("left in {dir}\n")), "{second}");
        std::fs::remove_file(Path::new(dir).join(&name)).expect("removed");
    }
    drop(stop);
}

/// A state with an equal tree and the same acknowledgements is good if the other one was. A check
/// that looks at the device, and one that rejects the state, are run each time.
fn equal_trees_are_checked_once_if_they_are_good(machine: &Machine) {
    let notes = machine.new_path();
    let runs = |command: &str, told: &[&str]| {
        let line = format!("echo {{dir}} >> {}; {command}", notes.display());
        let mut options = machine.options(FileSystem::Ext4, &line, LONG);
        options.isolation = Isolation::Processes;
        let workers = Workers::new(options, 1).expect("a pool");
        let image = machine.image();
        let _ = std::fs::remove_file(&notes);
        for acked in told {
            // The mount of a check changes blocks of its image, and no file.
            let copy = machine.new_path();
            std::fs::copy(&image, &copy).expect("copied");
            workers.check(&copy, &[("SEEKLESS_ACKED_COUNT", (*acked).into())]).expect("a check");
        }
        std::fs::read_to_string(&notes).expect("notes").lines().count()
    };
    assert_eq!(runs("true", &["1", "1", "1"]), 1);
    assert_eq!(runs("true", &["1", "2", "1"]), 2, "it is told something else");
    assert_eq!(runs("exit 1", &["1", "1", "1"]), 3);
    assert_eq!(runs("test -e {device}", &["1", "1", "1"]), 3);
}

/// A check keeps its notes where the command was started, even below a temporary directory.
fn the_working_directory_of_a_check_stays(machine: &Machine) {
    let (before, own) = (std::env::current_dir().expect("a directory"), machine.new_path());
    std::fs::create_dir(&own).expect("a directory");
    std::env::set_current_dir(&own).expect("it is there");
    let checked = machine.check(&format!("echo 1 > notes; cat {}/notes", own.display()), LONG);
    std::env::set_current_dir(before).expect("it is there");
    assert_eq!((checked.verdict, checked.output.as_str()), (Verdict::Good, "1\n"));
    assert_eq!(std::fs::read_to_string(own.join("notes")).expect("it stays"), "1\n");
}

fn a_check_may_unmount_its_state(machine: &Machine) {
    let command = "umount {dir} || exit 2; echo x >{dir}/leak 2>/dev/null; exit 0";
    let options = machine.options(FileSystem::Ext4, command, LONG);
    let workers = Workers::new(options, 1).expect("a pool");
    for _ in 0..3 {
        let checked = workers.check(&machine.image(), &[]).expect("a check");
        assert_eq!(checked.verdict, Verdict::Good, "{checked:?}");
        let below = std::fs::read_dir(workers.point()).expect("a directory").count();
        assert_eq!(below, 0, "nothing is written to the machine");
    }
}

fn mounts_of_a_check_do_not_reach_the_next(machine: &Machine) {
    for place in ["{dir}/lost+found", "/mnt"] {
        let command = format!(
            "test ! -e {place}/mark || exit 9; mount -t tmpfs none {place} && touch {place}/mark"
        );
        let options = machine.options(FileSystem::Ext4, &command, LONG);
        let workers = Workers::new(options, 1).expect("a pool");
        for _ in 0..3 {
            let checked = workers.check(&machine.image(), &[]).expect("a check");
            assert_eq!(checked.verdict, Verdict::Good, "{checked:?}");
            until(|| machine.loops().is_empty());
        }
    }
}

fn a_state_that_does_not_mount_is_bad(machine: &Machine) {
    let options = machine.options(FileSystem::Ext4, "true", LONG);
    let workers = Workers::new(options, 1).expect("a pool");
    let image = machine.new_path();
    std::fs::write(&image, vec![0x5a; 16 << 20]).expect("written");
    for _ in 0..2 {
        let checked = workers.check(&image, &[]).expect("a check");
        assert_eq!(checked.verdict, Verdict::Bad(1));
        assert_eq!(checked.output, "mount: Invalid argument (os error 22)\n");
    }
    // The worker goes on.
    let checked = workers.check(&machine.image(), &[]).expect("a check");
    assert_eq!(checked.verdict, Verdict::Good, "{checked:?}");
    assert!(workers.check(Path::new("/no/such/file"), &[]).is_err());
}

fn a_stop_ends_checks_at_once(machine: &Machine) {
    let options = machine.options(FileSystem::Ext4, "touch {dir}/f; sleep 1000 & wait", LONG);
    let stop = options.stop.clone();
    let workers = Workers::new(options, 2).expect("a pool");
    let (images, began) = ([machine.image(), machine.image()], Instant::now());
    std::thread::scope(|scope| {
        let runs = images.each_ref().map(|image| scope.spawn(|| workers.check(image, &[])));
        until(|| machine.loops().len() == 2);
        stop.ask(2);
        for run in runs {
            let checked = run.join().expect("no panic").expect("a check");
            assert_eq!(checked.verdict, Verdict::Stopped);
        }
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let after = workers.check(&images[0], &[]).expect("a check");
    assert_eq!(after.verdict, Verdict::Stopped, "none is begun");
}

/// The other process of the next test.
pub fn be_a_parent(arguments: &[String]) {
    let machine = Machine::new().expect("it worked in the first process");
    let mut options = machine.options(FileSystem::Ext4, "setsid sleep 1000 & sleep 1000", LONG);
    options.dir = PathBuf::from(&arguments[0]);
    let workers = Workers::new(options, 1).expect("a pool");
    let _ = workers.check(Path::new(&arguments[1]), &[]);
}

fn a_killed_parent_leaves_nothing(machine: &Machine) {
    let (dir, image) = (machine.new_path(), machine.image());
    std::fs::create_dir(&dir).expect("a directory");
    let mut command = Command::new("/proc/self/exe");
    // What it makes goes with the directory of this test.
    command.arg(PARENT).arg(&dir).arg(&image).env("TMPDIR", machine.path());
    let mut parent = command.spawn().expect("it starts");
    until(|| machine.loops().len() == 1);
    parent.kill().expect("it runs");
    parent.wait().expect("it ended");
    until(|| machine.loops().is_empty());
}

fn a_raw_state_is_a_file(machine: &Machine) {
    let command = "printf x | dd of={device} conv=notrunc bs=1 seek=5 2>/dev/null; \
                   head -c 6 {device} | tail -c 1; test -e {dir}/lost+found";
    let options = machine.options(FileSystem::Raw, command, LONG);
    let workers = Workers::new(options, 1).expect("a pool");
    let image = machine.try_image(FileSystem::Raw).expect("a file");
    let checked = workers.check(&image, &[]).expect("a check");
    assert_eq!((checked.verdict, checked.output.as_str()), (Verdict::Bad(1), "x"));
    assert_eq!(std::fs::read(&image).expect("a file")[5], b'x');
    // Workers cannot reach the path of a FUSE file, which leads through `/proc` of this process.
    let place = match Place::new(Way::Fuse, machine.path()) {
        Ok(place) => place,
        Err(error) => return eprintln!("skipped: no FUSE here: {error}"),
    };
    let base = File::open(&image).expect("a file");
    let size = FileSystem::Raw.smallest();
    let source = Source::new(Some(base), File::open("/dev/null").expect("there"), size);
    let state = Image::new(Arc::new(source), Arc::default(), Extents::default());
    let placed = place.put(Arc::new(state), workers.stop()).expect("a file");
    let checked = workers.check(placed.path(), &[]).expect("a check");
    assert_eq!((checked.verdict, checked.output.as_str()), (Verdict::Bad(1), "x"));
}

/// States of one disk have one UUID: XFS and Btrfs are particular about that. And they come in any
/// order: the older after the newer one.
fn states_of_one_disk_are_checked_together(machine: &Machine) {
    for fs in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::F2fs] {
        let older = match machine.try_image(fs) {
            Ok(older) => older,
            Err(missing) => {
                eprintln!("skipped: {missing}");
                continue;
            }
        };
        let newer = machine.new_path();
        std::fs::copy(&older, &newer).expect("a copy");
        write_on(machine, fs, &newer);
        // It names the device, so that states with equal trees are all checked.
        let command = ": {device}; cat {dir}/f 2>/dev/null || echo older; sleep .05";
        let workers = Workers::new(machine.options(fs, command, LONG), 2).expect("a pool");
        let run = |image: &Path, expected: &str| {
            for _ in 0..3 {
                // Checks write to states, so each has its own.
                let own = machine.new_path();
                std::fs::copy(image, &own).expect("a copy");
                let checked = workers.check(&own, &[]).expect("a check");
                assert_eq!(
                    (&checked.verdict, checked.output.trim()),
                    (&Verdict::Good, expected),
                    "{fs}"
                );
                std::fs::remove_file(own).expect("removed");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| run(&newer, "newer"));
            scope.spawn(|| run(&older, "older"));
        });
        run(&older, "older");
    }
}

/// Several transactions, so that the image is clearly newer.
fn write_on(machine: &Machine, fs: FileSystem, image: &Path) {
    let point = machine.new_path();
    std::fs::create_dir(&point).expect("a directory");
    let file = File::options().read(true).write(true).open(image).expect("an image");
    for _ in 0..3 {
        let how = fs.for_workload().expect("a way");
        let mounted = Mounted::file(&file, &point, &how).unwrap_or_else(|e| panic!("{fs}: {e}"));
        std::fs::write(point.join("f"), "newer\n").expect("written");
        mounted.unmount().expect("it is idle");
    }
}

fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "it did not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}
