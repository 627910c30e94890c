//! A tree of files like that of a kernel: many small ones, few large ones, in many directories.
//!
//! The tree is the one at `SEEKLESS_TREE`, else the sources or headers of a kernel that this
//! machine has, else a generated one of the same shape. It has as many files as take seconds, or
//! with `SEEKLESS_FULL=1` as many as a kernel.

use crate::harness::{command, pattern, succeed};
use seekless_engine::rng::Rng;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files of a kernel tree, 1.2 GB of them in 5,000 directories.
const FULL: u64 = 78_000;
/// Keeps a test below about 10 seconds.
const USUAL: u64 = 4_000;
/// Files in a directory, on average.
const PER_DIRECTORY: u64 = 16;
/// Subdirectories of a directory: 5,000 directories lie at most five deep.
const FAN_OUT: u64 = 8;
/// Sizes are log-normal: the median, and the deviation that makes the mean 15 kB.
const MEDIAN_BYTES: f64 = 4500.0;
const DEVIATION: f64 = 1.55;
/// The largest generated headers have some megabytes.
const MOST_BYTES: f64 = 4e6;

/// A tree of files to be copied.
#[derive(Debug)]
pub struct Tree {
    /// Where it is.
    pub root: PathBuf,
    files: u64,
    bytes: u64,
}

impl Tree {
    /// The tree of this machine, or one generated below `dir`.
    pub fn find_or_plant(dir: &Path) -> Tree {
        let tree = match found() {
            Some(root) => root,
            None => {
                let root = dir.join("source");
                plant(&root, if is_full() { FULL } else { USUAL });
                root
            }
        };
        let (files, bytes) = measure(&tree);
        assert!(files > 0, "{} has no files", tree.display());
        Tree { root: tree, files, bytes }
    }

    /// A volume large enough for a file system with two of these trees.
    pub fn volume_size(&self) -> String {
        // Most file systems have an inode for each 16 KiB, and xfs is at least 300 MB large.
        let bytes = (self.bytes * 2).max(self.files * 20_000) + (320 << 20);
        format!("{}M", bytes >> 20)
    }

    /// A directory right below the root.
    pub fn first_directory(&self) -> String {
        let is_dir = |name: &String| self.root.join(name).is_dir();
        entries(&self.root).into_iter().find(is_dir).expect("a directory in the tree")
    }

    /// Compares with a copy that lacks `gone`.
    ///
    /// # Panics
    /// If they differ.
    pub fn compare(&self, copy: &Path, gone: Option<&str>) {
        let mut expected = entries(&self.root);
        expected.retain(|name| Some(name.as_str()) != gone);
        assert_eq!(entries(copy), expected);
        for name in expected {
            let mut diff = command("diff");
            diff.args(["--recursive", "--no-dereference", "--brief"]);
            succeed(diff.arg(self.root.join(&name)).arg(copy.join(&name)));
        }
    }

    /// Prints how long a step took, if the environment asks for it.
    pub fn say(&self, layout: &str, make: &str, what: &str, begin: Instant) {
        if is_full() {
            let _ = writeln!(
                std::io::stderr(),
                "{make} on {layout}: {} files, {} MB {what} in {:.1} s",
                self.files,
                self.bytes / 1_000_000,
                begin.elapsed().as_secs_f64()
            );
        }
    }
}

/// True if the environment asks for tests that take minutes.
pub fn is_full() -> bool {
    std::env::var_os("SEEKLESS_FULL").is_some_and(|value| value == "1")
}

/// A kernel's tree on this machine.
fn found() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("SEEKLESS_TREE") {
        let named = PathBuf::from(named);
        assert!(named.is_dir(), "SEEKLESS_TREE: {} is not a directory", named.display());
        return Some(named);
    }
    let is_kernel = |name: &String| {
        name.starts_with("linux-") && !name.contains('.')
            || name.starts_with("linux-headers-")
            || name.starts_with("linux-source-")
    };
    let sources = Path::new("/usr/src");
    let mut candidates: Vec<PathBuf> = if sources.is_dir() { entries(sources) } else { Vec::new() }
        .into_iter()
        .filter(is_kernel)
        .map(|name| sources.join(name))
        .collect();
    // Some consist of links into each other.
    candidates.retain(|root| root.join("Makefile").is_file() && root.join("include").is_dir());
    candidates.pop()
}

/// Names in a directory, sorted.
fn entries(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("entry").file_name().into_string().expect("a name in UTF-8")
    };
    let mut names: Vec<String> = fs::read_dir(dir).expect("directory").map(name).collect();
    names.sort_unstable();
    names
}

/// Files and bytes in a tree.
fn measure(dir: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(dir).expect("directory") {
        let entry = entry.expect("entry");
        let found = entry.metadata().expect("metadata");
        let (files, bytes) = if found.is_dir() { measure(&entry.path()) } else { (1, found.len()) };
        sum = (sum.0 + files, sum.1 + bytes);
    }
    sum
}

/// Generates a tree; names, sizes and content depend only on the number of files.
fn plant(root: &Path, files: u64) {
    let mut rng = Rng::stream(11, "tree");
    let directories = files.div_ceil(PER_DIRECTORY);
    let mut paths = vec![root.to_owned()];
    for number in 1..directories.max(2) {
        let parent = (number - 1) / FAN_OUT;
        paths.push(paths[parent as usize].join(format!("dir{number}")));
    }
    for path in &paths {
        fs::create_dir_all(path).expect("directory");
    }
    for number in 0..files {
        // The root has files as well.
        let place = rng.below(paths.len() as u64);
        let path = paths[place as usize].join(format!("file {number}.c"));
        fs::write(&path, pattern(number, size(&mut rng))).expect("file");
        if number % 100 == 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        }
        if number % 1000 == 0 {
            let target = format!("file {number}.c");
            symlink(target, path.with_extension("link")).expect("link");
        }
    }
}

/// The size of a file.
fn size(rng: &mut Rng) -> usize {
    // A sum of twelve uniform numbers is close to normal.
    let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
    (MEDIAN_BYTES * (DEVIATION * normal).exp()).min(MOST_BYTES) as usize
}

#[test]
fn the_shape_is_that_of_a_kernel_tree() {
    let mut rng = Rng::stream(11, "sizes");
    let mut sizes: Vec<usize> = (0..FULL).map(|_| size(&mut rng)).collect();
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    let sum: usize = sizes.iter().sum();
    assert!((4000..5000).contains(&median), "median {median}");
    assert!((1_000_000_000..1_300_000_000).contains(&sum), "{sum} bytes");
}
