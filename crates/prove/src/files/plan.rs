//! What a request does if it succeeds, and whether it must.
//!
//! The rules are those of POSIX for a client with all rights. Requests of a script that was made
//! smaller often name what is not there; then the file system must refuse them.

use super::contract::operation::Operation;
use super::names::Path;
use super::request::FileRequest as R;
use super::tags::{Cell, Tag};
use super::tree::Attrs;
use super::world::{Below, Effect, Object, Record, World};
use seekless_fs::call::FileKind;

/// Permissions of a new file.
pub const FILE_MODE: u16 = 0o644;
/// Permissions of a new directory.
pub const DIRECTORY_MODE: u16 = 0o755;

const SECTOR: u64 = 512;
/// Sectors of the largest block of a file system.
const BLOCK: u64 = 8192;

/// The request must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl World {
    /// Plans a request as a new change.
    ///
    /// # Errors
    /// [`Refused`] if a file system must not carry it out.
    pub fn plan(&mut self, request: R) -> Result<Vec<Effect>, Refused> {
        self.change += 1;
        let plan = match request {
            R::Create(path) => self.make(path, FileKind::File, 0),
            R::Mkdir(path) => self.make(path, FileKind::Directory, 0),
            R::Symlink(path, text) => self.make(path, FileKind::Symlink, text),
            R::Fifo(path) => self.make(path, FileKind::Fifo, 0),
            R::Link(from, to) => self.link(from, to),
            R::Unlink(path) => self.remove(path, false),
            R::Rmdir(path) => self.remove(path, true),
            R::Rename(from, to) => self.rename(from, to),
            R::Exchange(one, other) => self.exchange(one, other),
            R::Write(path, at, count) => self.file(path).map(|file| self.write(file, at, count)),
            R::Append(path, count) => self.file(path).map(|file| {
                let end = self.record(file).size.last().div_ceil(SECTOR) as u32;
                self.write(file, end, count)
            }),
            R::Truncate(path, size) => self.file(path).map(|file| self.truncate(file, size.into())),
            R::Allocate(path, at, count) => self.file(path).map(|file| {
                let end = u64::from(at + count) * SECTOR;
                let mut effects = vec![Effect::Touched(file)];
                if end > *self.record(file).size.last() {
                    effects.extend(self.grow(file, end));
                }
                effects
            }),
            R::Punch(path, at, count) => self.file(path).map(|file| self.punch(file, at, count)),
            R::Chmod(path, mode) => self.set(path, |attrs| attrs.mode = mode),
            R::Chown(path, uid) => self.set(path, |attrs| attrs.uid = uid),
            R::Hold(path, number) => {
                self.resolve(&path).map(|object| vec![Effect::Held(number, Some(object))])
            }
            R::Release(number) => {
                self.resolve(&Path::Held(number)).map(|_| vec![Effect::Held(number, None)])
            }
            R::Fsync(_) | R::Fdatasync(_) | R::Sync => Some(Vec::new()),
        };
        let plan = plan.ok_or(Refused)?;
        if let Some(operation) = Operation::of(&request, &plan) {
            self.done.insert(operation);
        }
        Ok(plan)
    }

    fn file(&self, path: Path) -> Option<Object> {
        self.resolve(&path).filter(|&object| self.record(object).kind == FileKind::File)
    }

    fn make(&mut self, path: Path, kind: FileKind, text: u16) -> Option<Vec<Effect>> {
        let (dir, name) = self.place(&path)?;
        if self.entry(dir, name).is_some() {
            return None;
        }
        let object = self.objects.len() as Object;
        let mode = if kind == FileKind::Directory { DIRECTORY_MODE } else { FILE_MODE };
        let size = match kind {
            FileKind::Symlink => super::tree::text(text).len() as u64,
            _ => 0,
        };
        let mut record = Record::new(self.change, kind, Attrs { mode, uid: 0 }, size);
        record.text = Some(text);
        self.objects.push(record);
        Some(vec![
            Effect::Made(object),
            Effect::Entry(dir, name, Some(object)),
            Effect::Linked(object, dir, name),
        ])
    }

    fn link(&self, from: Path, to: Path) -> Option<Vec<Effect>> {
        let object = self.resolve(&from)?;
        let (dir, name) = self.place(&to)?;
        let is_directory = self.record(object).kind == FileKind::Directory;
        let nameless = self.links_of(object).is_empty();
        if self.entry(dir, name).is_some() || is_directory || nameless {
            return None;
        }
        Some(vec![Effect::Entry(dir, name, Some(object)), Effect::Linked(object, dir, name)])
    }

    fn remove(&self, path: Path, directory: bool) -> Option<Vec<Effect>> {
        let (dir, name) = self.place(&path)?;
        let object = self.entry(dir, name)?;
        let is_directory = self.record(object).kind == FileKind::Directory;
        if is_directory != directory || self.names(object).next().is_some() {
            return None;
        }
        let link = self.link_at(dir, name)?;
        Some(vec![Effect::Entry(dir, name, None), Effect::Ended(link)])
    }

    fn rename(&self, from: Path, to: Path) -> Option<Vec<Effect>> {
        let (dir, name) = self.place(&from)?;
        let (to_dir, to_name) = self.place(&to)?;
        let object = self.entry(dir, name)?;
        let link = self.link_at(dir, name)?;
        let is_directory = self.record(object).kind == FileKind::Directory;
        if is_directory && self.is_below(to_dir, object) == Below::Yes {
            return None;
        }
        let mut effects = Vec::new();
        if let Some(target) = self.entry(to_dir, to_name) {
            if target == object {
                return Some(Vec::new());
            }
            let over_directory = self.record(target).kind == FileKind::Directory;
            if over_directory != is_directory || self.names(target).next().is_some() {
                return None;
            }
            effects.push(Effect::Ended(self.link_at(to_dir, to_name)?));
        }
        effects.push(Effect::Entry(to_dir, to_name, Some(object)));
        effects.push(Effect::Entry(dir, name, None));
        effects.push(Effect::Moved(link, to_dir, to_name));
        Some(effects)
    }

    /// True if a rename may be refused because it may lead a directory into itself.
    pub fn may_be_refused(&self, request: R) -> bool {
        let R::Rename(from, to) = request else { return false };
        let object = self.place(&from).and_then(|(dir, name)| self.entry(dir, name));
        let (Some(object), Some((to_dir, _))) = (object, self.place(&to)) else { return false };
        self.is_below(to_dir, object) == Below::Perhaps
    }

    fn exchange(&self, one: Path, other: Path) -> Option<Vec<Effect>> {
        let (dir, name) = self.place(&one)?;
        let (to_dir, to_name) = self.place(&other)?;
        let (object, target) = (self.entry(dir, name)?, self.entry(to_dir, to_name)?);
        let (link, other) = (self.link_at(dir, name)?, self.link_at(to_dir, to_name)?);
        if object == target {
            return Some(Vec::new());
        }
        let is_directory = |object| self.record(object).kind == FileKind::Directory;
        if is_directory(object) && self.is_below(to_dir, object) != Below::No
            || is_directory(target) && self.is_below(dir, target) != Below::No
        {
            return None;
        }
        Some(vec![
            Effect::Entry(to_dir, to_name, Some(object)),
            Effect::Entry(dir, name, Some(target)),
            Effect::Moved(link, to_dir, to_name),
            Effect::Moved(other, dir, name),
        ])
    }

    /// Writes sectors with the tag of this change.
    fn write(&self, file: Object, at: u32, count: u32) -> Vec<Effect> {
        let end = u64::from(at + count) * SECTOR;
        let version = self.change;
        let cell = |sector| {
            let tag = Tag { object: file, sector, version };
            Effect::Cell(file, sector, Cell::tagged(tag, SECTOR as u16))
        };
        let mut effects = Vec::new();
        if count > 0 && end > *self.record(file).size.last() {
            effects = self.grow(file, u64::from(at) * SECTOR);
            effects.retain(|effect| !matches!(effect, Effect::Size(..)));
        }
        effects.extend((at..at + count).map(cell));
        if count > 0 && end > *self.record(file).size.last() {
            effects.push(Effect::Size(file, end));
        }
        effects
    }

    /// A file gets a larger size: what lies between reads as zeros.
    fn grow(&self, file: Object, size: u64) -> Vec<Effect> {
        let record = self.record(file);
        let from = record.size.last().div_ceil(SECTOR) as u32;
        let until = (size.div_ceil(SECTOR) as u32).max(from);
        let gone = record.cells.range(from..until).filter(|(_, cell)| *cell.last() != Cell::Zeros);
        let mut effects: Vec<Effect> =
            gone.map(|(&sector, _)| Effect::Cell(file, sector, Cell::Zeros)).collect();
        effects.push(Effect::Size(file, size));
        effects
    }

    fn truncate(&self, file: Object, size: u64) -> Vec<Effect> {
        let record = self.record(file);
        if size >= *record.size.last() {
            let same = size == *record.size.last();
            return if same { vec![Effect::Touched(file)] } else { self.grow(file, size) };
        }
        let mut effects = Vec::new();
        for (&sector, cell) in record.cells.range((size / SECTOR) as u32..) {
            let start = u64::from(sector) * SECTOR;
            let new = if start < size {
                cell.last().cut((size - start) as u16)
            } else if start < size.next_multiple_of(BLOCK) {
                // The rest of the last block is made zeros, which may be there before the size is.
                Cell::Zeros
            } else {
                Cell::Absent
            };
            if new != *cell.last() {
                effects.push(Effect::Cell(file, sector, new));
            }
        }
        effects.push(Effect::Size(file, size));
        effects
    }

    fn punch(&self, file: Object, at: u32, count: u32) -> Vec<Effect> {
        let record = self.record(file);
        let end = record.size.last().div_ceil(SECTOR) as u32;
        let until = (at + count).min(end).max(at);
        let written = record.cells.range(at..until).filter(|(_, cell)| *cell.last() != Cell::Zeros);
        let zeros = written.map(|(&sector, _)| Effect::Cell(file, sector, Cell::Zeros));
        zeros.chain([Effect::Touched(file)]).collect()
    }

    fn set(&self, path: Path, change: impl FnOnce(&mut Attrs)) -> Option<Vec<Effect>> {
        let object = self.resolve(&path)?;
        let mut attrs = *self.record(object).attrs.last();
        change(&mut attrs);
        Some(vec![Effect::Attrs(object, attrs)])
    }
}
