//! Command lines as `mount(8)` and fstab write them.
//!
//! `-o NAME,NAME=VALUE` of `seekless mount` stands for options of the command and for those that
//! every mount has. The program is a helper, too: `mount -t seekless` starts it as
//! `mount.seekless`, and `mount -t fuse.seekless` as `mount.fuse.seekless`, or through `mount.fuse`
//! as `seekless SOURCE DIR -o …`. Everything is rewritten here, before the command line is parsed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// What the program is called as a helper.
const HELPERS: [&str; 2] = ["mount.seekless", "mount.fuse.seekless"];

/// Options for the kernel, which `--kernel-option` passes on.
pub const KERNEL: [&str; 9] = [
    "noexec",
    "noatime",
    "nodiratime",
    "relatime",
    "strictatime",
    "lazytime",
    "sync",
    "dirsync",
    "nosymfollow",
];

/// Options of fstab and of `mount`, and what every mount of ours does: nothing is left to do.
const NOTHING: [&str; 23] = [
    "rw",
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "nodev",
    "nosuid",
    "exec",
    "async",
    "atime",
    "diratime",
    "norelatime",
    "nostrictatime",
    "nolazytime",
    "allow_other",
    "default_permissions",
];

/// Names that begin options for programs beside `mount`.
const FOR_OTHERS: [&str; 5] = ["x-", "X-", "comment=", "user=", "uhelper="];

/// The command line, and whether the program has to be started again by it: it was called as a
/// helper.
pub fn rewritten(arguments: Vec<OsString>) -> (Vec<OsString>, bool) {
    let name = |one: &OsString| Path::new(one).file_name().map(OsStr::to_owned);
    let called = arguments.first().and_then(name).unwrap_or_default();
    if HELPERS.iter().any(|helper| called == *helper) {
        return (helped(&arguments[1..]), true);
    }
    match arguments.get(1) {
        Some(first) if first == "mount" => {
            let (program, rest) = (arguments[0].clone(), &arguments[2..]);
            let rest = unfolded(rest, false);
            ([vec![program, "mount".into()], rest].concat(), false)
        }
        // No subcommand has a slash; `mount.fuse` puts the source first.
        Some(first) if first.as_bytes().contains(&b'/') && arguments.len() > 2 => {
            (helped(&arguments[1..]), true)
        }
        _ => (arguments, false),
    }
}

/// The command line of a helper as one of `seekless mount`.
fn helped(rest: &[OsString]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["seekless".into(), "mount".into()];
    all.extend(unfolded(rest, true));
    all
}

/// Arguments with each `-o` in the form of options of `seekless mount`. As a helper the program
/// also takes the flags that `mount` hands on.
fn unfolded(rest: &[OsString], as_helper: bool) -> Vec<OsString> {
    let mut all = Vec::new();
    let mut rest = rest.iter();
    while let Some(one) = rest.next() {
        let bytes = one.as_bytes();
        if bytes == b"--" {
            all.push(one.clone());
            all.extend(rest.cloned());
            return all;
        }
        match bytes {
            b"-o" | b"--options" => match rest.next() {
                Some(list) => all.extend(options(list.as_bytes())),
                // The parser says what is missing.
                None => all.push(one.clone()),
            },
            // Not written to a table of mounts, sloppy, verbose: that changes nothing here.
            b"-n" | b"-s" | b"-v" if as_helper => {}
            // The type, and the namespace, which `mount` has entered.
            b"-t" | b"-N" if as_helper => drop(rest.next()),
            [b'-', b'o', list @ ..] if !list.is_empty() => all.extend(options(list)),
            _ => all.push(one.clone()),
        }
    }
    all
}

/// The options of a list that commas separate; a backslash keeps the next comma.
fn options(list: &[u8]) -> Vec<OsString> {
    let mut names = vec![Vec::new()];
    let mut bytes = list.iter();
    while let Some(&byte) = bytes.next() {
        let last = names.last_mut().expect("there is always one");
        match byte {
            b',' => names.push(Vec::new()),
            b'\\' => last.extend(bytes.next()),
            _ => last.push(byte),
        }
    }
    names.into_iter().filter_map(|name| option(&name)).collect()
}

/// The argument for an option of a list, if it takes one.
fn option(name: &[u8]) -> Option<OsString> {
    let is = |known: &&str| name == known.as_bytes();
    let begins = |known: &&str| name.starts_with(known.as_bytes());
    if name.is_empty() || NOTHING.iter().any(is) || FOR_OTHERS.iter().any(begins) {
        return None;
    }
    let argument = match name {
        b"ro" => b"--read-only".to_vec(),
        name if KERNEL.iter().any(is) => [b"--kernel-option=", name].concat(),
        name => {
            // Options of fstab have underscores, or hyphens as here.
            let end = name.iter().position(|&byte| byte == b'=').unwrap_or(name.len());
            let (key, value) = name.split_at(end);
            let key: Vec<u8> = key.iter().map(|&c| if c == b'_' { b'-' } else { c }).collect();
            [b"--", &key[..], value].concat()
        }
    };
    Some(OsString::from_vec(argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(line: &str) -> (String, bool) {
        let (all, again) = rewritten(line.split(' ').map(OsString::from).collect());
        (all.join(OsStr::new(" ")).into_string().expect("text"), again)
    }

    #[test]
    fn options_of_fstab_become_those_of_the_command() {
        let line = "seekless mount /a.img /mnt -o rw,noauto,policy=soft,noatime,x-systemd.a=b";
        let expected = "seekless mount /a.img /mnt --policy=soft --kernel-option=noatime";
        assert_eq!(rewrite(line), (expected.to_owned(), false));
        let joined = rewrite("seekless mount -oro,trust_completions a b").0;
        assert_eq!(joined, "seekless mount --read-only --trust-completions a b");
        assert_eq!(rewrite("seekless mount -- -o b").0, "seekless mount -- -o b");
        assert_eq!(rewrite("seekless mount a b -o").0, "seekless mount a b -o");
        assert_eq!(options(b"messages=/a\\,b,,ro"), ["--messages=/a,b", "--read-only"]);
    }

    #[test]
    fn the_helpers_of_mount_mount() {
        for line in [
            "/sbin/mount.seekless /a.img /mnt -n -o rw,cache=8M",
            "/usr/sbin/mount.fuse.seekless /a.img /mnt -s -t fuse.seekless -o cache=8M",
            "seekless /a.img /mnt -o rw,cache=8M",
        ] {
            let expected = "seekless mount /a.img /mnt --cache=8M".to_owned();
            assert_eq!(rewrite(line), (expected, true), "{line}");
        }
        assert_eq!(rewrite("seekless info /a.img"), ("seekless info /a.img".to_owned(), false));
        assert_eq!(rewrite("seekless ./no-command"), ("seekless ./no-command".to_owned(), false));
    }
}
