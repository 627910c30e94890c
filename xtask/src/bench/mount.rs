//! Time until a volume can be used again, after a clean shutdown and after a crash.

use super::fio::{Job, Server, fio};
use super::{Scratch, Setup, median};
use crate::run::{capture, installed};
use anyhow::Result;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Prints the time from the start of the server until it accepts connections.
///
/// # Errors
/// If a server or fio fails.
pub fn mount(setup: &Setup) -> Result<()> {
    if !installed("fio") {
        println!("skipped: fio is not installed (`make setup`)");
        return Ok(());
    }
    println!("vlog, time from the start of the server until it accepts connections, sparse image,");
    println!("page cache warm.\n");
    println!("{:<10}{:>12}{:>16}{:>16}", "volume", "written", "clean shutdown", "after a crash");
    let sizes: &[(&str, u64)] = &[("64M", 32), ("1G", 256), ("16G", 512), ("64G", 512)];
    for &(size, written_mib) in setup.pick(sizes, &sizes[..2]) {
        let scratch = Scratch::new("mount")?;
        let dir = scratch.0.as_path();
        let image = dir.join("volume.img");
        let mut create = Command::new(&setup.program);
        create.arg("create").arg(&image).args(["--layout", "vlog", "--size", size]);
        capture(&mut create)?;
        write_some(setup, dir, &image, written_mib)?.stop()?;
        let mut tail = Vec::new();
        let mut scan = Vec::new();
        for _ in 0..setup.repeats() {
            let server = serve(setup, dir, &image)?;
            tail.push(server.ready_after.as_secs_f64() * 1e3);
            drop(server);
            // Killed after the mount consumed the record of the clean shutdown: the next mount must
            // scan.
            drop(write_some(setup, dir, &image, 1)?);
            let server = serve(setup, dir, &image)?;
            scan.push(server.ready_after.as_secs_f64() * 1e3);
            server.stop()?;
        }
        let (tail, scan) = (median(&mut tail), median(&mut scan));
        println!("{size:<10}{written_mib:>8} MiB{tail:>13.1} ms{scan:>13.1} ms");
    }
    Ok(())
}

fn serve(setup: &Setup, dir: &Path, image: &Path) -> Result<Server> {
    let socket = dir.join("volume.sock");
    let args = [image.as_os_str(), OsStr::new("--socket"), socket.as_os_str()];
    Server::seekless(&setup.program, &args)
}

/// Serves the image and writes to it; the server is still running.
fn write_some(setup: &Setup, dir: &Path, image: &Path, mib: u64) -> Result<Server> {
    let server = serve(setup, dir, image)?;
    let job = Job { rw: "randwrite", bs: "64k", depth: 8, fsync: 64, size_mib: mib, seconds: 0 };
    fio(&server, dir, &job)?;
    Ok(server)
}
