//! Jobs performed by the kernel through io_uring.

use super::raw::ZeroWay;
use super::work::{Finished, Work};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use seekless_engine::io::Tag;
use slab::Slab;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Requests in the kernel at once; the others wait their turn here.
const ENTRIES: u32 = 256;

/// A ring over one file.
pub(super) struct Ring {
    ring: IoUring,
    file: Arc<File>,
    direct: bool,
    jobs: Slab<(Tag, Work)>,
    queued: VecDeque<usize>,
    in_kernel: usize,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} queued, {} in the kernel)", self.queued.len(), self.in_kernel)
    }
}

impl Ring {
    /// A ring, if the kernel has one and allows it.
    pub(super) fn new(file: Arc<File>, direct: bool) -> io::Result<Ring> {
        // Interrupting the loop for a completion only delays it; older kernels lack the option.
        let ring = IoUring::builder()
            .setup_clamp()
            .setup_coop_taskrun()
            .build(ENTRIES)
            .or_else(|_| IoUring::new(ENTRIES))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring { ring, file, direct, jobs: Slab::new(), queued: VecDeque::new(), in_kernel: 0 })
    }

    /// Becomes readable when something completes.
    pub(super) fn wait_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and lives at least as long as the borrow of `self`.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Requests that have not finished.
    pub(super) fn pending(&self) -> usize {
        self.jobs.len()
    }

    /// Queues a job; it starts with the next [`Ring::collect`].
    pub(super) fn start(&mut self, tag: Tag, work: Work) {
        let key = self.jobs.insert((tag, work));
        self.queued.push_back(key);
    }

    /// Starts waiting jobs, then appends the finished ones.
    pub(super) fn collect(&mut self, finished: &mut Vec<Finished>) {
        self.push();
        self.take(finished);
        // Jobs that need another call, and jobs that waited for a slot.
        if !self.queued.is_empty() {
            self.push();
        }
    }

    fn push(&mut self) {
        let mut pushed = false;
        while self.in_kernel < ENTRIES as usize
            && let Some(&key) = self.queued.front()
        {
            let entry = entry(&mut self.jobs[key].1, self.file.as_raw_fd()).user_data(key as u64);
            // SAFETY: the memory that the entry points to belongs to a buffer on the heap that
            // `jobs` owns until the entry's completion has been taken, or is static; the file
            // descriptor stays open as long as `self.file`. `Drop` waits for completions.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
            self.queued.pop_front();
            self.in_kernel += 1;
            pushed = true;
        }
        // Entries that an interrupted or refused call left behind are submitted too.
        if pushed || !self.ring.submission().is_empty() {
            // A busy kernel (EAGAIN, EBUSY) accepts them at the next call.
            let _ = self.ring.submit();
        }
    }

    fn take(&mut self, finished: &mut Vec<Finished>) {
        let completions = self.ring.completion();
        for completion in completions {
            let key = completion.user_data() as usize;
            self.in_kernel -= 1;
            match self.jobs[key].1.advance(completion.result(), self.direct) {
                None => self.queued.push_back(key),
                Some(result) => {
                    let (tag, work) = self.jobs.remove(key);
                    finished.push(Finished { tag, work, result });
                }
            }
        }
    }
}

/// The next system call of a job.
fn entry(work: &mut Work, fd: i32) -> squeue::Entry {
    let fd = types::Fd(fd);
    match work {
        Work::Read { offset, buffer, filled } => {
            let at = *offset + *filled as u64;
            let rest = &mut buffer.bytes_mut()[*filled..];
            let length = u32::try_from(rest.len()).unwrap_or(1 << 30);
            opcode::Read::new(fd, rest.as_mut_ptr(), length).offset(at).build()
        }
        Work::Write { offset, bytes, written } => {
            let rest = &bytes[*written..];
            let length = u32::try_from(rest.len()).unwrap_or(1 << 30);
            let at = *offset + *written as u64;
            opcode::Write::new(fd, rest.as_ptr(), length).offset(at).build()
        }
        Work::Zero { offset, bytes, done, way } => match way.flags() {
            Some(flags) => opcode::Fallocate::new(fd, *bytes - *done)
                .offset(*offset + *done)
                .mode(flags.bits() as i32)
                .build(),
            None => {
                debug_assert!(*way == ZeroWay::Write);
                let (at, zeros) = Work::next_zeros(*offset, *bytes, *done);
                opcode::Write::new(fd, zeros.as_ptr(), zeros.len() as u32).offset(at).build()
            }
        },
        Work::Sync { file, .. } => opcode::Fsync::new(types::Fd(file.as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write into the buffers: they must live until it is done.
        let mut finished = Vec::new();
        self.queued.clear();
        while self.in_kernel > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                Err(_) => {
                    // If we cannot learn when the kernel is done, only a leak is safe.
                    std::mem::forget(std::mem::take(&mut self.jobs));
                    return;
                }
            }
            self.take(&mut finished);
            self.queued.clear();
        }
    }
}
