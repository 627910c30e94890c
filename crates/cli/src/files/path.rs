//! From a path to an object: names, `.`, `..` and symbolic links.

use super::{Files, Outcome, ToolError, error::shown};
use seekless_fs::call::{Attr, Errno, FileKind, Ino};
use seekless_fs::system::Runs;

/// Symbolic links that one path may follow, as on Linux.
const MOST_LINKS: u32 = 40;

/// Joins a path and a name.
pub fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") || path.is_empty() { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// The last name of a path; `None` if it has none that could be made.
pub fn last_name(path: &[u8]) -> Option<&[u8]> {
    let name = names(path).last()?;
    (name != b".." && name != b".").then_some(name)
}

fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

impl<R: Runs> Files<R> {
    /// The object at a path, from the root on. Its last link is followed on demand.
    ///
    /// # Errors
    /// If it does not exist, or links lead in a circle.
    pub fn resolve(&mut self, path: &[u8], follow: bool) -> Outcome<Attr> {
        match self.try_resolve(path, follow)? {
            Some(attr) => Ok(attr),
            None => Err(ToolError::of(path, Errno::NoEnt)),
        }
    }

    /// The same; `None` if the last name does not exist.
    ///
    /// # Errors
    /// If a directory on the path does not exist, or links lead in a circle.
    pub fn try_resolve(&mut self, path: &[u8], follow: bool) -> Outcome<Option<Attr>> {
        let mut trail = vec![self.root()?];
        let mut rest: Vec<Vec<u8>> = names(path).rev().map(<[u8]>::to_vec).collect();
        let mut links = 0;
        while let Some(name) = rest.pop() {
            let here = trail.last().copied().expect("the trail begins with the root");
            if here.kind != FileKind::Directory {
                return Err(ToolError::of(path, Errno::NotDir));
            }
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    trail.truncate(1.max(trail.len() - 1));
                    continue;
                }
                _ => {}
            }
            let Some(found) = self.lookup(path, here.ino, &name)? else {
                let missing = rest.is_empty();
                return if missing { Ok(None) } else { Err(ToolError::of(path, Errno::NoEnt)) };
            };
            if found.kind != FileKind::Symlink || (rest.is_empty() && !follow) {
                trail.push(found);
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(ToolError::Circle(shown(path)));
            }
            let text = self.read_link(path, found.ino)?;
            if text.starts_with(b"/") {
                trail.truncate(1);
            }
            rest.extend(names(&text).rev().map(<[u8]>::to_vec));
        }
        Ok(trail.pop())
    }

    /// The directory of a path that must exist, and the last name.
    ///
    /// # Errors
    /// If the directory does not exist or the path has no last name.
    pub fn place<'p>(&mut self, path: &'p [u8]) -> Outcome<(Ino, &'p [u8])> {
        let name = last_name(path).ok_or_else(|| ToolError::NoName(shown(path)))?;
        let end = path.len() - path.iter().rev().take_while(|byte| **byte == b'/').count();
        let dir = self.resolve(&path[..end - name.len()], true)?;
        if dir.kind != FileKind::Directory {
            return Err(ToolError::of(path, Errno::NotDir));
        }
        Ok((dir.ino, name))
    }

    /// The directory of a path and the last name; directories on the way are made.
    ///
    /// # Errors
    /// If something else is in the way, or the path has no last name.
    pub fn make_place<'p>(&mut self, path: &'p [u8]) -> Outcome<(Ino, &'p [u8])> {
        let name = last_name(path).ok_or_else(|| ToolError::NoName(shown(path)))?;
        let mut all: Vec<&[u8]> = names(path).collect();
        all.pop();
        let (mut dir, mut so_far) = (self.root()?, b"/".to_vec());
        for name in all {
            so_far = join(&so_far, name);
            dir = match self.try_resolve(&so_far, true)? {
                Some(found) if found.kind == FileKind::Directory => found,
                Some(_) => return Err(ToolError::of(&so_far, Errno::NotDir)),
                None => self.directory(&so_far, (dir.ino, name))?,
            };
        }
        Ok((dir.ino, name))
    }
}
