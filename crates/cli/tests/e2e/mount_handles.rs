//! File handles by number: they lead to their files though the kernel has forgotten these.

use crate::harness::skip;
use crate::mount::{Disk, possible};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Most bytes of a handle.
const MOST: usize = 128;

/// `struct file_handle`, with room behind it.
#[repr(C)]
#[derive(Clone)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; MOST],
}

/// The handle of a file; none if the kernel has none.
fn handle(path: &Path) -> Option<Handle> {
    let mut handle = Handle { bytes: MOST as u32, kind: 0, handle: [0; MOST] };
    let name = CString::new(path.as_os_str().as_bytes()).expect("no zeros");
    let mut mount = 0;
    // SAFETY: the kernel writes at most as many bytes as the handle says that there is room for.
    let made = unsafe {
        let handle = (&raw mut handle).cast();
        libc::name_to_handle_at(libc::AT_FDCWD, name.as_ptr(), handle, &raw mut mount, 0)
    };
    (made == 0).then_some(handle)
}

/// Opens the file of a handle below a directory of the same mount.
fn open(point: &Path, handle: &Handle) -> io::Result<File> {
    let mount = File::open(point)?;
    let mut handle = handle.clone();
    // SAFETY: the handle is as the kernel made it.
    let fd = unsafe {
        let handle = (&raw mut handle).cast();
        libc::open_by_handle_at(mount.as_raw_fd(), handle, libc::O_RDONLY)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to no one else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Has the kernel forget names and objects; false without the right to.
fn forget() -> bool {
    (0..3).all(|_| fs::write("/proc/sys/vm/drop_caches", "2").is_ok())
}

#[test]
fn a_handle_leads_to_its_file_after_the_kernel_has_forgotten_it() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "64M", &[]);
    let mounted = disk.mount(&[]);
    fs::create_dir_all(mounted.path("a/b")).expect("directories");
    let names: Vec<_> = (0..40).map(|number| mounted.path(&format!("a/b/f{number}"))).collect();
    for (number, name) in names.iter().enumerate() {
        fs::write(name, format!("content {number}")).expect("a file");
    }
    let Some(handles) = names.iter().map(|name| handle(name)).collect::<Option<Vec<_>>>() else {
        return skip("the kernel has no handles of files in user space");
    };
    let directory = handle(&mounted.path("a/b")).expect("of a directory, too");
    let gone = handles[7].clone();
    fs::remove_file(&names[7]).expect("removed");
    fs::write(mounted.path("a/b/another"), "another").expect("it may have the number");
    File::open(mounted.path("a")).expect("a directory").sync_all().expect("synced");
    if !forget() {
        return skip("the caches of the kernel cannot be dropped");
    }
    let point = disk.point();
    for (number, one) in handles.iter().enumerate().filter(|(number, _)| *number != 7) {
        let mut text = String::new();
        let file = open(&point, one).unwrap_or_else(|error| panic!("handle {number}: {error}"));
        { file }.read_to_string(&mut text).expect("it is read");
        assert_eq!(text, format!("content {number}"));
    }
    let names = open(&point, &directory).expect("a directory");
    assert!(names.metadata().expect("attributes").is_dir());
    let error = open(&point, &gone).expect_err("it is removed").raw_os_error();
    assert_eq!(error, Some(libc::ESTALE));
    drop(names);
    // A number that no object has, or that none may have.
    for number in [0, 3, 1 << 20, u64::from(u32::MAX), u64::MAX] {
        let mut forged = handles[3].clone();
        // Upper half, lower half, generation.
        forged.handle[0..4].copy_from_slice(&((number >> 32) as u32).to_le_bytes());
        forged.handle[4..8].copy_from_slice(&(number as u32).to_le_bytes());
        let error = open(&point, &forged).expect_err("there is no such file").raw_os_error();
        assert_eq!(error, Some(libc::ESTALE), "number {number}");
    }
    // They outlive the mount.
    mounted.unmount();
    let mounted = disk.mount(&[]);
    let mut text = String::new();
    let file = open(&disk.point(), &handles[3]).expect("handle 3");
    { file }.read_to_string(&mut text).expect("it is read");
    assert_eq!(text, "content 3");
    mounted.unmount();
    disk.is_clean();
}
