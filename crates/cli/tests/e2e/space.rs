//! What clients trim is given back to the file system of the image.

use crate::harness::{Server, check_is_clean, command, create, pattern, run, skip, temp_dir};
use crate::nbd::Client;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MEBIBYTE: u64 = 1 << 20;

/// What a file takes of its file system.
fn taken(image: &Path) -> u64 {
    std::fs::metadata(image).expect("the image").blocks() * 512
}

/// Writes so many mebibytes, and trims them.
fn write_and_trim(client: &mut Client, mebibytes: u64) {
    for index in 0..mebibytes {
        let bytes = pattern(index, MEBIBYTE as usize);
        client.write(index * MEBIBYTE, &bytes, false).expect("a write");
    }
    client.flush().expect("a flush");
    for index in 0..mebibytes / 8 {
        client.trim(index * 8 * MEBIBYTE, 8 << 20).expect("a trim");
    }
    client.flush().expect("a flush");
}

fn shrinks(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "256M");
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    write_and_trim(&mut client, 200);
    let (full, began) = (200 * MEBIBYTE, Instant::now());
    while taken(&image) > full / 5 {
        let now = taken(&image) / MEBIBYTE;
        assert!(began.elapsed() < Duration::from_secs(20), "{layout}: {now} MiB are taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What is written behind it stays.
    let bytes = pattern(7, 3 << 20);
    client.write(5 * MEBIBYTE, &bytes, false).expect("a write");
    client.flush().expect("a flush");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.stop().code(), 0);
    let server = Server::image(&image);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![1; 4 << 20];
    client.read(5 * MEBIBYTE, &mut found).expect("a read");
    assert!(found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|&byte| byte == 0));
    assert_eq!(server.stop().code(), 0);
    check_is_clean(&image);
}

#[test]
fn trimmed_space_is_given_back_by_vlog() {
    shrinks("vlog");
}

#[test]
fn trimmed_space_is_given_back_by_loge() {
    shrinks("loge");
}

#[test]
fn trimmed_space_is_given_back_by_lfs() {
    shrinks("lfs");
}

#[test]
fn trimmed_space_is_kept_if_that_is_wanted() {
    for layout in ["vlog", "lfs"] {
        let dir = temp_dir();
        let image = create(dir.path(), layout, "64M");
        let server = Server::with(&image, &["--no-punch"]);
        let mut client = Client::connect(server.socket()).expect("connection");
        write_and_trim(&mut client, 40);
        std::thread::sleep(Duration::from_millis(800));
        assert!(taken(&image) > 39 * MEBIBYTE, "{layout}: {} bytes", taken(&image));
        assert_eq!(server.stop().code(), 0);
        // The next mount finds what it does not use.
        let server = Server::image(&image);
        let began = Instant::now();
        while taken(&image) > 8 * MEBIBYTE {
            let now = taken(&image);
            assert!(began.elapsed() < Duration::from_secs(20), "{layout}: {now} bytes are taken");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(server.stop().code(), 0);
        check_is_clean(&image);
    }
}

/// A small memory file system, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    fn new(dir: &Path) -> Option<Small> {
        let at = dir.join("small");
        std::fs::create_dir_all(&at).expect("directory");
        let mut mount = command("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "seekless-test"]).arg(&at);
        run(&mut mount).status.success().then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run(command("umount").arg("--lazy").arg(&self.0));
    }
}

/// A server whose host is full.
struct Filled {
    ballast: PathBuf,
    image: PathBuf,
    server: Server,
    client: Client,
    /// Mebibytes that were flushed.
    kept: u64,
    // Unmounted after everything on it has ended.
    _small: Small,
    _dir: tempfile::TempDir,
}

impl Filled {
    /// Writes mebibyte after mebibyte until that fails. `None` without the right to mount.
    fn with(layout: &str) -> Option<Filled> {
        let dir = temp_dir();
        let small = Small::new(dir.path())?;
        let ballast = small.0.join("ballast");
        std::fs::write(&ballast, vec![1; 8 << 20]).expect("there is room");
        let image = create(&small.0, layout, "64M");
        let server = Server::image(&image);
        let mut client = Client::connect(server.socket()).expect("connection");
        let mut kept = 0;
        let error = loop {
            let bytes = pattern(kept, MEBIBYTE as usize);
            match client.write(kept * MEBIBYTE, &bytes, false).and_then(|()| client.flush()) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(28), "{layout}: {error:?}");
        assert!(kept >= 4, "{layout}: {kept} mebibytes were written");
        Some(Filled { ballast, image, server, client, kept, _small: small, _dir: dir })
    }
}

/// What was flushed is there.
fn has_kept(client: &mut Client, kept: u64, layout: &str) {
    let mut found = vec![0; MEBIBYTE as usize];
    for index in 0..kept {
        client.read(index * MEBIBYTE, &mut found).expect("a read");
        assert!(found == pattern(index, MEBIBYTE as usize), "{layout}: mebibyte {index}");
    }
}

/// The file system of the image is full: clients are told so. When it has room again, the server
/// goes on with everything that was flushed, and takes writes and trims.
#[test]
fn a_volume_goes_on_when_its_host_has_room_again() {
    for layout in ["inplace", "vlog", "loge", "lfs", "wolf", "hylog", "lld", "dcd"] {
        let Some(filled) = Filled::with(layout) else {
            return skip("a small tmpfs needs root rights");
        };
        let Filled { ballast, image, server, mut client, kept, .. } = filled;
        std::fs::remove_file(&ballast).expect("the ballast");
        // Where a volume could not go on, the first flush tells of what is lost.
        let mut losses = 0;
        let began = Instant::now();
        let bytes = pattern(77, MEBIBYTE as usize);
        while let Err(error) =
            client.write(kept * MEBIBYTE, &bytes, false).and_then(|()| client.flush())
        {
            losses += 1;
            assert!(matches!(error.raw_os_error(), Some(28 | 1 | 30)), "{layout}: {error:?}");
            assert!(began.elapsed().as_secs() < 20, "{layout}: {error:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let went_on = ["inplace", "vlog", "loge"].contains(&layout);
        assert!(losses > 0 || went_on, "{layout}: a loss that no client heard of");
        has_kept(&mut client, kept, layout);
        let mut found = vec![0; MEBIBYTE as usize];
        client.read(kept * MEBIBYTE, &mut found).expect("a read");
        assert!(found == bytes, "{layout}: what was written last");
        client.trim(0, 2 << 20).expect("a trim");
        assert_eq!(server.stop().code(), 0, "{layout}");
        check_is_clean(&image);
    }
}

/// The file system of the image is full: clients are told so, and after room was made and the
/// volume mounted again everything that was flushed is there, and writes go on.
#[test]
fn a_full_host_costs_nothing_that_was_flushed() {
    for layout in ["vlog", "loge", "lfs", "hylog", "lld"] {
        let Some(filled) = Filled::with(layout) else {
            return skip("a small tmpfs needs root rights");
        };
        let Filled { ballast, image, server, kept, .. } = filled;
        let code = server.stop().code();
        assert!(code == 5 || code == 0 && ["vlog", "loge"].contains(&layout), "{layout}: {code}");
        std::fs::remove_file(&ballast).expect("the ballast");
        let server = Server::image(&image);
        let mut client = Client::connect(server.socket()).expect("connection");
        has_kept(&mut client, kept, layout);
        client.write(kept * MEBIBYTE, &pattern(1, 3 << 20), true).expect("there is room");
        assert_eq!(server.stop().code(), 0, "{layout}");
        check_is_clean(&image);
    }
}
