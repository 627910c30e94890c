//! Threads that a product starts itself: they are on the disk of the thread that starts them.

use crate::disk::Entered;
use std::thread::JoinHandle;

/// See [`std::thread::spawn`]. A thread that outlives a check stays on the volume of that state,
/// which is discarded.
///
/// # Panics
/// If the operating system starts no thread, as `std` does.
pub fn spawn<F, T>(function: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let disk = Entered::inherited();
    std::thread::spawn(move || {
        let _entered = disk();
        function()
    })
}
