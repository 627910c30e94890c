//! What `--setup` and `--run` may do.

use crate::Test;
use crate::machine::Machine;
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::replay::stop::Stop;
use seekless_crashtest::sandbox::{Mounted, UnmountError};
use seekless_crashtest::workload::{End, Ran, SetUp, SetUpError, run_command, set_up};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

pub const TESTS: &[Test] = &[
    ("a_workload_is_followed_to_its_end", a_workload_is_followed_to_its_end),
    ("a_workload_that_unmounts_is_found_out", a_workload_that_unmounts_is_found_out),
    ("a_disk_is_set_up", a_disk_is_set_up),
    ("a_set_up_that_fails_says_why", a_set_up_that_fails_says_why),
    ("a_busy_disk_is_an_error", a_busy_disk_is_an_error),
];

fn run(machine: &Machine, command: &str, timeout: Duration) -> Ran {
    let (stop, log) = (Stop::new().expect("a descriptor"), machine.new_path());
    let variables = [("SEEKLESS_ACKS", "/tmp/acks".to_owned())];
    let place = machine.path();
    run_command(command, place, &variables, timeout, &stop, &log).expect("it starts")
}

fn a_workload_is_followed_to_its_end(machine: &Machine) {
    let ran = run(machine, "echo {dir} $SEEKLESS_ACKS; (setsid sleep 1000 &); exit 3", LONG);
    let expected = format!("{} /tmp/acks", machine.path().display());
    assert_eq!((ran.end, ran.left, ran.tail.as_str()), (End::Exit(3), 1, expected.as_str()));
    assert_eq!(ran.to_string(), "exit code 3, left 1 process");
    assert_eq!(run(machine, "kill -9 $$", LONG).end, End::Signal(9));
    let hung = run(machine, "seq 100; sleep 1000", Duration::from_millis(400));
    assert_eq!(hung.end, End::TimedOut);
    assert!(hung.tail.starts_with("81\n") && hung.tail.ends_with("\n100"), "{hung:?}");
    let (stop, log) = (Stop::new().expect("a descriptor"), machine.new_path());
    std::thread::scope(|scope| {
        let running = scope
            .spawn(|| run_command("echo up; sleep 1000", machine.path(), &[], LONG, &stop, &log));
        while !std::fs::read(&log).is_ok_and(|log| log == b"up\n") {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.ask(2);
        let ran = running.join().expect("no panic").expect("it started");
        assert_eq!((ran.end, ran.tail.as_str()), (End::Stopped, "up"));
    });
}

fn a_workload_that_unmounts_is_found_out(machine: &Machine) {
    let (image, point) = (machine.image(), machine.new_path());
    std::fs::create_dir(&point).expect("a directory");
    let file = File::options().read(true).write(true).open(image).expect("an image");
    let how = FileSystem::Ext4.for_workload().expect("a way");
    let mounted = Mounted::file(&file, &point, &how).expect("it mounts");
    let (stop, log) = (Stop::new().expect("a descriptor"), machine.new_path());
    let run = |command| run_command(command, &point, &[], LONG, &stop, &log).expect("it starts");
    let ran = run("echo kept >{dir}/f");
    assert!(ran.is_good(), "{ran:?}");
    let ran = run("umount {dir}");
    assert!(ran.unmounted && !ran.is_good(), "{ran:?}");
    assert_eq!(ran.to_string(), "exit code 0, unmounted the disk");
    assert!(mounted.is_there(), "only its copy is gone");
    assert_eq!(std::fs::read(point.join("f")).expect("a file"), b"kept\n");
    mounted.unmount().expect("it is idle");
}

fn how<'a>(fs: FileSystem, image: &'a Path, dir: &'a Path, stop: &'a Stop) -> SetUp<'a> {
    let (command, variables, timeout, log) = ("", &[][..], LONG, Path::new("/dev/null"));
    let mount_options = "";
    SetUp { fs, image, second: None, dir, mount_options, command, variables, timeout, stop, log }
}

fn a_disk_is_set_up(machine: &Machine) {
    let stop = Stop::new().expect("a descriptor");
    let dir = machine.new_path();
    std::fs::create_dir(&dir).expect("a directory");
    let (image, log) = (machine.image(), machine.new_path());
    let first = SetUp { log: &log, ..how(FileSystem::Ext4, &image, &dir, &stop) };
    assert_eq!(set_up(first).expect("nothing is done"), None);
    let command = "echo made >{dir}/f; sleep 1000 >/dev/null & echo said";
    let ran = set_up(SetUp { command, ..first }).expect("it works").expect("it ran");
    assert_eq!((ran.end, ran.left, ran.tail.as_str()), (End::Exit(0), 1, "said"));
    assert_eq!(std::fs::read(&log).expect("a log"), b"said\n");
    let again = set_up(SetUp { command: "grep made {dir}/f", ..first }).expect("it is there");
    assert_eq!(again.map(|ran| ran.end), Some(End::Exit(0)));
    let raw = machine.try_image(FileSystem::Raw).expect("a file");
    let command = "test -b {device} && printf raw | dd of={device} conv=notrunc 2>/dev/null";
    let third = SetUp { command, fs: FileSystem::Raw, image: &raw, ..first };
    set_up(third).expect("it works");
    assert_eq!(std::fs::read(&raw).expect("a file")[..3], *b"raw");
}

fn a_set_up_that_fails_says_why(machine: &Machine) {
    let stop = Stop::new().expect("a descriptor");
    let (dir, log) = (machine.new_path(), machine.new_path());
    std::fs::create_dir(&dir).expect("a directory");
    let image = machine.image();
    let first = SetUp { log: &log, ..how(FileSystem::Ext4, &image, &dir, &stop) };
    let failed = set_up(SetUp { command: "echo no space; exit 5", ..first }).expect_err("fails");
    let text = failed.to_string();
    assert!(text.starts_with("--setup failed (exit code 5): no space; "), "{text}");
    let gone = set_up(SetUp { command: "umount {dir}", ..first }).expect_err("fails");
    assert!(matches!(gone, SetUpError::Command(ref ran) if ran.unmounted), "{gone}");
    let none = SetUp { image: Path::new("/no/image"), command: "true", ..first };
    let text = set_up(none).expect_err("fails").to_string();
    assert!(text.starts_with("/no/image: No such file"), "{text}");
    let garbage = machine.new_path();
    std::fs::write(&garbage, vec![7; 16 << 20]).expect("written");
    let text = set_up(SetUp { image: &garbage, command: "true", ..first }).expect_err("fails");
    assert!(text.to_string().contains("Invalid argument"), "{text}");
}

fn a_busy_disk_is_an_error(machine: &Machine) {
    let (image, point) = (machine.image(), machine.new_path());
    std::fs::create_dir(&point).expect("a directory");
    let file = File::options().read(true).write(true).open(image).expect("an image");
    let how = FileSystem::Ext4.for_workload().expect("a way");
    let mounted = Mounted::file(&file, &point, &how).expect("it mounts");
    let open = File::create(point.join("f")).expect("a file");
    let busy = mounted.unmount().expect_err("it is in use");
    assert!(matches!(busy, UnmountError::Busy(_)), "{busy}");
    assert!(!point.join("f").exists(), "it is detached all the same");
    drop(open);
    let mounted = Mounted::file(&file, &point, &how).expect("it mounts");
    rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty()).expect("it is idle");
    let gone = mounted.unmount().expect_err("it is gone");
    assert!(matches!(gone, UnmountError::Gone(_)), "{gone}");
}
