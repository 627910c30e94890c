//! Loop devices that stand on a file: a mount of one writes to the file, and no lock tells.

use super::ImageError;
use super::lock::is_same;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Refuses a file that a loop device stands on.
pub(super) fn refuse(file: &File, path: &Path) -> Result<(), ImageError> {
    let Some(found) = file.metadata().ok().filter(Metadata::is_file) else { return Ok(()) };
    let Some(name) = loops().find(|(_, backing)| is_same(backing, &found)).map(|(name, _)| name)
    else {
        return Ok(());
    };
    let device = PathBuf::from(format!("/dev/{name}"));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted_at = mount_point(&mounts, &device.to_string_lossy());
    Err(ImageError::UnderLoop { path: path.to_owned(), device, mounted_at })
}

/// The names of all loop devices that have a file, and what that file is. Files in other mount
/// namespaces cannot be seen.
fn loops() -> impl Iterator<Item = (String, Metadata)> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    devices.filter_map(|device| {
        let name = std::fs::read(device.path().join("loop/backing_file")).ok()?;
        let backing = Path::new(OsStr::from_bytes(name.strip_suffix(b"\n").unwrap_or(&name)));
        Some((device.file_name().into_string().ok()?, std::fs::metadata(backing).ok()?))
    })
}

/// Where a device, or a partition of it, is mounted. Lines look like
/// `36 35 7:0 / /mnt rw,noatime shared:1 - ext4 /dev/loop0 rw`; spaces in names are `\040`.
fn mount_point(mounts: &str, device: &str) -> Option<PathBuf> {
    let is_part = |source: &str| {
        let part = source.strip_prefix(device).and_then(|rest| rest.strip_prefix('p'));
        source == device || part.is_some_and(|part| part.parse::<u32>().is_ok())
    };
    mounts.lines().find_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let source = what.split(' ').nth(1)?;
        let at = place.split(' ').nth(4)?.replace("\\040", " ");
        is_part(source).then(|| at.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
        36 22 7:11 / /mnt/eleven rw shared:1 - ext4 /dev/loop11 rw\n\
        37 22 0:40 / /mnt/my\\040disk rw - btrfs /dev/loop1p2 rw\n";

    #[test]
    fn mounts_of_a_device_and_of_its_partitions_are_found() {
        let at = |device| mount_point(MOUNTS, device);
        assert_eq!(at("/dev/loop11"), Some("/mnt/eleven".into()));
        assert_eq!(at("/dev/loop1"), Some("/mnt/my disk".into()));
        assert_eq!(at("/dev/loop2"), None);
        assert_eq!(mount_point("", "/dev/loop1"), None);
    }

    #[test]
    fn a_file_of_its_own_is_not_refused() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        assert!(refuse(file.as_file(), file.path()).is_ok());
    }
}
