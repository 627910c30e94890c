//! A value that a device shares with the one who commands or reads it.
//!
//! Devices go from thread to thread with their volume, so what they share must be able to go with
//! them; `Rc` cannot. It is still used by one thread at a time.
// The lock makes the value `Send`. No user waits for it: a second one is a defect and panics.
#![allow(clippy::disallowed_types)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// A handle of a shared value. Its copies are handles of the same value.
pub struct Shared<T>(Arc<Mutex<T>>);

/// The value, while it is in use.
#[derive(Debug)]
pub struct Lent<'s, T>(MutexGuard<'s, T>);

impl<T> Shared<T> {
    /// Shares a value.
    pub fn new(value: T) -> Shared<T> {
        Shared(Arc::new(Mutex::new(value)))
    }

    /// The value, to use until it is dropped.
    ///
    /// # Panics
    /// If the value is in use.
    pub fn lend(&self) -> Lent<'_, T> {
        Lent(match self.0.try_lock() {
            Ok(value) => value,
            // A user that panicked leaves it as it was then, as a plain value would be.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => panic!("a shared value has one user at a time"),
        })
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.try_lock() {
            Ok(value) => f.debug_tuple("Shared").field(&*value).finish(),
            Err(_) => f.write_str("Shared(in use)"),
        }
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Lent<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_handles_of_one_value() {
        let one = Shared::new(1);
        *one.clone().lend() += 1;
        assert_eq!(*one.lend(), 2);
    }

    #[test]
    #[should_panic(expected = "one user at a time")]
    fn two_users_at_once_are_a_defect() {
        let one = Shared::new(1);
        let _user = one.lend();
        one.lend();
    }
}
