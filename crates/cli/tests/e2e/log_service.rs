//! `seekless fs log`: a volume that is a log, and what is refused.

use crate::harness::{Ended, command, run, seekless, succeed, temp_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// `seekless fs log IMAGE ARGS`.
fn log(image: &Path, args: &[&str]) -> Command {
    let mut tool = seekless();
    tool.args(["fs", "log"]).arg(image).args(args);
    tool
}

fn made(dir: &Path, size: &str) -> PathBuf {
    let image = dir.join("wal.img");
    succeed(&mut log(&image, &["create", "--size", size]));
    image
}

/// The command with this input.
fn fed(command: &mut Command, input: &[u8]) -> Ended {
    let dir = temp_dir();
    let file = dir.path().join("input");
    fs::write(&file, input).expect("write");
    run(command.stdin(fs::File::open(&file).expect("it is there")))
}

/// Appends, and gives the positions.
fn append(image: &Path, args: &[&str], input: &[u8]) -> Vec<u64> {
    let ended = fed(&mut log(image, &[&["append"], args].concat()), input);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    ended.out.lines().map(|line| line.parse().expect("a position")).collect()
}

fn refused(ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code(), code, "{}", ended.err);
    assert!(ended.err.contains(says), "{says}: {}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}

#[test]
fn records_are_appended_read_and_trimmed() {
    let dir = temp_dir();
    for layout in [None, Some("inplace"), Some("vlog")] {
        let image = dir.path().join(layout.unwrap_or("plain"));
        match layout {
            None => succeed(&mut log(&image, &["create", "--size", "4M"])),
            Some(layout) => {
                succeed(
                    seekless().args(["create", "--layout", layout, "--size", "4M"]).arg(&image),
                );
                succeed(&mut log(&image, &["create"]))
            }
        };
        let lines = append(&image, &[], b"one\n\nthree");
        assert_eq!(lines.len(), 3, "{layout:?}");
        let nulls = append(&image, &["--null"], b"a\nb\0c\0");
        let whole = append(&image, &["--whole"], &[0xff, 0, b'\n']);
        assert_eq!((nulls.len(), whole.len()), (2, 1));
        assert!(append(&image, &["--quiet"], b"quiet\n").is_empty());
        let json = succeed(&mut log(&image, &["read", "--json"]));
        let texts: Vec<serde_json::Value> =
            json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let text = |index: usize| texts[index]["text"].as_str().unwrap_or("none");
        assert_eq!([0, 1, 2, 3, 4, 6].map(text), ["one", "", "three", "a\nb", "c", "quiet"]);
        assert_eq!(texts[5]["hex"], "ff000a");
        assert_eq!(texts[2]["lsn"], lines[2]);
        succeed(&mut log(&image, &["trim", &nulls[1].to_string()]));
        let left = succeed(&mut log(&image, &["read", "--raw"]));
        assert!(left.starts_with("c\n") && left.ends_with("quiet\n"), "{left:?}");
        let from = succeed(&mut log(&image, &["read", "--from", &whole[0].to_string()]));
        assert_eq!(from.lines().count(), 2, "{from}");
        let stat = succeed(&mut log(&image, &["stat", "--json"]));
        let stat: serde_json::Value = serde_json::from_str(&stat).expect("JSON");
        assert_eq!((&stat["records"], &stat["start"]), (&3.into(), &nulls[1].into()));
        succeed(&mut log(&image, &["trim", "end"]));
        assert_eq!(succeed(&mut log(&image, &["read"])), "");
    }
}

#[test]
fn bad_input_is_refused_with_a_cause_and_a_remedy() {
    let dir = temp_dir();
    let image = made(dir.path(), "1M");
    refused(&run(&mut log(&image, &["create"])), 1, "holds a log\nhint: --force");
    let long = fed(&mut log(&image, &["append"]), &vec![b'x'; 300_000]);
    refused(&long, 1, "record 1 of the input has more than 262096 bytes\nhint:");
    let lines = "many words to fill it\n".repeat(60_000);
    let full = fed(&mut log(&image, &["append", "--quiet"]), lines.as_bytes());
    refused(&full, 1, "the log is full at record");
    assert!(full.err.contains("trim LSN` frees space"), "{}", full.err);
    refused(&run(&mut log(&image, &["trim", "7777777"])), 1, "no durable record of the log begins");
    refused(&run(&mut log(&image, &["trim", "here"])), 2, "a position is a number");
    refused(&run(&mut log(&image, &["read", "--from", "1000000"])), 1, "no durable record");
    let foreign = dir.path().join("foreign.img");
    fs::write(&foreign, vec![7; 1 << 20]).expect("write");
    for act in ["append", "read", "stat", "follow"] {
        refused(&run(&mut log(&foreign, &[act])), 3, "this is no log");
    }
    refused(&run(&mut log(&foreign, &["create"])), 1, "holds data that Seekless did not write");
    refused(&run(&mut log(&dir.path().join("none"), &["read"])), 3, "does not exist");
    let small = run(&mut log(&dir.path().join("small.img"), &["create", "--size", "64k"]));
    refused(&small, 2, "a log needs 128");
    assert!(!dir.path().join("small.img").exists(), "it does not stay");
}

/// Each takes the place of the other when it is told to, whatever copies of superblocks are left.
#[test]
fn a_log_and_a_file_system_overwrite_each_other_only_by_force() {
    let dir = temp_dir();
    let image = dir.path().join("one.img");
    let mkfs = |more: &[&str]| run(seekless().arg("mkfs").arg(&image).args(more));
    // Several groups have copies of the superblock.
    assert_eq!(mkfs(&["--size", "400M"]).code(), 0);
    refused(&run(&mut log(&image, &["create"])), 1, "holds a file system, FFS");
    assert_eq!(run(&mut log(&image, &["create", "--force"])).code(), 0);
    append(&image, &[], b"one\n");
    let checked = run(seekless().arg("fsck").arg(&image));
    refused(&checked, 8, "no file system was found");
    refused(&mkfs(&[]), 1, "holds a log");
    assert_eq!(mkfs(&["--force"]).code(), 0);
    refused(&run(&mut log(&image, &["append"])), 3, "the file system keeps no log");
    succeed(seekless().arg("fsck").arg(&image));
}

#[test]
fn damage_is_named_and_records_in_front_of_it_are_printed() {
    let dir = temp_dir();
    let image = made(dir.path(), "1M");
    let input: String = (0..40).map(|number| format!("{number:0200}\n")).collect();
    let positions = append(&image, &[], input.as_bytes());
    let mut bytes = fs::read(&image).expect("read");
    let sector = positions[30] / 512;
    let at = 8192 + (sector * 512) as usize % (bytes.len() - 8192) + 100;
    bytes[at] ^= 1;
    fs::write(&image, &bytes).expect("write");
    let read = run(&mut log(&image, &["read"]));
    refused(&read, 3, &format!("sector {sector} of the log is damaged"));
    let count = read.out.lines().count();
    assert!((28..=30).contains(&count), "{count} records");
    refused(&fed(&mut log(&image, &["append"]), b"x\n"), 3, "`seekless fs log");
    assert!(succeed(&mut log(&image, &["stat"])).contains("damage: sector"));
    for at in [0, 4096] {
        bytes[at + 20] ^= 1;
    }
    fs::write(&image, &bytes).expect("write");
    refused(&run(&mut log(&image, &["read"])), 3, "both of its superblocks are damaged");
    fs::write(&image, &bytes[..500_000]).expect("write");
    assert_ne!(run(&mut log(&image, &["read"])).code(), 0);
}

#[test]
fn the_log_of_a_file_system_is_read_and_not_written() {
    let dir = temp_dir();
    let image = dir.path().join("disk.img");
    let mkfs = ["--policy", "wafs-1async", "--size", "16M"];
    succeed(seekless().arg("mkfs").arg(&image).args(mkfs));
    let stat = succeed(&mut log(&image, &["stat", "--json"]));
    assert!(stat.contains("\"records\":0"), "{stat}");
    assert_eq!(succeed(&mut log(&image, &["read"])), "");
    for act in [&["append"][..], &["trim", "end"]] {
        refused(&run(&mut log(&image, act)), 1, "this is the log of a file system");
    }
    refused(&run(&mut log(&image, &["create"])), 1, "--force overwrites it");
    let plain = dir.path().join("plain.img");
    succeed(seekless().arg("mkfs").arg(&plain).args(["--size", "16M"]));
    refused(&run(&mut log(&plain, &["read"])), 3, "the file system keeps no log");
    succeed(&mut log(&plain, &["create", "--force"]));
    append(&plain, &[], b"a log now\n");
    assert!(succeed(&mut log(&plain, &["read"])).ends_with("a log now\n"));
}

#[test]
fn follow_prints_what_comes_and_ends_by_itself_or_by_a_signal() {
    let dir = temp_dir();
    let image = made(dir.path(), "1M");
    let first = append(&image, &[], b"first\n");
    let out = dir.path().join("out");
    let mut follow = log(&image, &["follow"]);
    let mut follow = follow.stdout(fs::File::create(&out).expect("create")).spawn().expect("spawn");
    let printed = |lines: usize| {
        for _ in 0..100 {
            let text = fs::read_to_string(&out).expect("read");
            if text.lines().count() >= lines {
                return text;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{lines} lines do not come")
    };
    printed(1);
    let second = append(&image, &[], b"second\n");
    let text = printed(2);
    assert_eq!(text, format!("{} first\n{} second\n", first[0], second[0]));
    succeed(command("kill").args(["-TERM", &follow.id().to_string()]));
    assert_eq!(follow.wait().expect("it ends").code(), Some(0));
    let until = ["follow", "--until", &second[0].to_string()];
    let ended = run(log(&image, &until).stdin(Stdio::null()));
    assert_eq!((ended.code(), ended.out.lines().count()), (0, 2), "{}", ended.err);
}
