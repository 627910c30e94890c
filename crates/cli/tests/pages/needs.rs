//! What a block may need beside the program itself, and whether this machine has it.

use seekless_crashtest::calls::trace;
use seekless_crashtest::file_system::FileSystem;
use seekless_crashtest::preflight;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first of `needs` that is missing, as a reason for skipping.
pub fn missing(needs: &[String]) -> Option<String> {
    needs.iter().find_map(|need| match need.as_str() {
        "root" => (!rustix::process::geteuid().is_root()).then(|| "no root rights".to_owned()),
        "fuse" => (!fuse()).then(|| "no FUSE".to_owned()),
        "loop" => (!loop_devices()).then(|| "no loop devices".to_owned()),
        "crash-test" => crash_test(),
        "ptrace" => trace::preflight().err().map(|error| error.to_string()),
        "recordings" => recordings().is_none().then(|| {
            "no recordings of drives; SEEKLESS_RECORDINGS can name their place".to_owned()
        }),
        program => {
            (!crate::session::installed(program)).then(|| format!("{program} is not installed"))
        }
    })
}

/// FUSE is there if its device opens and its mounts can be undone.
fn fuse() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    device.is_ok() && crate::session::installed("fusermount3")
}

/// Loop devices are there if `losetup` finds a free one.
fn loop_devices() -> bool {
    let free = Command::new("losetup").arg("--find").output();
    free.is_ok_and(|found| found.status.success())
}

/// What this machine lacks for crash tests on ext4, as the command itself finds out. A check needs
/// a mount namespace, which the rights that are looked for include.
fn crash_test() -> Option<String> {
    let missing = preflight::look(FileSystem::Ext4).err()?;
    let what: Vec<&str> = missing.iter().map(|one| one.what.as_str()).collect();
    Some(format!("no crash tests: {}", what.join(", ")))
}

/// Where the recordings of drives are: they are no part of the repository.
pub fn recordings() -> Option<PathBuf> {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/drive-recordings");
    let dir = std::env::var_os("SEEKLESS_RECORDINGS").map_or(beside, PathBuf::from);
    dir.join("atlas10k.parv").is_file().then_some(dir)
}
