//! Orphans of a run become children of this process, so that they leave no zombie with another.

use std::sync::{Mutex, PoisonError};

/// Runs that need it, and whether it was so before the first of them.
static RUNS: Mutex<(usize, bool)> = Mutex::new((0, false));

/// This process adopts orphans until it is dropped.
#[derive(Debug)]
pub(crate) struct Subreaper;

fn set(on: bool) {
    // SAFETY: the call takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on), 0, 0, 0) };
}

impl Subreaper {
    pub(crate) fn new() -> Subreaper {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.0 == 0 {
            let mut was: libc::c_int = 0;
            // SAFETY: the kernel writes an integer to `was`.
            unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut was, 0, 0, 0) };
            runs.1 = was != 0;
            set(true);
        }
        runs.0 += 1;
        Subreaper
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.0 -= 1;
        if runs.0 == 0 && !runs.1 {
            set(false);
        }
    }
}
