//! The formats there are.

use crate::error::FsError;
use crate::ffs;
use crate::kind::KindDescriptor;
use crate::minix;
use crate::vlfs;
use seekless_engine::disk::Disk;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::str::FromStr;

/// All formats, in the order in which they are listed to people.
static KINDS: [&KindDescriptor; 3] = [&ffs::KIND, &minix::KIND, &vlfs::KIND];

/// One of the formats. It has all that its [`KindDescriptor`] has.
#[derive(Clone, Copy)]
pub struct Kind(&'static KindDescriptor);

impl Kind {
    /// All formats, in the order in which they are listed to people.
    pub fn all() -> impl Iterator<Item = Kind> {
        KINDS.into_iter().map(Kind)
    }

    /// The formats that a volume can hold.
    pub fn possible_on(disk: &dyn Disk) -> impl Iterator<Item = Kind> + use<> {
        let has_objects = disk.patch_bytes() > 0;
        Kind::all().filter(move |kind| kind.needs_objects == has_objects)
    }

    /// Erases what other formats have left on a volume: one of them would be found there.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn erase_others(self, disk: &mut dyn Disk) -> Result<(), FsError> {
        for other in Kind::possible_on(disk).filter(|other| *other != self) {
            if (other.is_on)(disk)? {
                (other.erase)(disk)?;
            }
        }
        Ok(())
    }

    /// The format of the file system on a volume.
    ///
    /// # Errors
    /// [`FsError::Foreign`] if there is none; errors of the volume.
    pub fn of(disk: &mut dyn Disk) -> Result<Kind, FsError> {
        for kind in Kind::possible_on(disk) {
            if (kind.is_on)(disk)? {
                return Ok(kind);
            }
        }
        Err(FsError::Foreign)
    }
}

/// The first one: it is made unless another one is asked for.
impl Default for Kind {
    fn default() -> Kind {
        Kind(KINDS[0])
    }
}

impl Deref for Kind {
    type Target = KindDescriptor;

    fn deref(&self) -> &KindDescriptor {
        self.0
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown file system `{0}`: known are {known}", known = known())]
pub struct UnknownKind(String);

/// The names of all formats, for messages.
fn known() -> String {
    KINDS.map(|kind| kind.name).join(", ")
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Kind, UnknownKind> {
        let found = Kind::all().find(|kind| kind.name == name);
        found.ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MountOptions;
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_and_lead_back() {
        let names: BTreeSet<&str> = Kind::all().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
        assert!(Kind::all().all(|kind| kind.name.parse() == Ok(kind)));
        assert!(Kind::all().all(|kind| !kind.policies.is_empty()));
        let unknown = "btrfs".parse::<Kind>().expect_err("no such format");
        assert_eq!(
            unknown.to_string(),
            format!("unknown file system `btrfs`: known are {}", known())
        );
    }

    #[test]
    fn a_format_erases_the_others() {
        let rows = || Kind::all().filter(|kind| !kind.needs_objects);
        for kind in rows() {
            for other in rows().filter(|other| *other != kind) {
                let mut cells = Cells::new(2048);
                let disk = &mut MediumDisk(&mut cells);
                (other.mkfs)(disk, &(other.defaults)()).expect("8 MiB are enough");
                kind.erase_others(disk).expect("memory");
                assert_eq!(Kind::of(disk), Err(FsError::Foreign), "{other} is gone");
                (kind.mkfs)(disk, &(kind.defaults)()).expect("8 MiB are enough");
                assert_eq!(Kind::of(disk), Ok(kind));
            }
        }
    }

    #[test]
    fn each_format_knows_its_own_volumes_and_no_other() {
        for kind in Kind::all().filter(|kind| !kind.needs_objects) {
            let mut cells = Cells::new(1024);
            let disk = &mut MediumDisk(&mut cells);
            assert_eq!(Kind::of(disk), Err(FsError::Foreign));
            (kind.mkfs)(disk, &(kind.defaults)()).expect("4 MiB are enough");
            assert_eq!(Kind::of(disk), Ok(kind));
            assert!((kind.check)(disk).expect("it was made").is_clean());
            let fs = (kind.mount)(disk, &MountOptions::default()).expect("it is clean");
            assert!(fs.damage().is_none() && !fs.may_leak() && !fs.reclaims());
        }
    }
}
