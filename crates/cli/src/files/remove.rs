//! Removes files and trees.

use super::path::join;
use super::{Files, Outcome, ToolError, error::shown};
use seekless_fs::call::{Errno, FileKind, Ino, Request};
use seekless_fs::system::Runs;

impl<R: Runs> Files<R> {
    /// Removes what a path names; a directory with everything in it if that is asked for.
    ///
    /// # Errors
    /// If there is no such name, or it is a directory without `recursive`.
    pub fn remove(&mut self, path: &[u8], recursive: bool) -> Outcome<()> {
        let mark = self.mark();
        let (dir, name) = self.place(path)?;
        let outcome = match self.lookup(path, dir, name)? {
            None => Err(ToolError::of(path, Errno::NoEnt)),
            Some(attr) if attr.kind != FileKind::Directory => self.unlink(path, dir, name),
            Some(_) if !recursive => Err(ToolError::Recursive(shown(path))),
            Some(_) => self.remove_tree(path.to_vec(), dir, name),
        };
        self.forget_to(mark);
        outcome
    }

    fn unlink(&mut self, path: &[u8], dir: Ino, name: &[u8]) -> Outcome<()> {
        self.call(path, Request::Unlink { dir, name: name.to_vec().into() }).map(drop)
    }

    /// Removes a directory and all below it. Its own stack bounds nothing but memory, so that deep
    /// trees go, too.
    fn remove_tree(&mut self, path: Vec<u8>, dir: Ino, name: &[u8]) -> Outcome<()> {
        // Each with the path, the directory above, its name, and whether its content is gone.
        let mut stack = vec![(path, dir, name.to_vec(), false)];
        while let Some((path, above, name, emptied)) = stack.pop() {
            if emptied {
                self.call(&path, Request::RmDir { dir: above, name: name.into() })?;
                continue;
            }
            // The lookup stays until the end: directories below are named by its number.
            let Some(attr) = self.lookup(&path, above, &name)? else { continue };
            if attr.kind != FileKind::Directory {
                self.unlink(&path, above, &name)?;
                let mark = self.mark() - 1;
                self.forget_to(mark);
                continue;
            }
            let names = self.names(&path, attr.ino)?;
            stack.push((path.clone(), above, name, true));
            for name in names {
                stack.push((join(&path, &name), attr.ino, name, false));
            }
        }
        Ok(())
    }
}
