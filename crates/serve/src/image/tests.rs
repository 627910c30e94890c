use super::*;
use seekless_arrays::Level;
use seekless_engine::layout::MountOptions;
use seekless_engine::options::Options;
use seekless_layouts::Kind;
use seekless_layouts::shared::SEGMENT;
use std::fs;

fn options(blocks: u64) -> CreateOptions {
    CreateOptions {
        kind: Kind::INPLACE,
        blocks: Some(blocks),
        force: false,
        headers: false,
        options: Default::default(),
    }
}

#[test]
fn a_new_image_is_sparse_and_mounts() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    let mut image = create(&path, &options(1 << 20)).expect("creates");
    assert_eq!(image.blocks(), Kind::INPLACE.device_blocks(1 << 20));
    let (layer, superblock, _) =
        seekless_layouts::mount(&mut image, &MountOptions::default()).expect("mounts");
    assert_eq!((layer.blocks(), superblock.blocks), (1 << 20, 1 << 20));
    use std::os::unix::fs::MetadataExt;
    assert!(fs::metadata(&path).expect("is there").blocks() < 10_000, "not sparse");
    // Between the first and the last block a scan finds nothing to read.
    assert!(image.next_data(1).expect("the last block") > 1 << 19);
}

#[test]
fn two_volumes_never_share_an_identity() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let mut image = create(&dir.path().join(name), &options(10)).expect("creates");
        let found = seekless_layouts::mount(&mut image, &MountOptions::default()).expect("mounts");
        ids.push(found.1.id);
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn what_exists_is_only_replaced_by_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    fs::write(&path, b"precious").expect("writes");
    let error = create(&path, &options(10)).expect_err("refuses");
    assert!(matches!(error, ImageError::Exists(_)), "{error}");
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fs::read(&path).expect("still there"), b"precious");
    let forced = CreateOptions { force: true, ..options(10) };
    drop(create(&path, &forced).expect("replaces"));
    assert!(matches!(create(dir.path(), &forced), Err(ImageError::NotBlocks(_))));
}

#[test]
fn a_failed_create_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    for blocks in [None, Some(0), Some(u64::MAX)] {
        let bad = CreateOptions { blocks, ..options(1) };
        assert!(matches!(create(&path, &bad), Err(ImageError::BadSize { .. })), "{blocks:?}");
        assert!(!path.exists());
    }
    let nowhere = dir.path().join("no/such/directory.img");
    assert!(matches!(create(&nowhere, &options(1)), Err(ImageError::Os { .. })));
}

#[test]
fn what_cannot_be_made_replaces_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk.img");
    drop(create(&path, &options(10)).expect("creates"));
    let before = std::fs::read(&path).expect("read");
    let again = |kind, blocks, segment| {
        let chosen = Options::default().with(&SEGMENT, segment);
        let like = CreateOptions { kind, options: chosen, force: true, ..options(blocks) };
        create(&path, &like).expect_err("it cannot be made").to_string()
    };
    let error = again(Kind::LFS, 10 << 28, None);
    assert!(error.contains("limited to devices of 4092 GiB"), "{error}");
    let error = again(Kind::VLOG, 10 << 28, None);
    assert!(error.contains("limited to devices of 8 TiB"), "{error}");
    again(Kind::LFS, 1000, Some(7));
    assert!(std::fs::read(&path).expect("read") == before, "what was there is gone");
}

#[test]
fn an_array_that_cannot_be_made_replaces_nothing_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = ["a", "b", "c"].map(|name| dir.path().join(name));
    let array = |level, chunk, kind, blocks, force| {
        let options = Default::default();
        let blocks = Some(blocks);
        array::CreateArrayOptions { level, chunk, kind, blocks, force, options }
    };
    let make = |options: &array::CreateArrayOptions| array::create_array(&paths, options);
    fs::write(&paths[2], b"precious").expect("writes");
    let error = make(&array(Level::Raid5, 16, Kind::INPLACE, 4096, false)).expect_err("refuses");
    assert!(matches!(error, ImageError::Exists(_)), "{error}");
    assert!(!paths[0].exists() && !paths[1].exists(), "new members are left behind");
    // Errors that only the layout can find.
    let error = make(&array(Level::Raid0, 16, Kind::LFS, 10 << 28, true)).expect_err("refuses");
    assert!(error.to_string().contains("limited to devices of 4092 GiB"), "{error}");
    assert!(!paths[0].exists() && !paths[1].exists(), "new members are left behind");
    assert_eq!(fs::read(&paths[2]).expect("still there"), b"precious");
    drop(make(&array(Level::Raid5, 16, Kind::LFS, 4096, true)).expect("it is made"));
    let mut members = array::open_members(&paths, false, false).expect("opens");
    let mut found = members.assemble(&Default::default()).expect("assembles");
    let mounted =
        |disk: &mut dyn Disk| seekless_layouts::mount(disk, &MountOptions::default()).map(|_| ());
    members.with_disk(&mut found, mounted).expect("mounts");
}

#[test]
fn a_log_that_cannot_be_attached_leaves_no_new_origin_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let (origin, log) = (dir.path().join("origin"), dir.path().join("log"));
    let options = AttachOptions {
        blocks: Some(4096),
        log_blocks: None,
        options: Default::default(),
        force: false,
    };
    fs::write(&log, vec![1; 4 << 20]).expect("writes");
    let error = attach(&origin, &log, &options).expect_err("refuses");
    assert!(matches!(error, ImageError::Occupied { .. }), "{error}");
    let sized = AttachOptions { log_blocks: Some(2048), force: true, ..options.clone() };
    let error = attach(&origin, &log, &sized).expect_err("refuses");
    assert!(error.to_string().contains("with 1024 blocks"), "{error}");
    assert!(!origin.exists(), "a new origin is left behind");
    assert_eq!(fs::read(&log).expect("still there"), vec![1; 4 << 20]);
    attach(&origin, &log, &AttachOptions { force: true, ..options }).expect("attaches");
    assert_eq!(fs::metadata(&origin).expect("it is there").len(), 4096 * BLOCK_BYTES as u64);
}

#[test]
fn writers_exclude_all_and_readers_only_writers() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    let writer = create(&path, &options(10)).expect("creates");
    for read_only in [false, true] {
        let error = open(&path, read_only).expect_err("is locked");
        // This process holds it.
        assert!(matches!(&error, ImageError::Twice(_)), "{error}");
        assert!(error.to_string().contains("is given twice"), "{error}");
    }
    // A handle keeps the lock beyond the image it came from.
    let handle = writer.handle().expect("a handle");
    drop(writer);
    assert!(matches!(open(&path, true), Err(ImageError::Twice(_))));
    drop(handle);
    let reader = open(&path, true).expect("free again");
    let other = open(&path, true).expect("readers share");
    assert!(matches!(open(&path, false), Err(ImageError::Twice(_))));
    drop((reader, other));
    open(&path, false).expect("free again");
}

#[test]
fn bad_paths_have_clear_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(open(&dir.path().join("none"), true), Err(ImageError::NotFound(_))));
    assert!(matches!(open(dir.path(), true), Err(ImageError::NotBlocks(_))));
    assert!(matches!(open(Path::new("/dev/null"), true), Err(ImageError::NotBlocks(_))));
}

#[test]
fn a_read_only_image_refuses_writes_and_every_image_refuses_other_ranges() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    drop(create(&path, &options(10)).expect("creates"));
    let mut image = open(&path, true).expect("opens");
    assert_eq!(image.write(1, Data::zeros(1)), Err(IoError::ReadOnly));
    for (at, count) in [(image.blocks(), 1), (u64::MAX, 2), (0, image.blocks() as u32 + 1)] {
        assert_eq!(image.read(at, count), Err(IoError::OutOfRange { at, count }));
    }
}

#[test]
fn an_image_has_room_for_labels_if_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    let with = CreateOptions { kind: Kind::LOGE, headers: true, ..options(1000) };
    let mut image = create(&path, &with).expect("creates");
    let blocks = Kind::LOGE.device_blocks(1000);
    assert_eq!(image.blocks(), blocks);
    let labels: Vec<Label> = (1..=5).map(|byte| [byte; 32]).collect();
    image.write_labelled(blocks - 6, Data::stamp(5, 0, 1), &labels).expect("writes");
    image.write(blocks - 5, Data::stamp(1, 0, 2)).expect("writes");
    drop(image);
    let mut image = open(&path, true).expect("opens");
    assert_eq!(image.blocks(), blocks);
    let none = Label::default();
    let expected = [none, labels[0], none, labels[2], labels[3], labels[4], none];
    assert_eq!(image.labels(blocks - 7, 7).expect("reads"), expected);
    assert!(image.labels(blocks - 1, 2).is_err(), "past the end");
    seekless_layouts::check(&mut image).expect_err("what was written is not a label of the volume");
    drop(image);
    // For any damage of the trailer, the image is not served as one that never had a trailer.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_len(raw::offset_of(blocks)).expect("shortens");
    drop(file);
    let mut image = open(&path, true).expect("opens");
    assert!(!image.has_labels());
    let error = seekless_layouts::check(&mut image).expect_err("its labels are gone");
    assert!(error.to_string().contains("sector headers"), "{error}");
}
