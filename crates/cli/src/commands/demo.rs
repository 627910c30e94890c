//! `seekless demo`: the main commands on one screen, run as a user would run them.

mod mounted;
mod served;

use crate::failure::{Failure, Outcome};
use crate::nbd::Client;
use crate::term::{Progress, Style};
use seekless_engine::rng::Rng;
use seekless_engine::units::BLOCK_BYTES;
use serde_json::Value;
use served::Served;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Arguments of `seekless demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo --seconds 10

Everything happens in a temporary directory, which is removed at the end.")]
pub struct Args {
    /// Seconds of real time for each layout on the emulated disk.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    seconds: u64,
}

/// What is copied to the served volume and back.
const COPIED_BYTES: usize = 32 << 20;
/// Range of the random writes on the emulated disk.
const RANGE_BYTES: u64 = 64 << 20;
/// Crash states per layout.
const STATES: &str = "3000";

/// Runs the demonstration.
///
/// # Errors
/// If any step fails; the message says which command.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let own = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let scratch = Scratch::new()?;
    let demo =
        Demo { own, dir: scratch.0.clone(), style: Style::of_stdout(), seconds: args.seconds };
    writeln!(out, "Seekless is a programmable disk: you choose how it places blocks.")?;
    demo.serve(out)?;
    demo.mount(out)?;
    demo.emulate(out)?;
    demo.simulate(out)?;
    demo.prove(out)?;
    writeln!(out)?;
    writeln!(out, "To go on: seekless --help, seekless sim --help, README.md")?;
    Ok(())
}

struct Demo {
    own: PathBuf,
    dir: PathBuf,
    style: Style,
    seconds: u64,
}

impl Demo {
    /// Prints a heading and flushes, so that everything printed so far is visible.
    fn heading(&self, out: &mut dyn Write, text: &str) -> Outcome {
        writeln!(out, "\n{}", self.style.bold(text))?;
        out.flush()?;
        Ok(())
    }

    /// Runs this program and returns its output.
    fn own(&self, args: &[&str]) -> Result<String, Failure> {
        capture(Command::new(&self.own).args(args))
    }

    fn json(&self, args: &[&str]) -> Result<Value, Failure> {
        let text = self.own(args)?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::failed(format!("`seekless {}`: {error}", args.join(" "))))
    }

    /// A volume served to a client, killed in the middle, and served again.
    fn serve(&self, out: &mut dyn Write) -> Outcome {
        self.heading(out, "1  Serve: a file becomes a disk for any NBD client")?;
        let image = self.dir.join("disk.img");
        let name = image.to_string_lossy().into_owned();
        self.own(&["create", &name, "--layout", "vlog", "--size", "128M"])?;
        writeln!(out, "   $ seekless create disk.img --layout vlog --size 128M")?;
        let socket = self.dir.join("disk.sock");
        let socket_name = socket.to_string_lossy().into_owned();
        let arguments = ["serve", &name, "--socket", &socket_name];
        writeln!(out, "   $ seekless serve disk.img --socket disk.sock")?;
        let server = Served::start(&self.own, &arguments)?;
        let content = pattern(1, COPIED_BYTES);
        let client = self.copy_there_and_back(&server, &socket, &content)?;
        writeln!(out, "   {client} wrote {} MiB, read them back: equal", COPIED_BYTES >> 20)?;
        writeln!(out, "   $ seekless status disk.img")?;
        // What is served, and where, is known; the rest tells what has happened.
        for line in self.own(&["status", &name])?.lines().skip(2) {
            writeln!(out, "   {line}")?;
        }
        drop(server);
        let server = Served::start(&self.own, &arguments)?;
        let mut found = vec![0; COPIED_BYTES];
        read_all(&mut connect(&socket)?, &mut found)?;
        same(&content, &found)?;
        server.stop()?;
        let check = self.json(&["check", &name, "--json"])?;
        if check["ok"] != true {
            return Err(Failure::failed(format!("`seekless check` reports damage: {check}")));
        }
        writeln!(
            out,
            "   server killed (-9) and started again: still equal; seekless check: no damage"
        )?;
        Ok(())
    }

    /// Copies with nbdcopy, or with the built-in client if nbdcopy is missing. Returns the name of
    /// the client.
    fn copy_there_and_back(
        &self,
        server: &Served,
        socket: &Path,
        content: &[u8],
    ) -> Result<&'static str, Failure> {
        let (there, back) = (self.dir.join("there"), self.dir.join("back"));
        let nbdcopy = |from: &std::ffi::OsStr, to: &std::ffi::OsStr| {
            capture(Command::new("nbdcopy").arg("--flush").arg(from).arg(to))
        };
        std::fs::write(&there, content)?;
        let uri = std::ffi::OsStr::new(&server.uri);
        let Err(missing) = Command::new("nbdcopy").arg("--version").output() else {
            nbdcopy(there.as_os_str(), uri)?;
            nbdcopy(uri, back.as_os_str())?;
            let found = std::fs::read(&back)?;
            same(content, found.get(..content.len()).unwrap_or_default())?;
            return Ok("nbdcopy");
        };
        if missing.kind() != std::io::ErrorKind::NotFound {
            return Err(Failure::failed(format!("cannot start nbdcopy: {missing}")));
        }
        let mut client = connect(socket)?;
        for (index, chunk) in content.chunks(CHUNK).enumerate() {
            client.write((index * CHUNK) as u64, chunk, false).map_err(refused)?;
        }
        client.flush().map_err(refused)?;
        let mut found = vec![0; content.len()];
        read_all(&mut client, &mut found)?;
        same(content, &found)?;
        client.disconnect().map_err(refused)?;
        Ok("the built-in client")
    }

    /// Durable random writes on a mechanical disk in real time.
    fn emulate(&self, out: &mut dyn Write) -> Outcome {
        self.heading(out, "3  Emulate: the same on a 7200 rpm disk, in real time")?;
        writeln!(out, "   $ seekless serve --memory 1G --layout … --disk desktop7200")?;
        writeln!(out, "   4 KiB random writes over 64 MiB, each durable before the next:")?;
        let mut baseline = None;
        for layout in ["inplace", "vlog"] {
            out.flush()?;
            let per_second = self.durable_writes_per_second(layout)?;
            let baseline = *baseline.get_or_insert(per_second);
            let factor = format!("{:.1} times", per_second / baseline);
            let verdict =
                if layout == "inplace" { String::new() } else { self.style.green(&factor) };
            writeln!(out, "   {layout:<10}{per_second:>8.0} writes/s   {verdict}")?;
        }
        Ok(())
    }

    fn durable_writes_per_second(&self, layout: &str) -> Result<f64, Failure> {
        let socket = self.dir.join("emulated.sock");
        let name = socket.to_string_lossy().into_owned();
        let disk = ["--disk", "desktop7200", "--socket", &name];
        let volume = ["serve", "--memory", "1G", "--layout", layout];
        let server = Served::start(&self.own, &[volume.as_slice(), &disk].concat())?;
        let mut client = connect(&socket)?;
        for at in (0..RANGE_BYTES).step_by(CHUNK) {
            client.write(at, &pattern(at, CHUNK), false).map_err(refused)?;
        }
        client.flush().map_err(refused)?;
        let mut rng = Rng::stream(1, "demonstration");
        let mut progress = Progress::new();
        let (begin, mut writes) = (Instant::now(), 0_u64);
        while begin.elapsed() < Duration::from_secs(self.seconds) {
            let block = rng.below(RANGE_BYTES / BLOCK_BYTES as u64);
            let bytes = pattern(writes, BLOCK_BYTES);
            client.write(block * BLOCK_BYTES as u64, &bytes, true).map_err(refused)?;
            writes += 1;
            progress.show(|| format!("   {layout}: {writes} writes"));
        }
        let per_second = writes as f64 / begin.elapsed().as_secs_f64();
        drop(progress);
        client.disconnect().map_err(refused)?;
        server.stop()?;
        Ok(per_second)
    }

    /// The same engine in virtual time.
    fn simulate(&self, out: &mut dyn Write) -> Outcome {
        self.heading(out, "4  Simulate: the same code in virtual time, on a disk of 1998")?;
        writeln!(out, "   $ seekless sim --layout inplace,vlog --disk st19101")?;
        let sim = ["sim", "--layout", "inplace,vlog", "--disk", "st19101", "--json"];
        let report = self.json(&sim)?;
        for row in report["rows"].as_array().into_iter().flatten() {
            let number = |field: &str| row[field].as_f64().unwrap_or_default();
            let part = |name: &str| row["breakdown_ms"][name].as_f64().unwrap_or_default();
            let moving = part("seek") + part("head_switch") + part("rotation");
            writeln!(
                out,
                "   {:<10}{:>8.2} ms a write, {:.2} of them moving and waiting for the platter",
                row["layout"].as_str().unwrap_or_default(),
                number("mean_ms"),
                moving
            )?;
        }
        Ok(())
    }

    /// Power cuts at every step.
    fn prove(&self, out: &mut dyn Write) -> Outcome {
        self.heading(out, "5  Prove: power cut at every step, writes lost, reordered and torn")?;
        writeln!(out, "   $ seekless prove --layout … --states {STATES}")?;
        for layout in ["inplace", "vlog"] {
            out.flush()?;
            let report = self.json(&["prove", "--layout", layout, "--states", STATES, "--json"])?;
            let number = |field: &str| report[field].as_f64().unwrap_or(f64::NAN);
            writeln!(
                out,
                "   {layout:<10}{:>8.0} crash states recovered and checked, {:.0} violations",
                number("states"),
                number("violations")
            )?;
        }
        Ok(())
    }
}

/// Bytes in one request of the copies.
const CHUNK: usize = 256 << 10;

fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::stream(seed, "demonstration content");
    (0..bytes / 8).flat_map(|_| rng.next().to_le_bytes()).collect()
}

fn connect(socket: &Path) -> Result<Client, Failure> {
    Client::connect(socket).map_err(refused)
}

fn refused(error: std::io::Error) -> Failure {
    Failure::failed(format!("the served disk failed: {error}"))
}

fn read_all(client: &mut Client, found: &mut [u8]) -> Outcome {
    for (index, chunk) in found.chunks_mut(CHUNK).enumerate() {
        client.read((index * CHUNK) as u64, chunk).map_err(refused)?;
    }
    Ok(())
}

fn same(expected: &[u8], found: &[u8]) -> Outcome {
    if expected == found {
        return Ok(());
    }
    Err(Failure::failed("the served disk returned other bytes than were written"))
}

fn capture(command: &mut Command) -> Result<String, Failure> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::failed(format!("cannot start {shown}: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::failed(format!("{shown} failed ({}): {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A directory that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        let dir = std::env::temp_dir().join(format!("seekless-demo-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|error| {
            Failure::failed(format!("cannot make the directory {}: {error}", dir.display()))
        })?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
