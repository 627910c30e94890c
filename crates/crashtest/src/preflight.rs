//! What `crash-test` needs of the machine, found out before anything is made: every missing thing
//! at once, each with what would help.
//!
//! [`look`] gathers facts and [`judge`] decides on them, so that tests can try machines that are
//! not there.

use crate::file_system::{FileSystem, Program};
use crate::sandbox::rootless::has_rights;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Arguments that give a container what is needed.
const CONTAINER: &str = "start the container with --privileged";

/// What the machine has.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The process has `CAP_SYS_ADMIN`.
    pub admin: bool,
    /// The process is in a user namespace, whose root may not use loop devices.
    pub user_namespace: bool,
    /// The process is in a container.
    pub container: bool,
    /// Why `/dev/fuse` cannot be opened, if so.
    pub fuse: Result<(), io::ErrorKind>,
    /// The same of `/dev/loop-control`.
    pub loops: Result<(), io::ErrorKind>,
    /// The kernel has, or could load, the file system.
    pub file_system: bool,
    /// Programs that are not installed.
    pub missing: Vec<Program>,
    /// There is a control device of ublk.
    pub ublk: bool,
    /// There are network block devices of the kernel.
    pub nbd: bool,
}

/// A machine that can run crash tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where the block device comes from.
    pub way: &'static str,
    /// The other ways, whether they are there, and why they are not used.
    pub others: Vec<String>,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block device: {} ({})", self.way, self.others.join("; "))
    }
}

/// Something that the machine lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What would help.
    pub remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

/// One message for all that is missing, a line for each. A remedy of several is said once.
pub fn message(missing: &[Missing]) -> String {
    let mut text = "crash-test cannot run here:".to_owned();
    for (index, one) in missing.iter().enumerate() {
        text.push_str("\n  ");
        let again = missing[..index].iter().any(|before| before.remedy == one.remedy);
        text.push_str(&if again {
            format!("{}; the same helps", one.what)
        } else {
            one.to_string()
        });
    }
    text
}

/// Looks whether crash tests with this file system can run here. May load a kernel module.
///
/// # Errors
/// With all that is missing.
pub fn look(fs: FileSystem) -> Result<Ready, Vec<Missing>> {
    judge(fs, &facts(fs))
}

/// Decides on facts.
///
/// # Errors
/// With all that is missing.
pub fn judge(fs: FileSystem, facts: &Facts) -> Result<Ready, Vec<Missing>> {
    let mut missing = Vec::new();
    let mut add = |what: String, remedy: String| missing.push(Missing { what, remedy });
    let elsewhere = |bare: &str| match facts.container {
        true => CONTAINER.to_owned(),
        false => bare.to_owned(),
    };
    if !facts.admin {
        let what = "this process may not mount (no CAP_SYS_ADMIN)";
        add(what.to_owned(), elsewhere("run as root, for instance with sudo"));
    } else if facts.user_namespace {
        let what = "root of this user namespace may not use loop devices";
        let remedy = "run as root of the machine, or in a container that is not rootless";
        add(what.to_owned(), remedy.to_owned());
    }
    let own = fs.policy().is_some();
    let devices = [("/dev/fuse", &facts.fuse, "fuse"), ("/dev/loop-control", &facts.loops, "loop")];
    // A file system that this process serves needs no block device.
    for (path, opened, module) in devices.into_iter().take(if own { 1 } else { 2 }) {
        let why = match opened {
            Ok(()) => continue,
            Err(io::ErrorKind::NotFound) => format!("{path} is not there"),
            // What root may not open, the rules of a container refuse.
            Err(io::ErrorKind::PermissionDenied) => format!("{path} may not be opened"),
            Err(kind) => format!("{path} cannot be opened: {kind}"),
        };
        add(why, elsewhere(&format!("run `modprobe {module}` as root")));
    }
    if !facts.file_system {
        let remedy = format!("load its module (`modprobe {fs}`), or give another --fs");
        add(format!("this kernel has no {fs}"), remedy);
    }
    for program in &facts.missing {
        let Program { name, package } = program;
        add(format!("{name} is not installed"), format!("run `apt-get install {package}`"));
    }
    match (missing.is_empty(), own) {
        (false, _) => Err(missing),
        (true, false) => Ok(ready(facts)),
        (true, true) => Ok(Ready { way: "FUSE, served by this process", others: Vec::new() }),
    }
}

fn ready(facts: &Facts) -> Ready {
    let say = |name: &str, there: bool| match there {
        true => format!("{name} is there, not used: a FUSE file needs no server"),
        false => format!("{name} is not there"),
    };
    let others = vec![say("ublk", facts.ublk), say("kernel NBD", facts.nbd)];
    Ready { way: "FUSE file with a loop device", others }
}

/// Gathers the facts of this machine.
pub fn facts(fs: FileSystem) -> Facts {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let missing = fs.programs().iter().filter(|program| program.find().is_none());
    Facts {
        admin: has_rights(),
        user_namespace: !maps_all_users(&users),
        container: in_container(),
        fuse: opens("/dev/fuse"),
        loops: opens("/dev/loop-control"),
        file_system: fs == FileSystem::Raw || fs.policy().is_some() || kernel_has(fs),
        missing: missing.copied().collect(),
        ublk: Path::new("/dev/ublk-control").exists(),
        nbd: Path::new("/dev/nbd0").exists(),
    }
}

/// Whether `/proc/self/uid_map` is that of the machine: every user is itself.
fn maps_all_users(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists())
        || std::env::var_os("container").is_some()
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

fn opens(path: &str) -> Result<(), io::ErrorKind> {
    File::options().read(true).write(true).open(path).map(drop).map_err(|error| error.kind())
}

/// Whether the kernel has a file system, after an attempt to load it.
fn kernel_has(fs: FileSystem) -> bool {
    let is_known = || {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        known.lines().any(|line| line.trim() == fs.name())
    };
    is_known() || {
        let mut load = Command::new("modprobe");
        load.arg(fs.name()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        load.status().is_ok_and(|status| status.success()) && is_known()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> Facts {
        Facts {
            admin: true,
            user_namespace: false,
            container: false,
            fuse: Ok(()),
            loops: Ok(()),
            file_system: true,
            missing: Vec::new(),
            ublk: false,
            nbd: true,
        }
    }

    #[test]
    fn a_complete_machine_is_ready_and_says_what_it_uses() {
        let ready = judge(FileSystem::Ext4, &complete()).expect("nothing is missing");
        assert_eq!(
            ready.to_string(),
            "block device: FUSE file with a loop device (ublk is not there; kernel NBD is there, \
             not used: a FUSE file needs no server)"
        );
    }

    #[test]
    fn all_that_is_missing_is_said_at_once() {
        let facts = Facts {
            admin: false,
            fuse: Err(io::ErrorKind::NotFound),
            loops: Err(io::ErrorKind::PermissionDenied),
            file_system: false,
            missing: FileSystem::F2fs.programs().to_vec(),
            ..complete()
        };
        let missing = judge(FileSystem::F2fs, &facts).expect_err("much is missing");
        assert_eq!(
            message(&missing),
            "crash-test cannot run here:\n  \
             this process may not mount (no CAP_SYS_ADMIN); run as root, for instance with sudo\n  \
             /dev/fuse is not there; run `modprobe fuse` as root\n  \
             /dev/loop-control may not be opened; run `modprobe loop` as root\n  \
             this kernel has no f2fs; load its module (`modprobe f2fs`), or give another --fs\n  \
             mkfs.f2fs is not installed; run `apt-get install f2fs-tools`"
        );
    }

    #[test]
    fn our_own_file_systems_need_no_loop_device() {
        let facts = Facts { loops: Err(io::ErrorKind::NotFound), ..complete() };
        let own = FileSystem::Own(Default::default(), Default::default());
        let ready = judge(own, &facts).expect("nothing is missing");
        assert_eq!(ready.way, "FUSE, served by this process");
        assert_eq!(judge(FileSystem::Ext4, &facts).map_err(|missing| missing.len()), Err(1));
        let facts = Facts { fuse: Err(io::ErrorKind::NotFound), ..facts };
        assert_eq!(judge(own, &facts).map_err(|missing| missing.len()), Err(1));
    }

    #[test]
    fn a_container_is_told_of_its_flags_once() {
        let facts = Facts {
            container: true,
            admin: false,
            fuse: Err(io::ErrorKind::NotFound),
            ..complete()
        };
        let text = message(&judge(FileSystem::Ext4, &facts).expect_err("two things"));
        assert_eq!(text.matches("--privileged").count(), 1, "{text}");
        assert!(text.ends_with("/dev/fuse is not there; the same helps"), "{text}");
    }

    #[test]
    fn a_user_namespace_is_told_from_the_machine() {
        assert!(maps_all_users("         0          0 4294967295\n"));
        assert!(!maps_all_users("         0       1000          1\n"));
        let facts = Facts { user_namespace: true, ..complete() };
        let missing = judge(FileSystem::Ext4, &facts).expect_err("no loop devices");
        assert_eq!(missing.len(), 1);
    }

    #[test]
    fn this_machine_is_looked_at() {
        let facts = facts(FileSystem::Raw);
        assert!(facts.file_system && facts.missing.is_empty());
        assert_eq!(facts.fuse.is_ok(), File::options().write(true).open("/dev/fuse").is_ok());
        assert_eq!(look(FileSystem::Raw).is_ok(), judge(FileSystem::Raw, &facts).is_ok());
    }
}
