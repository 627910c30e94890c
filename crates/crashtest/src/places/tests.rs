//! Real images: a file is found by its content, and its place is compared with what was written.

use super::*;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const BLOCK: usize = 4096;

/// Bytes that occur once on a disk, whatever their alignment.
fn unique(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).take(length).collect()
}

/// Two files in directories, and an image of them.
struct Made {
    /// Holds the image.
    _dir: TempDir,
    image: PathBuf,
    content: Vec<u8>,
}

const DATABASE: (u64, usize) = (1, 40_000);
const DEEP: (u64, usize) = (2, 9_000);

/// Runs a command that makes an image; `None`, said on standard error, if it is missing or fails.
fn make(command: &mut Command) -> Option<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => panic!("{name}: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: {name}: {error}");
            None
        }
    }
}

/// True if a tool runs at all; else the test is skipped, said on standard error.
fn have(tool: &str) -> bool {
    let by = Deadline::after(PATIENCE);
    let found = run::run(tool, &["-V"], Path::new(""), "", by).is_some();
    if !found {
        eprintln!("skipped: {tool} is missing");
    }
    found
}

fn tree() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("a/b")).expect("a directory");
    std::fs::write(root.join("d.db"), unique(DATABASE.0, DATABASE.1)).expect("a file");
    std::fs::write(root.join("a/b/deep.txt"), unique(DEEP.0, DEEP.1)).expect("a file");
    dir
}

fn made(dir: TempDir, size: u64, format: impl FnOnce(&Path, &Path) -> Option<()>) -> Option<Made> {
    let image = dir.path().join("image");
    File::create(&image).and_then(|file| file.set_len(size)).expect("an image");
    format(dir.path(), &image)?;
    let content = std::fs::read(&image).expect("readable");
    Some(Made { _dir: dir, image, content })
}

fn ext4(options: &[&str]) -> Option<Made> {
    if !have("debugfs") || !have("dumpe2fs") {
        return None;
    }
    made(tree(), 64 << 20, |dir, image| {
        let mut command = Command::new("mkfs.ext4");
        command.args(["-q", "-F"]).args(options).arg("-d").arg(dir.join("root")).arg(image);
        make(&mut command)
    })
}

fn xfs() -> Option<Made> {
    if !have("xfs_db") {
        return None;
    }
    made(tree(), 320 << 20, |dir, image| {
        let root = dir.join("root");
        let root = root.display();
        let prototype = format!(
            "/dummy\n0 0\nd--755 0 0\nd.db ---644 0 0 {root}/d.db\na d--755 0 0\nb d--755 0 0\n\
             deep.txt ---644 0 0 {root}/a/b/deep.txt\n$\n$\n{}$\n",
            long_directory(&format!("{root}/a/b/deep.txt")),
        );
        let file = dir.join("prototype");
        std::fs::write(&file, prototype).expect("a file");
        make(Command::new("mkfs.xfs").args(["-q", "-f", "-p"]).arg(file).arg(image))
    })
}

/// A directory with so many entries that they do not fit the inode.
fn long_directory(source: &str) -> String {
    let entry = |n| format!("entry-with-a-long-name-{n} ---644 0 0 {source}\n");
    format!("long d--755 0 0\n{}$\n", (0..60).map(entry).collect::<String>())
}

impl Made {
    /// Where bytes are on the disk.
    fn find(&self, bytes: &[u8]) -> u64 {
        // Blocks start at multiples of the smallest block size.
        let at = (0..self.content.len()).step_by(1024);
        let mut hits = at.filter(|at| self.content[*at..].starts_with(bytes));
        hits.next().expect("the content is on the disk") as u64
    }

    fn places(&self) -> Places {
        Places::of(None, &self.image).expect("tools that answer")
    }
}

/// Files: whole blocks, parts of blocks, several blocks, and the end.
fn check_files(made: &Made) {
    let (database, deep) = (unique(DATABASE.0, DATABASE.1), unique(DEEP.0, DEEP.1));
    let places = made.places();
    let at = made.find(&database[3 * BLOCK..4 * BLOCK]);
    let described = |offset, length| places.describe(offset, length);
    assert_eq!(described(at, 4096).as_deref(), Some("d.db bytes 12288-16384"));
    assert_eq!(described(at + 512, 512).as_deref(), Some("d.db bytes 12800-13312"));
    assert_eq!(described(at, 12_288).as_deref(), Some("d.db bytes 12288-24576"));
    let at = made.find(&database[9 * BLOCK..]);
    assert_eq!(described(at, 4096).as_deref(), Some("d.db bytes 36864-40000"));
    let at = made.find(&deep[2 * BLOCK..]);
    assert_eq!(described(at, 1024).as_deref(), Some("a/b/deep.txt bytes 8192-9000"));
    assert_eq!(described(at, 0), None);
    let end = made.content.len() as u64;
    assert_eq!(described(end - 4096, 4096), None, "a free block");
    assert_eq!(described(u64::MAX - 5, u64::MAX), None);
}

#[test]
fn files_of_ext4_are_named() {
    for options in [&["-b", "4096"][..], &["-b", "1024"], &["-b", "1024", "-O", "^extent,^64bit"]] {
        if let Some(made) = ext4(options) {
            check_files(&made);
        }
    }
}

#[test]
fn names_that_look_like_answers_mislead_no_other_file() {
    use std::os::unix::ffi::OsStrExt as _;
    if !have("debugfs") {
        return;
    }
    let dir = tree();
    let names: [&[u8]; 3] = [b"x\n12\td.db", b"debugfs: stat <12>\n(0-99):0-9999", b"\xff\xfe \t'"];
    for (seed, name) in (10..).zip(names) {
        let path = dir.path().join("root").join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, unique(seed, 5000)).expect("a file");
    }
    let made = made(dir, 64 << 20, |dir, image| {
        let mut command = Command::new("mkfs.ext4");
        make(command.args(["-q", "-F", "-b", "4096", "-d"]).arg(dir.join("root")).arg(image))
    });
    let Some(made) = made else { return };
    check_files(&made);
    let places = made.places();
    for (seed, _) in (10..).zip(names) {
        let at = made.find(&unique(seed, 4096));
        let place = places.describe(at, 4096).expect("a place");
        assert!(place.ends_with(" bytes 0-4096"), "{place}");
        assert!(!place.starts_with("d.db"), "{place}");
    }
}

#[test]
fn metadata_of_ext4_is_named() {
    let Some(made) = ext4(&["-b", "4096"]) else { return };
    let places = made.places();
    let described = |block: u64| places.describe(block * 4096, 4096).unwrap_or_default();
    assert_eq!(described(0), "ext4 superblock");
    assert_eq!(places.describe(0, 1024).as_deref(), Some("ext4 boot block"));
    assert_eq!(places.describe(1024, 1024).as_deref(), Some("ext4 superblock"));
    assert_eq!(described(1), "ext4 group descriptors");
    // Compared with what another tool says.
    let by = Deadline::after(PATIENCE);
    let said = run::run("dumpe2fs", &[], &made.image, "", by).expect("it runs");
    let block = |key: &str| -> u64 {
        let rest = &said[said.find(key).expect("a line") + key.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).expect("an end");
        rest[..end].parse().expect("a number")
    };
    assert_eq!(described(block("Block bitmap at ")), "ext4 block bitmap");
    assert_eq!(described(block("Inode bitmap at ")), "ext4 inode bitmap");
    let table = block("Inode table at ");
    assert_eq!(described(table), "ext4 inode table (inodes 1-16)");
    assert_eq!(described(table + 2), "ext4 inode table (inodes 33-48)");
    let directory = made.content.chunks(BLOCK).position(|block| {
        block[8..].starts_with(b".\0\0\0") && block.windows(8).any(|name| name == b"deep.txt")
    });
    assert_eq!(described(directory.expect("a directory") as u64), "directory /a/b");
    let blocks = run::run("debugfs", &["-R", "blocks <2>"], &made.image, "", by).expect("it runs");
    assert_eq!(described(blocks.trim().parse().expect("one block")), "directory /");
}

#[test]
fn blocks_of_the_journal_of_ext4_are_told_apart() {
    let Some(made) = ext4(&["-b", "4096"]) else { return };
    let places = made.places();
    let by = Deadline::after(PATIENCE);
    let blocks = run::run("debugfs", &["-R", "blocks <8>"], &made.image, "", by).expect("it runs");
    let blocks: Vec<u64> =
        blocks.split_whitespace().map(|block| block.parse().expect("a number")).collect();
    let superblock = places.describe(blocks[0] * 4096, 4096);
    assert_eq!(superblock.as_deref(), Some("ext4 journal (superblock)"));
    assert_eq!(places.describe(blocks[5] * 4096, 4096).as_deref(), Some("ext4 journal"));
    let block = |kind: u32| {
        let mut out = vec![0; BLOCK];
        out[..4].copy_from_slice(&0xc03b_3998_u32.to_be_bytes());
        out[4..8].copy_from_slice(&kind.to_be_bytes());
        out
    };
    let bytes = |bytes: &[u8]| places.describe_bytes(blocks[5] * 4096, bytes).expect("a place");
    assert_eq!(bytes(&block(2)), "ext4 journal (commit block)");
    assert_eq!(bytes(&block(5)), "ext4 journal (revoke block)");
    let several = [block(1), vec![0; BLOCK], vec![1; BLOCK]].concat();
    assert_eq!(bytes(&several), "ext4 journal (descriptor block, logged block)");
    assert_eq!(bytes(&block(2)[..3]), "ext4 journal");
}

#[test]
fn files_and_metadata_of_xfs_are_named() {
    let Some(made) = xfs() else { return };
    check_files(&made);
    let places = made.places();
    assert_eq!(places.describe(0, 512).as_deref(), Some("XFS superblock"));
    assert_eq!(places.describe(512, 512).as_deref(), Some("XFS AGF"));
    let group = u64::from(u32::from_be_bytes(
        made.content[84..88].try_into().expect("the blocks of a group"),
    ));
    let copy = places.describe(group * 4096, 512);
    assert_eq!(copy.as_deref(), Some("XFS superblock copy"));
    let log = u64::from_be_bytes(made.content[48..56].try_into().expect("the start of the log"));
    let shift = made.content[124];
    let log = (log >> shift) * group + (log & ((1 << shift) - 1));
    assert_eq!(places.describe(log * 4096, 4096).as_deref(), Some("XFS log"));
    let head = made.content.chunks(BLOCK).position(|block| block.starts_with(b"XDB3"));
    let head = head.expect("a directory of one block") as u64;
    assert_eq!(places.describe(head * 4096, 4096).as_deref(), Some("directory /long"));
}

#[test]
fn many_ranges_are_one_question() {
    let Some(made) = ext4(&["-b", "4096"]) else { return };
    let database = unique(DATABASE.0, DATABASE.1);
    let at = made.find(&database[..BLOCK]);
    let free = made.content.len() as u64 - 4096;
    let found = Places::look(Some("ext4"), &made.image, &[(at, 4096), (free, 512), (1024, 512)]);
    let expected =
        [((1024, 512), "ext4 superblock".to_owned()), ((at, 4096), "d.db bytes 0-4096".to_owned())];
    assert_eq!(found, BTreeMap::from(expected));
    // The whole disk is described by its beginning.
    let places = made.places();
    let all = places.describe(0, made.content.len() as u64).expect("a place");
    assert!(all.starts_with("ext4 superblock, ext4 group descriptors, "), "{all}");
    assert!(all.ends_with(" more and more"), "{all}");
    // No tool is asked about what is known: the image may be gone.
    places.learn(&[(at, 4096)]);
    std::fs::remove_file(&made.image).expect("removed");
    assert_eq!(places.describe(at, 4096).as_deref(), Some("d.db bytes 0-4096"));
}

#[test]
fn an_image_that_is_none_has_no_places() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    assert!(Places::of(None, &image).is_none());
    for content in [vec![], vec![0; 1 << 20], unique(3, 1 << 20)] {
        std::fs::write(&image, content).expect("a file");
        assert!(Places::of(Some("ext4"), &image).is_none());
        assert!(Places::of(None, &image).is_none());
    }
    // A magic number and nothing else.
    let mut content = vec![0; 1 << 20];
    content[1080..1082].copy_from_slice(&[0x53, 0xef]);
    std::fs::write(&image, &content).expect("a file");
    assert!(Places::of(None, &image).is_none());
    content[..4].copy_from_slice(b"XFSB");
    std::fs::write(&image, &content).expect("a file");
    assert!(Places::of(None, &image).is_none());
    assert!(Places::look(Some("xfs"), &image, &[(0, 512)]).is_empty());
    // Another file system than the one that was asked for.
    assert!(Places::of(Some("ext4"), &image).is_none());
}
