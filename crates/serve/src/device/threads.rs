//! Jobs performed by a few threads, for kernels without io_uring.

use super::work::{Finished, Work};
use rustix::event::{EventfdFlags, eventfd};
use seekless_engine::io::Tag;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads at most; they are started as work piles up.
const MOST: usize = 16;

#[derive(Debug, Default)]
struct Queues {
    waiting: VecDeque<(Tag, Work)>,
    finished: Vec<Finished>,
    idle: usize,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    file: Arc<File>,
    queues: Mutex<Queues>,
    more: Condvar,
    /// Readable exactly while `finished` has entries: both change under the lock.
    signal: OwnedFd,
}

/// A pool of threads over one file.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    pending: usize,
}

impl Threads {
    /// A pool without threads yet.
    pub(super) fn new(file: Arc<File>) -> io::Result<Threads> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queues = Mutex::new(Queues::default());
        let shared = Arc::new(Shared { file, queues, more: Condvar::new(), signal });
        Ok(Threads { shared, workers: Vec::new(), pending: 0 })
    }

    /// Becomes readable when something completes.
    pub(super) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }

    /// Requests that have not finished.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Queues a job.
    pub(super) fn start(&mut self, tag: Tag, work: Work) {
        self.pending += 1;
        let mut queues = self.shared.lock();
        queues.waiting.push_back((tag, work));
        let short = queues.waiting.len() > queues.idle && self.workers.len() < MOST;
        drop(queues);
        if short {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("seekless-io".into());
            match thread.spawn(move || shared.work()) {
                Ok(worker) => self.workers.push(worker),
                // Without any thread the job would wait forever: do it here.
                Err(_) if self.workers.is_empty() => self.shared.work_off(),
                Err(_) => {}
            }
        }
        self.shared.more.notify_one();
    }

    /// Appends finished jobs.
    pub(super) fn collect(&mut self, finished: &mut Vec<Finished>) {
        if self.pending == 0 {
            return;
        }
        let mut queues = self.shared.lock();
        if queues.finished.is_empty() {
            return;
        }
        self.pending -= queues.finished.len();
        finished.append(&mut queues.finished);
        let mut count = [0; 8];
        // The event descriptor is readable, because `finished` had entries.
        let _ = rustix::io::read(&self.shared.signal, &mut count);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // The queues are consistent after every statement, so a poisoned lock is usable.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queues = self.lock();
        loop {
            if let Some((tag, work)) = queues.waiting.pop_front() {
                drop(queues);
                let finished = self.run(tag, work);
                queues = self.lock();
                self.file_away(&mut queues, finished);
            } else if queues.closed {
                return;
            } else {
                queues.idle += 1;
                queues = self.more.wait(queues).unwrap_or_else(PoisonError::into_inner);
                queues.idle -= 1;
            }
        }
    }

    fn work_off(&self) {
        let mut queues = self.lock();
        while let Some((tag, work)) = queues.waiting.pop_front() {
            let finished = self.run(tag, work);
            self.file_away(&mut queues, finished);
        }
    }

    fn run(&self, tag: Tag, mut work: Work) -> Finished {
        let result = work.carry_out(&self.file);
        Finished { tag, work, result }
    }

    fn file_away(&self, queues: &mut Queues, finished: Finished) {
        if queues.finished.is_empty() {
            // Any count makes it readable. The write fails only if the counter is full, and then it
            // is readable.
            let _ = rustix::io::write(&self.signal, &[1, 0, 0, 0, 0, 0, 0, 0]);
        }
        queues.finished.push(finished);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queues = self.shared.lock();
        queues.closed = true;
        queues.waiting.clear();
        drop(queues);
        self.shared.more.notify_all();
        for worker in self.workers.drain(..) {
            // A panicked worker has already printed its message.
            let _ = worker.join();
        }
    }
}
