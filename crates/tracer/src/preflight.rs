//! Whether this machine lets a process trace its children, and what to do if it does not.

use crate::error::Error;
use crate::session::probe;
use std::io;

/// Traces a probe child, which runs nothing and changes nothing.
///
/// # Errors
/// What is missing, with the way to add it.
pub fn preflight() -> Result<(), Error> {
    if crate::arch::IS_KNOWN { probe() } else { Err(Error::Unsupported) }
}

/// The error for a trace that the kernel refuses.
pub(crate) fn denied(source: io::Error) -> Error {
    Error::Denied { remedy: remedy(), source }
}

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
