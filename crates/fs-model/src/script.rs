//! Random scripts of calls, each a function of its kind, seed, length and shape.
//!
//! A script is symbolic: an inode number or a handle is the id of the call that brought it, and
//! the root is itself. So a script fits every system, and it still means something when calls are
//! left out: a call that refers to one that is missing is skipped. A cookie that is not zero goes
//! on where the last list of that handle ended.

mod bindings;
mod kinds;
mod sizes;
mod writer;

pub use bindings::Bindings;
pub use sizes::Shape;

use seekless_fs::call::Call;
use writer::Writer;

/// What a script is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Many names come and go in one directory, with short and long names.
    HotDirectory,
    /// Directories in directories, made and removed at every depth.
    DeepTree,
    /// Files with many names, in several directories.
    HardLinks,
    /// Renames within and between directories, over objects, and exchanges.
    Renames,
    /// Sizes around the borders of fragments, blocks and indirect blocks.
    Sizes,
    /// Holes: made by writes and sizes, punched, filled, looked for.
    Holes,
    /// Files and directories that are removed while they are open.
    Unlinked,
    /// Many users, owners, groups and permission bits.
    Users,
    /// Data until the disk is full, then removals.
    FullDisk,
    /// Lists in small pieces while names come and go.
    Lists,
    /// Symbolic links and special files.
    Specials,
    /// Times set by calls and moved by operations.
    Times,
    /// Everything.
    Mixed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 13] = [
        Kind::HotDirectory,
        Kind::DeepTree,
        Kind::HardLinks,
        Kind::Renames,
        Kind::Sizes,
        Kind::Holes,
        Kind::Unlinked,
        Kind::Users,
        Kind::FullDisk,
        Kind::Lists,
        Kind::Specials,
        Kind::Times,
        Kind::Mixed,
    ];

    /// True if the file system may run out of space.
    pub fn may_fill(self) -> bool {
        self == Kind::FullDisk
    }
}

/// A script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What it is about.
    pub kind: Kind,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The calls.
    pub calls: Vec<Call>,
}

impl Script {
    /// A script of at least `length` calls.
    pub fn random(kind: Kind, seed: u64, length: usize, shape: Shape) -> Script {
        let mut writer = Writer::new(seed, &format!("script {kind:?}"), shape);
        while writer.calls.len() < length {
            kinds::step(kind, &mut writer);
            writer.forget_some();
        }
        Script { kind, seed, calls: writer.calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Limits, Model};
    use seekless_fs::system::Runs as _;

    #[test]
    fn a_script_is_a_function_of_its_seed() {
        for kind in Kind::ALL {
            let script = Script::random(kind, 7, 300, Shape::default());
            assert_eq!(script, Script::random(kind, 7, 300, Shape::default()), "{kind:?}");
            assert_ne!(script.calls, Script::random(kind, 8, 300, Shape::default()).calls);
        }
    }

    /// Calls that fail test little: most must succeed, and some must fail.
    #[test]
    fn most_calls_succeed() {
        for kind in Kind::ALL {
            let script = Script::random(kind, 1, 1000, Shape::default());
            let mut model = Model::new(Limits::default());
            let mut bindings = Bindings::default();
            let (mut done, mut failed) = (0, 0);
            for call in &script.calls {
                let Some(real) = bindings.call(call) else { panic!("{kind:?}: {call:?}") };
                let reply = model.run(real);
                if reply.result.is_ok() {
                    done += 1
                } else {
                    failed += 1
                }
                bindings.learn(call, &reply.result);
            }
            assert!(done > failed, "{kind:?}: {done} succeed, {failed} fail");
            assert!(failed > 0 || kind == Kind::FullDisk, "{kind:?}: none fails");
        }
    }

    #[test]
    fn calls_without_their_origin_are_skipped() {
        let script = Script::random(Kind::Mixed, 3, 200, Shape::default());
        let bindings = Bindings::default();
        let alone = |call: &&Call| bindings.call(call).is_none();
        assert!(script.calls.iter().filter(alone).count() > 100);
    }
}
