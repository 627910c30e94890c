//! A toy database that lives on an NBD disk, and the check of its recovery: the example of
//! `docs/manual/record-and-replay.md`.
//!
//! Block 0 says how many records are committed; record *n* has block *n* + 1. A commit writes the
//! record, flushes, writes block 0 and flushes again. `--forget` leaves the first flush out. Only a
//! test that cuts the power notices. Commits are acknowledged to the socket of
//! `seekless record --acks`, if the environment names one.
//!
//! ```text
//! toydb write SOCKET COUNT [--forget]
//! toydb check IMAGE
//! ```

use seekless_engine::checksum::crc32c;
use seekless_engine::rng::Rng;
use seekless_serve::nbd::client::Client;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

const BLOCK: usize = 4096;
const MAGIC: [u8; 8] = *b"TOYDB 01";

/// The content of record `n`.
fn record(n: u64) -> Vec<u8> {
    let mut rng = Rng::stream(n, "toydb");
    (0..BLOCK / 8).flat_map(|_| rng.next().to_le_bytes()).collect()
}

/// Block 0 when so many records are committed.
fn head(count: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&count.to_le_bytes());
    let sum = crc32c(&block[..16]);
    block[16..20].copy_from_slice(&sum.to_le_bytes());
    block
}

fn write(socket: &str, count: u64, forget: bool) -> Result<(), Box<dyn Error>> {
    let mut disk = Client::connect(Path::new(socket))?;
    for n in 0..count {
        disk.write((n + 1) * BLOCK as u64, &record(n), false)?;
        if !forget {
            disk.flush()?;
        }
        disk.write(0, &head(n + 1), false)?;
        disk.flush()?;
        acknowledge(n + 1)?;
    }
    disk.disconnect()?;
    Ok(())
}

/// Tells a recorder that so many records are committed, if there is one.
fn acknowledge(count: u64) -> Result<(), Box<dyn Error>> {
    let Some(path) = std::env::var_os("SEEKLESS_ACKS") else { return Ok(()) };
    let mut recorder = UnixStream::connect(path)?;
    writeln!(recorder, "{count}")?;
    let mut reply = String::new();
    BufReader::new(recorder).read_line(&mut reply)?;
    match reply.trim_end() {
        "ok" => Ok(()),
        other => Err(format!("the recorder says: {other}").into()),
    }
}

/// Recovers and says what is wrong.
fn check(image: &str) -> Result<Option<String>, Box<dyn Error>> {
    let bytes = std::fs::read(image)?;
    let found = &bytes[..BLOCK];
    let count = match found.iter().all(|&byte| byte == 0) {
        true => 0,
        false => found[8..16].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
    };
    if count > 0 && found[..20] != head(count)[..20] {
        return Ok(Some("block 0 is damaged".to_owned()));
    }
    let acked = std::env::var("SEEKLESS_ACKED").ok().and_then(|text| text.parse().ok());
    let promised: u64 = acked.unwrap_or(0);
    if count < promised {
        return Ok(Some(format!("{promised} commits were promised, {count} are there")));
    }
    for n in 0..count {
        let at = (n as usize + 1) * BLOCK;
        if bytes.get(at..at + BLOCK) != Some(&record(n)) {
            return Ok(Some(format!("{count} records are committed, but record {n} is not there")));
        }
    }
    Ok(None)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let forget = words.contains(&"--forget");
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--forget").collect();
    let outcome = match words.as_slice() {
        ["write", socket, count] => match count.parse() {
            Ok(count) => write(socket, count, forget).map(|()| None),
            Err(error) => Err(error.into()),
        },
        ["check", image] => check(image),
        _ => Err("usage: toydb write SOCKET COUNT [--forget] | toydb check IMAGE".into()),
    };
    match outcome {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(damage)) => {
            println!("{damage}");
            ExitCode::from(1)
        }
        // Exit code 3 keeps "the check cannot run" apart from "the data is damaged", as `seekless
        // replay-crashes` does.
        Err(error) => {
            eprintln!("toydb: {error}");
            ExitCode::from(126)
        }
    }
}
