//! The loop: it does what no request brings about.
//!
//! It looks at the state ([`super::shared`]) and sleeps until an answer of a device, a deadline, a
//! command, a signal, or a thread that has made something due. It brings the mount to its end.

use super::shared::{Next, Shared};
use super::state::{Ended, State};
use super::volume::Volume;
use crate::control::{Command, Control};
use crate::fuse::mount::MountPoint;
use crate::status::line;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno as OsErrno;
use seekless_engine::units::{SECONDS, Time};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// What the poller calls its descriptors.
const WAKE: u64 = 0;
const DEVICE: u64 = 1;
const STOP: u64 = 2;
const CONTROL: u64 = 3;
const USR1: u64 = 4;

/// Where signals, questions and commands come from.
#[derive(Debug)]
pub(super) struct Outside {
    /// Becomes readable when the mount is to end.
    pub stop_fd: OwnedFd,
    /// Becomes readable when a line about the state is asked for.
    pub usr1_fd: Option<OwnedFd>,
    /// Questions, and commands to the disk below.
    pub control: Option<Control>,
}

/// The loop and all it owns.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Shared,
    epoll: OwnedFd,
    outside: Outside,
    /// Until a signal takes it.
    point: Option<MountPoint>,
    /// Of members of an array that have come since.
    new_fds: Vec<OwnedFd>,
}

impl Driver {
    /// Sets the poller up.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(super) fn new(
        shared: Shared,
        device_fds: &[OwnedFd],
        outside: Outside,
    ) -> io::Result<Driver> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd, name| epoll::add(&epoll, fd, EventData::new_u64(name), EventFlags::IN);
        watch(shared.wake_fd(), WAKE)?;
        watch(outside.stop_fd.as_fd(), STOP)?;
        if let Some(control) = &outside.control {
            watch(control.fd(), CONTROL)?;
        }
        if let Some(fd) = &outside.usr1_fd {
            watch(fd.as_fd(), USR1)?;
        }
        for fd in device_fds {
            watch(fd.as_fd(), DEVICE)?;
        }
        Ok(Driver { shared, epoll, outside, point: None, new_fds: Vec::new() })
    }

    /// Takes the place of the mount, which goes when a signal comes or the loop ends.
    pub(super) fn mounted(&mut self, point: MountPoint) {
        self.point = Some(point);
    }

    /// Runs until the file system is unmounted or a signal ends it, and gives the volume back.
    ///
    /// # Errors
    /// Only what makes going on impossible: the poller fails.
    pub(super) fn run(mut self) -> io::Result<(Volume, Ended)> {
        let mut events = Vec::with_capacity(16);
        loop {
            match self.shared.look() {
                Next::Again => self.poll(&mut events, Some(0))?,
                Next::Sleep(span) => self.poll(&mut events, span)?,
                Next::End => break,
            }
            for event in &events {
                match event.data.u64() {
                    STOP => self.leave(),
                    WAKE => self.shared.clear(),
                    CONTROL => self.obey(),
                    USR1 => self.say_status(),
                    // The next look collects what the device has.
                    _ => {}
                }
            }
        }
        if let Some(point) = self.point.take() {
            point.was_left();
        }
        let state = self.shared.take();
        state.map(State::into_parts).ok_or_else(|| io::Error::other("the state is gone"))
    }

    /// A signal: the file system leaves its directory, and ends when programs have closed their
    /// files. The next signal ends the process at once, by its default action.
    fn leave(&mut self) {
        let _ = epoll::delete(&self.epoll, &self.outside.stop_fd);
        // A signal stays pending until it is read: released, it would end the process at once.
        let _ = rustix::io::read(&self.outside.stop_fd, &mut [0_u8; 128]);
        let _ = crate::signals::release();
        // The kernel may write back files first, and that may need this loop.
        let point = self.point.take();
        if std::thread::Builder::new().name("unmount".into()).spawn(move || drop(point)).is_err() {
            tracing::warn!("no thread is left to unmount; run fusermount3 -u");
        }
        let _ = self.shared.enter(State::leave);
    }

    /// Carries out the commands that have come.
    fn obey(&mut self) {
        while let Some((command, asker)) = self.outside.control.as_ref().and_then(Control::take) {
            if command == Command::Sync {
                // Without a state the asker is dropped, which ends its conversation.
                let _ = self.shared.enter(|state| state.sync(asker));
                continue;
            }
            let obeyed = self.shared.enter(|state| (state.command(&command), state.new_fds()));
            let Some((reply, new_fds)) = obeyed else { continue };
            for fd in new_fds {
                let event = EventData::new_u64(DEVICE);
                if let Err(error) = epoll::add(&self.epoll, &fd, event, EventFlags::IN) {
                    // Its answers are found whenever something else happens.
                    tracing::warn!("a new member is not watched: {error}");
                }
                self.new_fds.push(fd);
            }
            asker.send(reply);
        }
    }

    /// SIGUSR1: a line about the mount goes to the log.
    fn say_status(&self) {
        let Some(fd) = &self.outside.usr1_fd else { return };
        // A signal stays pending until it is read.
        let _ = rustix::io::read(fd, &mut [0_u8; 128]);
        if let Some(report) = self.shared.enter(|state| state.report()) {
            tracing::info!("{}", line(&report));
        }
    }

    /// Sleeps, and says what has come.
    fn poll(&self, events: &mut Vec<epoll::Event>, sleep: Option<Time>) -> io::Result<()> {
        events.clear();
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: (sleep / SECONDS) as i64,
            tv_nsec: (sleep % SECONDS) as _,
        });
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(OsErrno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
