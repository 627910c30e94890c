//! The same operations on `std::fs` and on the file system in memory: results, errors and what is
//! there afterwards must be the same.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use seekless_crashfs::{Disk, Model};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Open files that a run has at once.
const SLOTS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Open { path: String, flags: u8, slot: usize },
    CreateNew { path: String, slot: usize },
    Clone { from: usize, slot: usize },
    Read { slot: usize, count: usize },
    Write { slot: usize, fill: u8, count: usize },
    Seek { slot: usize, whence: u8, by: i64 },
    ReadAt { slot: usize, at: u64, count: usize },
    ReadExactAt { slot: usize, at: u64, count: usize },
    WriteAt { slot: usize, at: u64, fill: u8, count: usize },
    SetLen { slot: usize, size: u64 },
    Sync { slot: usize, data_only: bool },
    ReadToEnd { slot: usize },
    Length { slot: usize },
    WriteFile { path: String, fill: u8, count: usize },
    ReadFile { path: String },
    Rename { path: String, to: String },
    Link { path: String, to: String },
    Copy { path: String, to: String },
    RemoveFile { path: String },
    CreateDir { path: String },
    CreateDirAll { path: String },
    RemoveDir { path: String },
    RemoveDirAll { path: String },
    ReadDir { path: String },
    Metadata { path: String },
    Chmod { path: String, mode: u32 },
    Exists { path: String },
    Canonical { path: String },
}

/// What is at a path: kind, content, number of names and rights of the owner.
type Listing = BTreeMap<String, (bool, Vec<u8>, u64, u32)>;

/// One body for both file systems: that is what the names of `std::fs` are for.
macro_rules! actor {
    ($actor:ident, $fs:path, { $($unix:item)* }) => {
        mod $actor {
            use super::{Listing, Op, SLOTS};
            use $fs as fs;
            use std::io::{self, Read, Seek, SeekFrom, Write};
            use std::path::{Path, PathBuf};
            $($unix)*

            pub(super) struct Actor {
                pub(super) root: PathBuf,
                files: [Option<fs::File>; SLOTS],
            }

            impl Actor {
                pub(super) fn new(root: PathBuf) -> Actor {
                    fs::create_dir(&root).expect("the root is new");
                    Actor { root, files: Default::default() }
                }

                /// The result in words; of an error its kind.
                pub(super) fn step(&mut self, op: &Op) -> String {
                    match self.act(op) {
                        Ok(text) => text,
                        Err(error) => format!("{:?}", error.kind()),
                    }
                }

                fn file(&self, slot: usize) -> io::Result<&fs::File> {
                    self.files[slot].as_ref().ok_or_else(|| io::Error::other("no file"))
                }

                fn act(&mut self, op: &Op) -> io::Result<String> {
                    let at = |path: &String| self.root.join(path);
                    let done = |()| "done".to_owned();
                    match op {
                        Op::Open { path, flags, slot } => {
                            let is = |bit: u8| flags >> bit & 1 == 1;
                            let mut options = fs::File::options();
                            options.read(is(0)).write(is(1)).append(is(2)).truncate(is(3));
                            options.create(is(4)).create_new(is(5));
                            self.files[*slot] = Some(options.open(at(path))?);
                            Ok("open".into())
                        }
                        Op::CreateNew { path, slot } => {
                            self.files[*slot] = Some(fs::File::create_new(at(path))?);
                            Ok("new".into())
                        }
                        Op::Clone { from, slot } => {
                            self.files[*slot] = Some(self.file(*from)?.try_clone()?);
                            Ok("clone".into())
                        }
                        Op::Read { slot, count } => {
                            let mut bytes = vec![0; *count];
                            let count = self.file(*slot)?.read(&mut bytes)?;
                            Ok(format!("{:?}", &bytes[..count]))
                        }
                        Op::Write { slot, fill, count } => {
                            let count = self.file(*slot)?.write(&vec![*fill; *count])?;
                            Ok(count.to_string())
                        }
                        Op::Seek { slot, whence, by } => {
                            let to = match whence {
                                0 => SeekFrom::Start(by.unsigned_abs()),
                                1 => SeekFrom::Current(*by),
                                _ => SeekFrom::End(*by),
                            };
                            let mut file = self.file(*slot)?;
                            // The place in a directory is one of the real file system's own.
                            if file.metadata()?.is_dir() {
                                return Ok("directory".into());
                            }
                            file.seek(to).map(|at| at.to_string())
                        }
                        Op::ReadAt { slot, at, count } => {
                            let mut bytes = vec![0; *count];
                            let count = self.file(*slot)?.read_at(&mut bytes, *at)?;
                            Ok(format!("{:?}", &bytes[..count]))
                        }
                        Op::ReadExactAt { slot, at, count } => {
                            let mut bytes = vec![0; *count];
                            self.file(*slot)?.read_exact_at(&mut bytes, *at)?;
                            Ok(format!("{bytes:?}"))
                        }
                        Op::WriteAt { slot, at, fill, count } => {
                            self.file(*slot)?.write_all_at(&vec![*fill; *count], *at).map(done)
                        }
                        Op::SetLen { slot, size } => self.file(*slot)?.set_len(*size).map(done),
                        Op::Sync { slot, data_only: true } => {
                            self.file(*slot)?.sync_data().map(done)
                        }
                        Op::Sync { slot, .. } => self.file(*slot)?.sync_all().map(done),
                        Op::ReadToEnd { slot } => {
                            let mut bytes = Vec::new();
                            self.file(*slot)?.read_to_end(&mut bytes)?;
                            Ok(format!("{bytes:?}"))
                        }
                        Op::Length { slot } => {
                            let metadata = self.file(*slot)?.metadata()?;
                            let length = if metadata.is_dir() { 0 } else { metadata.len() };
                            Ok(length.to_string())
                        }
                        Op::WriteFile { path, fill, count } => {
                            fs::write(at(path), vec![*fill; *count]).map(done)
                        }
                        Op::ReadFile { path } => {
                            fs::read(at(path)).map(|bytes| format!("{bytes:?}"))
                        }
                        Op::Rename { path, to } => fs::rename(at(path), at(to)).map(done),
                        Op::Link { path, to } => fs::hard_link(at(path), at(to)).map(done),
                        Op::Copy { path, to } => {
                            fs::copy(at(path), at(to)).map(|count| count.to_string())
                        }
                        Op::RemoveFile { path } => fs::remove_file(at(path)).map(done),
                        Op::CreateDir { path } => fs::create_dir(at(path)).map(done),
                        Op::CreateDirAll { path } => fs::create_dir_all(at(path)).map(done),
                        Op::RemoveDir { path } => fs::remove_dir(at(path)).map(done),
                        Op::RemoveDirAll { path } => fs::remove_dir_all(at(path)).map(done),
                        Op::ReadDir { path } => {
                            let mut names = Vec::new();
                            for entry in fs::read_dir(at(path))? {
                                let entry = entry?;
                                let is_directory = entry.file_type()?.is_dir();
                                assert_eq!(entry.path(), at(path).join(entry.file_name()));
                                names.push((entry.file_name(), is_directory));
                            }
                            names.sort();
                            Ok(format!("{names:?}"))
                        }
                        Op::Metadata { path } => {
                            let metadata = fs::symlink_metadata(at(path))?;
                            Ok(format!("{} {}", metadata.is_file(), metadata.is_symlink()))
                        }
                        Op::Chmod { path, mode } => {
                            let permissions = fs::Permissions::from_mode(*mode);
                            fs::set_permissions(at(path), permissions).map(done)
                        }
                        Op::Exists { path } => fs::exists(at(path)).map(|is| is.to_string()),
                        Op::Canonical { path } => {
                            let path = fs::canonicalize(at(path))?;
                            let root = fs::canonicalize(&self.root)?;
                            let inside = path.strip_prefix(&root).map(Path::to_path_buf);
                            Ok(format!("{inside:?}"))
                        }
                    }
                }

                pub(super) fn listing(&self) -> io::Result<Listing> {
                    let mut listing = Listing::new();
                    let mut left = vec![self.root.clone()];
                    while let Some(directory) = left.pop() {
                        for entry in fs::read_dir(&directory)? {
                            let path = entry?.path();
                            let metadata = fs::metadata(&path)?;
                            let shown = path.strip_prefix(&self.root).map_err(io::Error::other)?;
                            let name = shown.to_string_lossy().into_owned();
                            let mode = metadata.mode() & 0o700;
                            let found = match metadata.is_dir() {
                                true => (true, Vec::new(), 0, mode),
                                false => (false, fs::read(&path)?, metadata.nlink(), mode),
                            };
                            listing.insert(name, found);
                            left.extend(metadata.is_dir().then_some(path));
                        }
                    }
                    Ok(listing)
                }
            }
        }
    };
}

actor!(real, std::fs, {
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
});
actor!(memory, seekless_crashfs::fs, {});

fn path() -> impl Strategy<Value = String> {
    let first = prop_oneof![4 => Just("a"), 4 => Just("b"), 1 => Just("c")];
    let next = prop_oneof![5 => Just("/a"), 5 => Just("/b"), 1 => Just("/."), 1 => Just("/..")];
    let up_once = |path: &String| path.matches("..").count() <= 1;
    (first, proptest::collection::vec(next, 0..3))
        .prop_map(|(first, next)| format!("{first}{}", next.concat()))
        .prop_filter("paths stay inside", up_once)
}

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS;
    let count = prop_oneof![0..8usize, 4000..5000usize];
    let place = prop_oneof![0..12u64, 4000..9000u64];
    let fill = any::<u8>();
    let of_files = prop_oneof![
        3 => (path(), any::<u8>(), slot.clone())
            .prop_map(|(path, flags, slot)| Op::Open { path, flags, slot }),
        // The flags of a file that is read and written.
        3 => (path(), slot.clone())
            .prop_map(|(path, slot)| Op::Open { path, flags: 0b01_0011, slot }),
        1 => (path(), slot.clone()).prop_map(|(path, slot)| Op::CreateNew { path, slot }),
        1 => (slot.clone(), slot.clone()).prop_map(|(from, slot)| Op::Clone { from, slot }),
        1 => (slot.clone(), count.clone()).prop_map(|(slot, count)| Op::Read { slot, count }),
        3 => (slot.clone(), fill, count.clone())
            .prop_map(|(slot, fill, count)| Op::Write { slot, fill, count }),
        2 => (slot.clone(), 0..3u8, -20..5000i64)
            .prop_map(|(slot, whence, by)| Op::Seek { slot, whence, by }),
        1 => (slot.clone(), place.clone(), count.clone())
            .prop_map(|(slot, at, count)| Op::ReadAt { slot, at, count }),
        1 => (slot.clone(), place.clone(), count.clone())
            .prop_map(|(slot, at, count)| Op::ReadExactAt { slot, at, count }),
        2 => (slot.clone(), place.clone(), fill, count.clone())
            .prop_map(|(slot, at, fill, count)| Op::WriteAt { slot, at, fill, count }),
        1 => (slot.clone(), place).prop_map(|(slot, size)| Op::SetLen { slot, size }),
        1 => (slot.clone(), any::<bool>())
            .prop_map(|(slot, data_only)| Op::Sync { slot, data_only }),
        1 => slot.clone().prop_map(|slot| Op::ReadToEnd { slot }),
        1 => slot.prop_map(|slot| Op::Length { slot }),
    ];
    let of_names = prop_oneof![
        3 => (path(), fill, count)
            .prop_map(|(path, fill, count)| Op::WriteFile { path, fill, count }),
        1 => path().prop_map(|path| Op::ReadFile { path }),
        4 => (path(), path()).prop_map(|(path, to)| Op::Rename { path, to }),
        2 => (path(), path()).prop_map(|(path, to)| Op::Link { path, to }),
        2 => (path(), path()).prop_map(|(path, to)| Op::Copy { path, to }),
        2 => path().prop_map(|path| Op::RemoveFile { path }),
        3 => path().prop_map(|path| Op::CreateDir { path }),
        2 => path().prop_map(|path| Op::CreateDirAll { path }),
        2 => path().prop_map(|path| Op::RemoveDir { path }),
        1 => path().prop_map(|path| Op::RemoveDirAll { path }),
        1 => path().prop_map(|path| Op::ReadDir { path }),
        1 => path().prop_map(|path| Op::Metadata { path }),
        // Rights of the owner stay, so that a user who is not root gets the same results.
        1 => (path(), 0..0o100u32)
            .prop_map(|(path, mode)| Op::Chmod { path, mode: 0o700 | mode }),
        1 => path().prop_map(|path| Op::Exists { path }),
        1 => path().prop_map(|path| Op::Canonical { path }),
    ];
    prop_oneof![1 => of_files, 1 => of_names]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn operations_do_what_those_of_std_do(ops in proptest::collection::vec(op(), 1..60)) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::<()>::new();
        let (memory, end) = disk.run(|_| both(&ops, directory.path().join("root")))?;
        // The record says the same: the first state of a check is the replayed end of the run.
        let mut replayed = None;
        let models = disk.crashes([Model::POSIX]).exhaustive(0).samples(1);
        let _ = models.check(|_| {
            replayed.get_or_insert_with(|| memory.listing());
            Ok(())
        });
        let replayed = replayed.expect("the root was made").expect("it is readable");
        prop_assert_eq!(replayed, end);
    }
}

/// Does operations on both file systems. Returns the one in memory and what is there at the end.
fn both(ops: &[Op], root: PathBuf) -> Result<(memory::Actor, Listing), TestCaseError> {
    let mut real = real::Actor::new(root);
    let mut memory = memory::Actor::new("/root".into());
    let mut end = Listing::new();
    for op in ops {
        let (wanted, found) = (real.step(op), memory.step(op));
        prop_assert_eq!(found, wanted, "{:?}", op);
        let wanted = real.listing().expect("the real directory is readable");
        end = memory.listing().expect("the one in memory is");
        prop_assert_eq!(&end, &wanted, "after {:?}", op);
    }
    Ok((memory, end))
}
