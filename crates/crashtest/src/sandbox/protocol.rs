//! What a worker and its parent say to each other: one message is one packet of a socket pair, in
//! JSON. A job brings descriptors along: where output goes, the file of the state, if any, and a
//! file with what was acknowledged.

use super::mounts::Mounting;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Bytes of a message at most.
const MOST_BYTES: usize = 128 << 10;
/// Descriptors of a message at most.
const MOST_FDS: usize = 4;

/// What a worker is to do. The descriptors are the output and then, if there are any, the state,
/// what was acknowledged, and the second disk of the state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// For `/bin/sh -c`.
    pub line: String,
    /// More variables of its environment.
    pub variables: Vec<(String, String)>,
    /// Where the state is mounted, and how.
    pub mount: Option<(PathBuf, Mounting)>,
    /// Where the second disk of the state is mounted, and how.
    pub second: Option<(PathBuf, Mounting)>,
    /// Mounted directories or a block device, which are written back at the end. Whether the
    /// command takes the file system of a directory away is told.
    pub watch: Vec<PathBuf>,
    /// Answer [`Answer::Tree`] before the command runs, and wait for [`Go`].
    pub tells_tree: bool,
    /// Answer [`Answer::Mounted`] before the command runs, wait for [`Go`], and leave the disk
    /// mounted until the parent ends the worker.
    pub in_steps: bool,
}

/// Lets a worker go on after [`Answer::Mounted`] or [`Answer::Tree`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Go {
    /// Without the command, as if it had ended with exit code 0.
    pub is_known: bool,
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It waits for jobs.
    Ready {
        /// What it shares with the machine although it should not, and why.
        shared: Vec<String>,
    },
    /// The disk is mounted; it waits for [`Go`].
    Mounted,
    /// The state is mounted, and its tree has this fingerprint, if it was taken; it waits for
    /// [`Go`].
    Tree(Option<String>),
    /// The command ended.
    Ran(Ran),
    /// The kernel refuses the file system: an error number.
    NotMounted(i32),
    /// The worker cannot do the job.
    Failed(String),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// As wait(2) gives it.
    pub status: i32,
    /// Processes that it left, which were killed.
    pub left: u32,
    /// The namespace is as it was before; else the worker ends.
    pub clean: bool,
    /// What was mounted at a watched directory is not any longer.
    pub unmounted: bool,
}

/// Sends a message.
///
/// # Errors
/// If the other side is gone.
pub fn send(
    socket: BorrowedFd<'_>,
    what: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(what)?;
    if bytes.len() > MOST_BYTES {
        return Err(io::Error::other(format!(
            "a command and its variables have {} bytes; put it into a script",
            bytes.len()
        )));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "no message has more than {MOST_FDS} descriptors");
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.map(|_| ()).map_err(Into::into),
        }
    }
}

/// Waits for a message; `None` when the other side is gone.
///
/// # Errors
/// If it cannot be read.
pub fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a message of a worker was cut short"));
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            fds.extend(descriptors);
        }
    }
    Ok(Some((serde_json::from_slice(&bytes[..received.bytes])?, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::AsFd as _;

    #[test]
    fn a_message_arrives_whole_with_its_descriptors_and_an_end_is_seen() {
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, theirs) = socketpair(unix, packets, SocketFlags::CLOEXEC, None).expect("sockets");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"state").expect("written");
        let answer = Answer::Failed("é\n".repeat(9000));
        send(own.as_fd(), &answer, &[file.as_fd()]).expect("sent");
        let (got, mut fds) = receive::<Answer>(theirs.as_fd()).expect("read").expect("a message");
        assert_eq!((got, fds.len()), (answer, 1));
        let mut file = File::from(fds.remove(0));
        file.rewind().expect("the start");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "state");
        let long = Answer::Failed("x".repeat(MOST_BYTES));
        let refused = send(own.as_fd(), &long, &[]).expect_err("too long").to_string();
        assert!(refused.ends_with("put it into a script"), "{refused}");
        drop(own);
        assert!(receive::<Answer>(theirs.as_fd()).expect("read").is_none());
    }
}
