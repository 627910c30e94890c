//! Reads the tree from the bytes of an image, without mounting it.
//!
//! It has a reader of its own for each format: an operation of the file system that reads wrongly
//! what another one wrote wrongly is found by comparing the two. A reader takes addresses that a
//! check has accepted, and skips others.

mod ffs;
mod minix;
mod vlfs;

pub(crate) use vlfs::objects;

use super::contract::damage::Damages;
use super::tree::{Body, Found, Shared, Tree};
use crate::memo::contents::Words;
use crate::memo::{Content, Contents, Transcripts};
use seekless_engine::checksum::xxh3_64;
use seekless_engine::disk::Disk;
use seekless_formats::{FsError, Kind};
use seekless_fs::call::ROOT;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Objects that are read at most: an image of the prover has fewer inodes.
const MOST_OBJECTS: usize = 1 << 16;

/// The sizes of a file system, by its format.
#[derive(Clone, Debug, PartialEq)]
enum Sizes {
    Ffs(Rc<seekless_formats::ffs::Geometry>),
    Minix(seekless_formats::minix::Geometry),
}

impl Sizes {
    fn load(kind: Kind, disk: &mut dyn Disk) -> Result<Sizes, FsError> {
        match kind.name {
            "minix" => seekless_formats::minix::load(disk).map(Sizes::Minix),
            _ => {
                let geometry = seekless_formats::ffs::load(disk)?.superblock.geometry()?;
                Ok(Sizes::Ffs(Rc::new(geometry)))
            }
        }
    }

    /// The bytes of an inode that is in use.
    fn inode(&self, ino: u32, contents: &Contents, image: &[Content]) -> Option<Vec<u8>> {
        match self {
            Sizes::Ffs(geometry) => ffs::inode(geometry, ino, contents, image),
            Sizes::Minix(geometry) => minix::inode(geometry, ino, contents, image),
        }
    }

    fn object(&self, disk: &mut dyn Disk, inode: &[u8]) -> Result<Option<Found>, FsError> {
        match self {
            Sizes::Ffs(geometry) => ffs::object(disk, geometry, inode),
            Sizes::Minix(geometry) => minix::object(disk, *geometry, inode),
        }
    }
}

/// Bytes of one block of an image.
fn inode_at(
    contents: &Contents,
    image: &[Content],
    block: u64,
    at: usize,
    length: usize,
) -> Vec<u8> {
    contents.bytes(image[block as usize])[at..at + length].to_vec()
}

/// What is remembered of trees that were read: objects by their inodes. An object with the same
/// inode is the same if its blocks hold the same.
#[derive(Debug, Default)]
pub struct Trees {
    geometries: Transcripts<Option<Result<Sizes, FsError>>>,
    /// That of all objects here.
    sizes: Option<Sizes>,
    objects: Words<u64, Vec<Known>>,
    /// Trees on drives of objects.
    drives: Transcripts<Option<Result<Tree, FsError>>>,
}

#[derive(Debug)]
struct Known {
    ino: u32,
    inode: Vec<u8>,
    objects: Transcripts<Option<Result<Option<Shared>, FsError>>>,
}

impl Trees {
    /// Reads everything that names lead to.
    ///
    /// # Errors
    /// No superblock.
    pub fn read(
        &mut self,
        kind: Kind,
        contents: &mut Contents,
        image: &mut [Content],
    ) -> Result<Tree, FsError> {
        if kind.needs_objects {
            return self.drives.play(contents, image, vlfs::tree);
        }
        let sizes = self.geometries.play(contents, image, |disk| Sizes::load(kind, disk))?;
        if self.sizes.as_ref().is_none_or(|known| *known != sizes) {
            self.objects.clear();
            self.sizes = Some(sizes.clone());
        }
        let mut objects = BTreeMap::new();
        let mut todo = vec![ROOT as u32];
        while let Some(ino) = todo.pop() {
            if objects.contains_key(&ino) || objects.len() >= MOST_OBJECTS {
                continue;
            }
            let found = self.object(&sizes, ino, contents, image)?;
            let Some(found) = found else { continue };
            if let Body::Directory(names, _) = &found.body {
                todo.extend(names.values());
            }
            objects.insert(ino, found);
        }
        Ok(Tree { objects, damages: Damages::NONE })
    }

    fn object(
        &mut self,
        sizes: &Sizes,
        ino: u32,
        contents: &mut Contents,
        image: &mut [Content],
    ) -> Result<Option<Shared>, FsError> {
        let Some(inode) = sizes.inode(ino, contents, image) else { return Ok(None) };
        let same_hash = self.objects.entry(xxh3_64(&inode) ^ u64::from(ino)).or_default();
        let is_it = |known: &Known| known.ino == ino && known.inode == inode;
        let at = same_hash.iter().position(is_it).unwrap_or_else(|| {
            let inode = inode.clone();
            same_hash.push(Known { ino, inode, objects: Transcripts::default() });
            same_hash.len() - 1
        });
        same_hash[at]
            .objects
            .play(contents, image, |disk| Ok(sizes.object(disk, &inode)?.map(Shared::from)))
    }
}
