//! The disk of a test, and the volume that `fs` acts on in each thread.

use crate::volume::Volume;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Volume>>> = const { RefCell::new(None) };
}

/// The volume of this thread.
///
/// # Panics
/// If it has none. That is a mistake of the test: as an I/O error the product might swallow it.
#[track_caller]
pub(crate) fn current() -> Arc<Volume> {
    let current = CURRENT.with_borrow(Option::clone);
    let Some(volume) = current else {
        panic!(
            "this thread has no disk; call seekless_crashfs::fs inside of `Disk::run` or a check, \
             or call `Disk::enter` first"
        )
    };
    volume
}

/// Locks a list of acknowledgements. It is whole between two calls, whichever thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty disk in memory, with a record of what changes it. Copies are the same disk.
///
/// `A` is what the workload acknowledges: a number, a key with its value.
pub struct Disk<A> {
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    /// Which volume [`Disk::enter`] gives: the recorded one, or that of the state in a check.
    now: Mutex<Arc<Volume>>,
    recorded: Arc<Volume>,
    acks: Mutex<Vec<A>>,
}

impl<A> Clone for Disk<A> {
    fn clone(&self) -> Disk<A> {
        Disk { shared: Arc::clone(&self.shared) }
    }
}

impl<A> fmt::Debug for Disk<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl<A> Default for Disk<A> {
    fn default() -> Disk<A> {
        Disk::new()
    }
}

impl<A> Disk<A> {
    /// An empty disk.
    pub fn new() -> Disk<A> {
        let recorded = Arc::new(Volume::recorded());
        let now = Mutex::new(Arc::clone(&recorded));
        Disk { shared: Arc::new(Shared { now, recorded, acks: Mutex::default() }) }
    }

    /// Makes this disk the one of the thread until the guard is dropped: for other threads, and for
    /// what is on the disk before the first run. That is durable, and no crash undoes it.
    pub fn enter(&self) -> Entered {
        Entered::new(Arc::clone(&lock(&self.shared.now)))
    }

    /// Runs a workload on this disk. It acknowledges a value once the product has promised it.
    ///
    /// A second run goes on where the first one ended, as a program does that is started again.
    pub fn run<R>(&self, workload: impl FnOnce(&Acks<A>) -> R) -> R {
        let _entered = Entered::new(Arc::clone(&self.shared.recorded));
        self.shared.recorded.lock().begin();
        workload(&Acks { disk: self.clone() })
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.shared.recorded
    }

    pub(crate) fn acks(&self) -> MutexGuard<'_, Vec<A>> {
        lock(&self.shared.acks)
    }

    /// Shows another volume to this thread, and to those that enter, until the guard is dropped.
    pub(crate) fn show(&self, volume: Volume) -> Shown<'_, A> {
        let volume = Arc::new(volume);
        *lock(&self.shared.now) = Arc::clone(&volume);
        Shown { disk: self, _entered: Entered::new(volume) }
    }
}

/// Undoes [`Disk::show`].
pub(crate) struct Shown<'d, A> {
    disk: &'d Disk<A>,
    _entered: Entered,
}

impl<A> Drop for Shown<'_, A> {
    fn drop(&mut self) {
        *lock(&self.disk.shared.now) = Arc::clone(&self.disk.shared.recorded);
    }
}

/// A thread is on a disk as long as this guard lives; then it is back where it was.
#[derive(Debug)]
pub struct Entered {
    before: Option<Arc<Volume>>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Entered {
    fn new(volume: Arc<Volume>) -> Entered {
        let before = CURRENT.replace(Some(volume));
        Entered { before, _thread: PhantomData }
    }
}

impl Entered {
    /// What makes the disk of this thread, if it has one, that of the thread that calls it.
    pub(crate) fn inherited() -> impl FnOnce() -> Option<Entered> + Send + 'static {
        let volume = CURRENT.with_borrow(Option::clone);
        move || volume.map(Entered::new)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// Takes the acknowledgements of a workload, from all of its threads.
#[derive(Debug)]
pub struct Acks<A> {
    disk: Disk<A>,
}

impl<A> Clone for Acks<A> {
    fn clone(&self) -> Acks<A> {
        Acks { disk: self.disk.clone() }
    }
}

impl<A: fmt::Debug> Acks<A> {
    /// Acknowledges a value: from here on no power cut may take it.
    pub fn push(&self, value: A) {
        let text = format!("{value:?}");
        // Under the lock of the volume, so that the record has values in the order of the list.
        let mut state = self.disk.volume().lock();
        state.mark(text);
        self.disk.acks().push(value);
    }
}
