//! Why a run could not be recorded.

use std::io;
use std::path::PathBuf;

/// Why a run could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The processor or the operating system is not known.
    #[error(
        "system calls cannot be recorded on this machine; use Linux on x86-64 or aarch64, or \
         record a disk or through FUSE, as root"
    )]
    Unsupported,
    /// The kernel does not let this process trace its children.
    #[error("this process may not trace its children ({source}); {remedy}")]
    Denied {
        /// What the kernel said.
        source: io::Error,
        /// What to do.
        remedy: String,
    },
    /// The seccomp filter cannot be installed.
    #[error(
        "the seccomp filter of the recorder cannot be installed ({0}); a kernel from 5.3 on \
             built with CONFIG_SECCOMP_FILTER is needed"
    )]
    Filter(io::Error),
    /// The command does not start.
    #[error("{program} does not start: {source}")]
    Start {
        /// The command.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A file that has to be recorded cannot be read.
    #[error("{} cannot be read: {source}; let the recorder's user read it", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of acknowledgements cannot be made.
    #[error("the file of acknowledgements {} cannot be made: {source}", path.display())]
    Acks {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The machine refused something that the recorder needs.
    #[error("the recorder cannot {what}: {source}")]
    Machine {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// The error for a trace that the kernel refuses.
    pub(crate) fn denied(source: io::Error) -> Error {
        Error::Denied { remedy: remedy(), source }
    }
}

/// What lets this process trace its children.
fn remedy() -> String {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let scope: u32 = file("/proc/sys/kernel/yama/ptrace_scope").trim().parse().unwrap_or(0);
    if scope >= 2 {
        return format!(
            "kernel.yama.ptrace_scope is {scope}: set it to 1 (sysctl kernel.yama.ptrace_scope=1), \
             or add the capability SYS_PTRACE"
        );
    }
    let status = file("/proc/self/status");
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim).to_owned()
    };
    if field("TracerPid:").parse::<u32>().is_ok_and(|tracer| tracer != 0) {
        return format!(
            "process {} traces this one and its children (a debugger or strace -f); run without it",
            field("TracerPid:")
        );
    }
    "a container runtime or a security module denies ptrace; start the container with --cap-add \
     SYS_PTRACE, or with a seccomp profile that allows ptrace"
        .to_owned()
}
