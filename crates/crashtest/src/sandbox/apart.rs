//! What checks would share with the machine, and each other: network, IPC, temporary files and the
//! boot id. A worker gets its own of each.
//!
//! A check that binds a port or makes a segment would else find that of the check beside it, and a
//! good state would look bad. A database that keeps the boot id in its files must see another one
//! after a power cut, as on a real machine.
//!
//! The temporary directories show what the machine has in them; what a check writes there is its
//! own. The directory in which the command was started is the exception: it stays as it is, for a
//! check may keep its notes there. A worker is used again only if the check before has left nothing
//! behind ([`Apart::is_untouched`]).

use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// The directories for temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Where shared memory is. What a worker needs for itself lies under it, out of sight.
const SHARED_MEMORY: &str = "/dev/shm";
/// Where POSIX message queues are.
const QUEUES: &str = "/dev/mqueue";
/// What the kernel tells of itself since it was started.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Everybody may make files there, and remove their own.
const STICKY: u32 = 0o1777;

/// What a worker has to itself.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// What is shared all the same, and why.
    pub(super) shared: Vec<String>,
    /// Where what is written to the temporary directories goes.
    written: Vec<PathBuf>,
    boot_id: Option<File>,
    /// The directory below which these are.
    store: Option<OwnedFd>,
    has_memory: bool,
    has_queues: bool,
    has_network: bool,
    has_ipc: bool,
}

impl Apart {
    /// Takes leave of the machine. To be called by a worker while it has one thread, with a `/proc`
    /// of its own. What the machine does not grant stays shared, and is told.
    pub(super) fn enter() -> Apart {
        let mut apart = Apart::default();
        apart.has_network = apart.try_to("the network", network).is_some();
        apart.has_ipc = apart.try_to("IPC", || unshare(UnshareFlags::NEWIPC)).is_some();
        if Path::new(QUEUES).is_dir() {
            let queues = apart.try_to(QUEUES, || mount_new("mqueue", Path::new(QUEUES), None));
            apart.has_queues = queues.is_some();
        }
        let Some(hidden) = apart.try_to(SHARED_MEMORY, || tmpfs(Path::new(SHARED_MEMORY))) else {
            apart.shared.push("temporary files and the boot id".to_owned());
            return apart;
        };
        // Its path is taken by another mount below; by its descriptor it stays within reach.
        let store = PathBuf::from(format!("/proc/self/fd/{}", hidden.as_raw_fd())).join(".");
        apart.store = Some(hidden);
        for (index, dir) in temporary().into_iter().enumerate() {
            let upper = store.join(format!("upper-{index}"));
            let work = store.join(format!("work-{index}"));
            let name = dir.display().to_string();
            if apart.try_to(&name, || overlay(&dir, &upper, &work)).is_some() {
                apart.written.push(upper);
            }
        }
        apart.boot_id = apart.try_to("the boot id", || boot_id(&store.join("boot_id")));
        let memory = apart.try_to(SHARED_MEMORY, || tmpfs(Path::new(SHARED_MEMORY)));
        apart.has_memory = memory.is_some();
        apart
    }

    fn try_to<T>(&mut self, what: &str, get: impl FnOnce() -> io::Result<T>) -> Option<T> {
        match get() {
            Ok(got) => Some(got),
            Err(error) => {
                self.shared.push(format!("{what} ({error})"));
                None
            }
        }
    }

    /// Shows the check of this state a boot id that no other state has.
    pub(super) fn boot(&mut self, state: &str) -> io::Result<()> {
        let Some(file) = &mut self.boot_id else { return Ok(()) };
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(uuid(state).as_bytes())
    }

    /// Whether the check before has left nothing that the next one could see.
    pub(super) fn is_untouched(&self) -> bool {
        self.written.iter().all(|dir| is_empty(dir))
            && (!self.has_memory || is_empty(Path::new(SHARED_MEMORY)))
            && (!self.has_queues || is_empty(Path::new(QUEUES)))
            && (!self.has_ipc || ["shm", "sem", "msg"].into_iter().all(is_without_objects))
            && (!self.has_network || ["sockstat", "sockstat6"].into_iter().all(is_without_sockets))
    }
}

fn unshare(what: UnshareFlags) -> io::Result<()> {
    // SAFETY: neither namespace takes a descriptor or memory from this process.
    unsafe { rustix::thread::unshare_unsafe(what)? };
    Ok(())
}

/// A network with the loopback interface alone.
fn network() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    unshare(UnshareFlags::NEWNET)?;
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads the structure, which lives through the call.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Mounts an empty directory in memory; gives a descriptor of it.
fn tmpfs(point: &Path) -> io::Result<OwnedFd> {
    mount_new("tmpfs", point, Some(c"mode=1777"))?;
    Ok(File::open(point)?.into())
}

fn mount_new(kind: &str, point: &Path, options: Option<&std::ffi::CStr>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("none", point, kind, flags, options)?)
}

/// The temporary directories of this machine. One may be a link to the other.
fn temporary() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for dir in TEMPORARY.iter().filter_map(|dir| std::fs::canonicalize(dir).ok()) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    dirs
}

/// Lets what is written to `dir` go to `upper`, but for the working directory.
fn overlay(dir: &Path, upper: &Path, work: &Path) -> io::Result<()> {
    std::fs::create_dir(upper)?;
    std::fs::set_permissions(upper, std::fs::Permissions::from_mode(STICKY))?;
    std::fs::create_dir(work)?;
    let own = std::env::current_dir().ok().filter(|own| own != dir && own.starts_with(dir));
    let own = own.map(|own| {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        rustix::mount::open_tree(rustix::fs::CWD, &own, flags).map(|tree| (own, tree))
    });
    let own = own.transpose()?;
    let shown = |path: &Path| path.display().to_string();
    let options =
        format!("lowerdir={},upperdir={},workdir={}", shown(dir), shown(upper), shown(work));
    // Without root the kernel grants attributes of users only.
    let options = if super::rootless::is_of_user() { options + ",userxattr" } else { options };
    let options = std::ffi::CString::new(options)?;
    mount_new("overlay", dir, Some(options.as_c_str()))?;
    if let Some((path, tree)) = own {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(tree, "", rustix::fs::CWD, &path, flags)?;
        // Relative paths and absolute ones are to lead to the same files.
        std::env::set_current_dir(&path)?;
    } else if std::env::current_dir().is_ok_and(|own| own == dir) {
        std::env::set_current_dir(dir)?;
    }
    Ok(())
}

/// Puts a file in the place of the boot id.
fn boot_id(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    rustix::mount::mount_bind(path, BOOT_ID)?;
    Ok(file)
}

/// A random UUID as the kernel writes it, but the same for the same text.
fn uuid(text: &str) -> String {
    let bits = XxHash3_128::oneshot_with_seed(u64::from_le_bytes(*b"boot id."), text.as_bytes());
    let (version, variant) = (0xf_u128 << 76, 0b11_u128 << 62);
    let bits = (bits & !(version | variant)) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-") + "\n"
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether there is no object of System V of this kind: the list has its heading only.
fn is_without_objects(kind: &str) -> bool {
    let list = std::fs::read_to_string(format!("/proc/sysvipc/{kind}"));
    list.map_or(true, |list| list.lines().count() <= 1)
}

/// Whether no socket is left, not even one that waits for late packets: it keeps its port.
fn is_without_sockets(list: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/self/net/{list}")) else { return true };
    // `TCP: inuse 0 orphan 0 tw 0 alloc 1 mem 0`
    text.lines().filter(|line| !line.starts_with("sockets:")).all(|line| {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let counted = words.chunks(2).filter(|pair| ["inuse", "orphan", "tw"].contains(&pair[0]));
        counted.into_iter().all(|pair| pair.get(1).is_none_or(|count| *count == "0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_looks_like_one_and_belongs_to_its_state() {
        let one = uuid("812:keep");
        assert_eq!((one.len(), one.as_bytes()[14]), (37, b'4'), "{one}");
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
        let dashes: Vec<usize> = one.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [8, 13, 18, 23]);
        assert_eq!(one, uuid("812:keep"));
        assert_ne!(one, uuid("812:lose"));
    }
}
