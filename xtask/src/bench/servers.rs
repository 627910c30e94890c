//! fio against our server and against a peer, over the same kind of socket, on the same backing.
//!
//! The peer is nbdkit. For direct I/O, which its file plugin lacks, the peer is qemu-nbd.

use super::fio::{Job, Server, clients_installed, fio};
use super::{Scratch, Setup, median};
use crate::run::{capture, installed};
use anyhow::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

const VOLUME_MIB: u64 = 256;
const LAYOUTS: [&str; 2] = ["inplace", "vlog"];

/// The backing store of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    Memory,
    /// A file, through the page cache.
    File,
    /// A file, past the page cache.
    Direct,
}

impl Backing {
    fn peer(self) -> &'static str {
        match self {
            Backing::Memory | Backing::File => "nbdkit",
            Backing::Direct => "qemu-nbd",
        }
    }
}

/// Prints requests per second and the ratio to the peer.
///
/// # Errors
/// If a server or fio fails.
pub fn servers(setup: &Setup) -> Result<()> {
    if !clients_installed() {
        return Ok(());
    }
    println!("4 KiB requests per second; in brackets, times the peer on the same backing.\n");
    for (backing, name) in
        [(Backing::Memory, "memory"), (Backing::File, "file"), (Backing::Direct, "file, O_DIRECT")]
    {
        if !installed(backing.peer()) {
            println!("{name}: skipped, {} is not installed (`make setup`)", backing.peer());
            continue;
        }
        print!("{name:<26}{:>10}", backing.peer());
        LAYOUTS.iter().for_each(|layout| print!("{layout:>20}"));
        println!();
        for (rw, fsync, label) in [
            ("randwrite", 0, "write"),
            ("randwrite", 1, "write, flush each"),
            ("randread", 0, "read"),
        ] {
            for depth in [1, 16, 32] {
                let seconds = setup.pick(3, 1);
                let job = Job { rw, bs: "4k", depth, fsync, size_mib: VOLUME_MIB, seconds };
                row(setup, backing, &format!("{label}, depth {depth}"), &job)?;
            }
        }
        println!();
    }
    Ok(())
}

/// Runs all servers in turn, several times, so that drift affects all alike.
fn row(setup: &Setup, backing: Backing, label: &str, job: &Job) -> Result<()> {
    let mut peer = Vec::new();
    let mut ours = [Vec::new(), Vec::new()];
    for _ in 0..setup.repeats() {
        peer.push(measure(setup, backing, None, job)?);
        for (layout, figures) in LAYOUTS.iter().zip(&mut ours) {
            figures.push(measure(setup, backing, Some(layout), job)?);
        }
    }
    let peer = median(&mut peer);
    print!("  {label:<24}{peer:>10.0}");
    for figures in &mut ours {
        let own = median(figures);
        print!("{own:>12.0} ({:.2}x)", own / peer);
    }
    println!();
    Ok(())
}

fn measure(setup: &Setup, backing: Backing, layout: Option<&str>, job: &Job) -> Result<f64> {
    let scratch = Scratch::new("servers")?;
    let dir = scratch.0.as_path();
    let server = match layout {
        Some(layout) => ours(&setup.program, dir, backing, layout)?,
        None => peer(dir, backing)?,
    };
    // Reads of unwritten blocks would measure nothing.
    let fill = Job { rw: "write", bs: "256k", depth: 4, fsync: 0, seconds: 0, ..*job };
    fio(&server, dir, &fill)?;
    fio(&server, dir, job)
}

fn peer(dir: &Path, backing: Backing) -> Result<Server> {
    let socket = dir.join("peer.sock");
    let size = format!("{VOLUME_MIB}M");
    if backing == Backing::Memory {
        return Server::nbdkit(&socket, &[OsStr::new("memory"), OsStr::new(&size)]);
    }
    let file = dir.join("plain.img");
    std::fs::File::create(&file)?.set_len(VOLUME_MIB << 20)?;
    match backing {
        Backing::Direct => Server::qemu_nbd(&socket, &file),
        _ => Server::nbdkit(&socket, &[OsStr::new("file"), file.as_os_str()]),
    }
}

fn ours(program: &Path, dir: &Path, backing: Backing, layout: &str) -> Result<Server> {
    let socket = dir.join("seekless.sock");
    let size = format!("{VOLUME_MIB}M");
    let word = OsStr::new;
    if backing == Backing::Memory {
        let args = [word("--memory"), word(&size), word("--layout"), word(layout)];
        let socket = [word("--socket"), socket.as_os_str()];
        return Server::seekless(program, &[args.as_slice(), &socket].concat());
    }
    let image = dir.join("volume.img");
    let mut create = Command::new(program);
    create.arg("create").arg(&image).args(["--layout", layout, "--size", &size]);
    capture(&mut create)?;
    let mut args = vec![image.as_os_str(), word("--socket"), socket.as_os_str()];
    args.extend((backing == Backing::Direct).then_some(word("--direct")));
    Server::seekless(program, &args)
}
