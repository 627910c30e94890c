//! Latency compensation: answers of a simulated disk are sent early by the measured delivery delay,
//! so that the client sees the modelled latency.
//!
//! A model knows nothing of the way from a client to the server and back. A client of a real disk
//! pays for the way to the disk only; here it would pay for both.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use seekless_engine::units::{MICROS, Time};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Echoes that are measured, and how long both sides sleep before each: as long as a disk takes.
const ECHOES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// A busy machine may take longer, but not every time.
const MOST_NS: Time = 200 * MICROS;

/// The median of [`echoes`] in nanoseconds; at most 200 µs, and 0 if it cannot be found out.
pub fn measure() -> Time {
    let mut took = echoes().unwrap_or_default();
    took.sort_unstable();
    let median = took.get(took.len() / 2).map_or(0, |median| median.as_nanos() as Time);
    median.min(MOST_NS)
}

/// What this machine takes for a message and its answer between two threads on two processors that
/// sleep meanwhile, twenty times. Takes a tenth of a second.
///
/// # Errors
///
/// If the system gives no socket or no thread.
pub fn echoes() -> std::io::Result<Vec<Duration>> {
    let (near, far) = UnixStream::pair()?;
    let near = Builder::new().name("echo".to_owned()).spawn(|| shout(near))?;
    // It ends when the other end is closed, whatever that does to it.
    Builder::new().name("echo".to_owned()).spawn(move || {
        pin(1);
        while answer(&far).is_ok() {}
    })?;
    near.join().map_err(|_| std::io::Error::other("a thread has panicked"))?
}

fn shout(mut stream: UnixStream) -> std::io::Result<Vec<Duration>> {
    pin(0);
    let mut message = [0; 28];
    let mut took = Vec::with_capacity(ECHOES);
    for _ in 0..ECHOES {
        std::thread::sleep(PAUSE);
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        took.push(sent.elapsed());
    }
    Ok(took)
}

fn answer(mut stream: &UnixStream) -> std::io::Result<()> {
    let mut message = [0; 28];
    stream.read_exact(&mut message)?;
    stream.write_all(&message)
}

/// Keeps this thread on the `nth` of the processors that it may run on, if it has a choice and the
/// system lets it: otherwise figures are a little worse, nothing else.
pub fn pin(nth: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut processors = (0..CpuSet::MAX_CPU).filter(|&one| allowed.is_set(one));
    let Some(processor) = processors.nth(nth) else { return };
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}

/// The time of the node. Requests come when the clock on the wall says; answers are looked for
/// ahead of it, by the compensation. Neither goes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    compensation_ns: Time,
    latest: Time,
}

impl Clock {
    pub(super) fn new(compensation_ns: Time) -> Clock {
        Clock { compensation_ns, latest: 0 }
    }

    /// When requests come that are there at `wall`, and up to when answers may be sent.
    pub(super) fn read(&mut self, wall: Time) -> (Time, Time) {
        let arrival = wall.max(self.latest);
        self.latest = arrival.max(wall + self.compensation_ns);
        debug_assert!(arrival <= self.latest, "time goes back");
        (arrival, self.latest)
    }

    /// When to look for an answer that is due at `due`.
    pub(super) fn ahead_of(&self, due: Time) -> Time {
        due.saturating_sub(self.compensation_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_sent_early_and_time_never_runs_back() {
        let mut clock = Clock::new(100);
        assert_eq!(clock.read(1000), (1000, 1100));
        // The next request was on its way meanwhile.
        assert_eq!(clock.read(1150), (1150, 1250));
        assert_eq!(clock.read(1200), (1250, 1300), "not before what has been");
        assert_eq!(clock.ahead_of(5000), 4900);
        assert_eq!(Clock::new(0).read(7), (7, 7));
    }

    #[test]
    fn an_echo_takes_time() {
        assert!((1..=MOST_NS).contains(&measure()));
    }
}
