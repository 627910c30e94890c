//! Recipes against the programs themselves, where they are installed.

use super::*;
use std::fs::File;

fn image(size: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(size).expect("a sparse file");
    file
}

#[test]
fn names_are_read_back_and_others_refused() {
    for fs in FileSystem::ALL {
        assert_eq!(fs.to_string().parse(), Ok(fs));
    }
    let refused = "zfs".parse::<FileSystem>().expect_err("unknown");
    let known =
        "unknown file system `zfs`; known are ext4, xfs, btrfs, f2fs, raw and seekless:ffs:";
    assert!(refused.starts_with(known), "{refused}");
}

#[test]
fn a_size_that_does_not_fit_is_refused_with_one_that_does() {
    let small = FileSystem::Xfs.fits(256 * MIB).expect_err("too small").to_string();
    assert_eq!(small, "a disk of 268435456 bytes is too small for xfs; give --size 300M or more");
    let uneven = FileSystem::Raw.fits(5000).expect_err("uneven").to_string();
    assert_eq!(uneven, "a disk of 5000 bytes is not a multiple of 4096; give --size 8192");
    let made = FileSystem::Ext4.make(image(MIB).path());
    assert!(matches!(made, Err(MakeError::TooSmall { .. })), "{made:?}");
}

#[test]
fn the_smallest_disk_is_large_enough_for_each_program() {
    for fs in FileSystem::ALL {
        if let Some(missing) = fs.programs().iter().find(|program| program.find().is_none()) {
            eprintln!("skipped: no {} here", missing.name);
            continue;
        }
        let image = image(fs.smallest());
        fs.make(image.path()).unwrap_or_else(|error| panic!("{fs}: {error}"));
        let magic = read_magic(fs, image.as_file());
        assert_eq!(magic.is_some(), fs != FileSystem::Raw, "{fs}");
    }
}

#[test]
fn ext4_has_a_journal_and_large_blocks_on_the_smallest_disk() {
    let fs = FileSystem::Ext4;
    if fs.programs()[0].find().is_none() {
        return eprintln!("skipped: no mkfs.ext4 here");
    }
    let image = image(fs.smallest());
    fs.make(image.path()).expect("made");
    let at = |offset: u64| u32::from_le_bytes(bytes(image.as_file(), 1024 + offset));
    assert_eq!(at(24), 2, "blocks of 1024 << 2 bytes");
    assert_eq!(at(92) & 4, 4, "has_journal");
}

#[test]
fn a_program_that_fails_is_quoted() {
    let fs = FileSystem::Ext4;
    if fs.programs()[0].find().is_none() {
        return eprintln!("skipped: no mkfs.ext4 here");
    }
    // A directory has a size that fits nothing, a missing file has none.
    let missing = fs.make(Path::new("/nowhere/at/all")).expect_err("no such file").to_string();
    assert!(missing.starts_with("/nowhere/at/all: No such file"), "{missing}");
}

fn bytes<const N: usize>(file: &File, offset: u64) -> [u8; N] {
    let mut bytes = [0; N];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, offset).expect("read");
    bytes
}

/// The magic number of the superblock, if it is there.
fn read_magic(fs: FileSystem, file: &File) -> Option<()> {
    let found = match fs {
        FileSystem::Ext4 => bytes(file, 1024 + 56) == [0x53, 0xef],
        FileSystem::Xfs => bytes(file, 0) == *b"XFSB",
        FileSystem::Btrfs => bytes(file, (64 << 10) + 64) == *b"_BHRfS_M",
        FileSystem::F2fs => bytes(file, 1024) == [0x10, 0x20, 0xf5, 0xf2],
        FileSystem::Raw | FileSystem::Own(..) => false,
    };
    found.then_some(())
}

#[test]
fn our_own_file_systems_are_named_with_their_policy() {
    let all = OwnPolicy::of(Kind::default());
    let names: Vec<String> = all.iter().map(OwnPolicy::to_string).collect();
    let with_log = ["lffs-file", "wafs-1sync", "wafs-1async"];
    let with_log = with_log.map(|name| [name.to_owned(), format!("{name}-writeback")]).concat();
    assert_eq!(names, [["async", "sync", "soft"].map(str::to_owned).to_vec(), with_log].concat());
    for policy in all {
        let fs = FileSystem::Own(Kind::default(), policy);
        let name = format!("seekless:ffs:{policy}");
        assert_eq!(fs.to_string(), name);
        assert_eq!(name.parse(), Ok(fs));
        assert_eq!(name.parse(), Ok(Choice::One(fs)));
        assert_eq!(fs.for_checks(), fs.for_workload());
        assert_eq!(fs.fits(4 * MIB).map_err(|error| error.to_string()), Ok(()));
    }
    assert_eq!("seekless:ffs:all".parse(), Ok(Choice::EveryPolicy(Kind::default())));
    assert_eq!("xfs".parse(), Ok(Choice::One(FileSystem::Xfs)));
    for name in [
        "seekless:ffs:never",
        "seekless:ffs:wafs-2async",
        "seekless:ffs:async-writeback",
        "seekless:ffs",
        "seekless",
        "",
    ] {
        let error = name.parse::<Choice>().expect_err("it is none");
        assert!(error.contains("raw and seekless:ffs:async"), "{error}");
    }
}

#[test]
fn our_own_file_system_is_made_in_an_image() {
    for policy in OwnPolicy::of(Kind::default()) {
        let file = image(4 * MIB);
        let fs = FileSystem::Own(Kind::default(), policy);
        fs.make(file.path()).expect("a file system");
        assert_eq!(bytes(file.as_file(), 65_536), *b"SEEKFFS\n");
    }
}

/// The image of a test of every policy takes each of them.
#[test]
fn an_image_for_every_policy_is_mounted_with_each() {
    let choice = Choice::EveryPolicy(Kind::default());
    for policy in OwnPolicy::of(Kind::default()) {
        let file = image(4 * MIB);
        choice.to_make().make(file.path()).expect("a file system");
        let disk = own::run::image_of(file.path()).expect("an image");
        let mounted = own::recover::recover(disk.into(), policy).expect("a mount");
        assert_eq!(mounted.repaired, None, "{policy}");
    }
}
