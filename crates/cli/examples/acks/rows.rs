//! Rows with checksums: append a row, sync, acknowledge it. The check wants every acknowledged row:
//! rows 1 to `$SEEKLESS_ACKED`. Usage: `rows run DIR COUNT | rows check DIR`

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Error, Result, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::{env, path::Path};

fn row(n: u64) -> String {
    let fnv = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{n} {:016x}\n", format!("row {n}").bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
}

/// Returns once the value is recorded. A file takes a line; a socket replies to it.
fn ack(value: u64) -> Result<()> {
    let path = env::var_os("SEEKLESS_ACKS").ok_or(Error::other("SEEKLESS_ACKS is not set"))?;
    if !fs::metadata(&path)?.file_type().is_socket() {
        return writeln!(OpenOptions::new().append(true).open(&path)?, "{value}");
    }
    let (mut acks, mut reply) = (UnixStream::connect(&path)?, String::new());
    acks.write_all(format!("{value}\n").as_bytes())?;
    BufReader::new(acks).read_line(&mut reply)?;
    if reply == "ok\n" { Ok(()) } else { Err(Error::other(reply)) }
}

fn run(dir: &Path, count: u64) -> Result<()> {
    let mut rows = OpenOptions::new().append(true).create(true).open(dir.join("rows"))?;
    // The name of the file must be durable, too.
    File::open(dir)?.sync_all()?;
    for n in 1..=count {
        rows.write_all(row(n).as_bytes())?;
        rows.sync_all()?;
        ack(n)?;
    }
    Ok(())
}

/// The first acknowledged row that is not there and whole.
fn check(dir: &Path) -> Option<u64> {
    let acked = env::var("SEEKLESS_ACKED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let found = fs::read(dir.join("rows")).unwrap_or_default();
    let mut lines = found.split_inclusive(|&byte| byte == b'\n');
    (1..=acked).find(|&n| lines.next() != Some(row(n).as_bytes()))
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", dir, count] => run(dir.as_ref(), count.parse().map_err(Error::other)?),
        ["check", dir] => {
            let bad = check(dir.as_ref());
            bad.iter().for_each(|n| println!("row {n} is lost or damaged"));
            exit(bad.is_some().into())
        }
        _ => Err(Error::other("usage: rows run DIR COUNT | rows check DIR")),
    }
}
