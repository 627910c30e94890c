//! A build guided by a profile: the compiler sees how often code runs, and lays it out and inlines
//! it accordingly. An instrumented program runs typical work for about a minute; its counts guide
//! the second build.

use crate::bench::Scratch;
use crate::bench::fio::{Job, Server, fio};
use crate::prover::subjects;
use crate::run::{capture, cargo, installed, root, run, target};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYOUTS: [&str; 8] = ["inplace", "vlog", "loge", "lfs", "wolf", "hylog", "lld", "dcd"];

/// Simulations of each layout.
const SIMULATIONS: [&str; 4] = [
    "--disk st19101 --requests 100000",
    "--disk hp97560 --depth 16 --requests 20000",
    "--disk desktop7200 --read-share 0.5 --requests 20000",
    "--disk atlas10k:256M --no-fua --depth 4 --requests 20000",
];

/// Workloads of clients of a server: pattern, in flight, a flush after so many writes.
const JOBS: [(&str, u32, u32); 4] =
    [("randwrite", 1, 1), ("randwrite", 16, 0), ("randread", 1, 0), ("randread", 16, 0)];

/// The properties of the compiler that are needed here.
struct Compiler {
    host: String,
    llvm: String,
    sysroot: PathBuf,
}

/// Builds the program guided by a profile and returns its path.
///
/// # Errors
/// If LLVM's tool for profiles is missing, and failures of the steps.
pub fn guided() -> Result<PathBuf> {
    let compiler = Compiler::ask()?;
    let tool = compiler.profile_tool()?;
    let dir = root().join(target()).join("guided");
    let counts = dir.join("counts");
    // Remove counts of older builds.
    let _ = std::fs::remove_dir_all(&counts);
    std::fs::create_dir_all(&counts)?;
    let learning = build(&compiler, &dir.join("learning"), "generate", &counts)?;
    train(&learning)?;
    let profile = dir.join("profile");
    let mut merge = Command::new(&tool);
    merge.arg("merge").arg("--output").arg(&profile).arg(&counts);
    run(&mut merge).with_context(|| compiler.advice())?;
    let built = build(&compiler, &dir.join("final"), "use", &profile)?;
    let program = dir.join("seekless");
    std::fs::copy(&built, &program).context("cannot copy the program")?;
    println!("{}", program.display());
    Ok(program)
}

/// Builds with one of the compiler's `-C profile-...` options. It names a target, so that the
/// option does not apply to build scripts and macros.
fn build(compiler: &Compiler, dir: &Path, option: &str, path: &Path) -> Result<PathBuf> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let path = path.to_str().context("the checkout's path is no text")?;
    let mut command = cargo();
    command.env("RUSTFLAGS", format!("{flags} -Cprofile-{option}={path}").trim());
    command.args(["build", "--quiet", "--profile", "dist", "--package", "seekless"]);
    command.args(["--target", &compiler.host]).arg("--target-dir").arg(dir);
    run(&mut command)?;
    Ok(dir.join(&compiler.host).join("dist").join("seekless"))
}

/// Runs a little of everything that the program does.
fn train(program: &Path) -> Result<()> {
    for layout in LAYOUTS {
        for simulation in SIMULATIONS {
            let mut sim = Command::new(program);
            sim.args(["sim", "--layout", layout]).args(simulation.split_whitespace());
            capture(&mut sim)?;
        }
    }
    for subject in subjects(program)? {
        let mut prove = Command::new(program);
        capture(prove.args(["prove", "--states", "1000"]).args(subject.split_whitespace()))?;
    }
    capture(Command::new(program).arg("demo"))?;
    if !installed("fio") {
        println!("fio is not installed (`make setup`): serving is learned from the demo alone");
        return Ok(());
    }
    LAYOUTS.iter().try_for_each(|layout| serve(program, layout))
}

/// Serves a volume in memory to fio. The server is shut down cleanly: only then does it write its
/// counts.
fn serve(program: &Path, layout: &str) -> Result<()> {
    let scratch = Scratch::new("guided")?;
    let socket = scratch.0.join("seekless.sock");
    let word = OsStr::new;
    let args = [word("--memory"), word("64M"), word("--layout"), word(layout), word("--socket")];
    let server = Server::seekless(program, &[&args[..], &[socket.as_os_str()]].concat())?;
    for (rw, depth, fsync) in JOBS {
        let job = Job { rw, bs: "4k", depth, fsync, size_mib: 64, seconds: 1 };
        fio(&server, &scratch.0, &job)?;
    }
    server.stop().map(drop)
}

impl Compiler {
    fn ask() -> Result<Compiler> {
        let rustc = || Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let said = capture(rustc().arg("-vV"))?;
        let value = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
                .with_context(|| format!("`rustc -vV` says nothing of `{name}`"))
        };
        let llvm = value("LLVM version:")?;
        let major = llvm.split('.').next().unwrap_or_default().to_owned();
        let sysroot = capture(rustc().args(["--print", "sysroot"]))?;
        Ok(Compiler { host: value("host:")?, llvm: major, sysroot: sysroot.trim().into() })
    }

    /// LLVM's tool for profiles: it has to be as new as the compiler's LLVM.
    fn profile_tool(&self) -> Result<PathBuf> {
        let own = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        let packaged = format!("/usr/lib/llvm-{}/bin/llvm-profdata", self.llvm);
        if let Some(tool) = [own, packaged.into()].into_iter().find(|tool| tool.is_file()) {
            return Ok(tool);
        }
        let named = format!("llvm-profdata-{}", self.llvm);
        match [named.as_str(), "llvm-profdata"].into_iter().find(|tool| installed(tool)) {
            Some(tool) => Ok(tool.into()),
            None => bail!("llvm-profdata is missing: {}", self.advice()),
        }
    }

    fn advice(&self) -> String {
        let llvm = &self.llvm;
        format!(
            "`rustup component add llvm-tools` or `apt-get install llvm-{llvm}` brings the tool"
        )
    }
}
