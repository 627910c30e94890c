//! Steps of calls that formats end in the same way.

use bytes::{Bytes, BytesMut};
use seekless_fs::call::{Answer, Attr, Ino};
use seekless_fs::mounted::pending::{Good, State, Step};

/// The call goes on from here, and holds the inode until then.
pub(crate) fn more<M>(state: State, holds: Ino) -> Step<M> {
    Step::More { state, holds: Some(holds) }
}

/// A name leads to an object: its lookup count rises.
pub(crate) fn found<M>(attr: Attr) -> Step<M> {
    Step::Done(Good { looked_up: Some(attr.ino), ..Answer::Object(attr, None).into() })
}

/// A name is gone, and with it perhaps the last one of an inode.
pub(crate) fn removed<M>(unnamed: Option<Ino>) -> Step<M> {
    Step::Done(Good { unnamed, ..Answer::Done.into() })
}

/// The bytes of all steps of a read.
pub(crate) fn joined(steps: &[Bytes], last: Bytes) -> Bytes {
    if steps.is_empty() {
        return last;
    }
    if steps.len() == 1 && last.is_empty() {
        return steps[0].clone();
    }
    let mut all = BytesMut::new();
    steps.iter().for_each(|step| all.extend_from_slice(step));
    all.extend_from_slice(&last);
    all.freeze()
}
