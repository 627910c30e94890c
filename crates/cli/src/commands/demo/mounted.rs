//! The act of the demonstration that mounts a file system.

use super::{Demo, capture};
use crate::failure::{Failure, Outcome};
use seekless_engine::rng::Rng;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Directories of the tree that is copied, and files in each.
const DIRS: u32 = 8;
const FILES: u32 = 25;
/// Bytes of a file at most.
const MOST_BYTES: u64 = 24 << 10;

impl Demo {
    /// A tree of files goes through a mounted file system and comes back.
    pub(super) fn mount(&self, out: &mut dyn Write) -> Outcome {
        self.heading(out, "2  Mount: a file system on that disk")?;
        let image = self.dir.join("files.img").to_string_lossy().into_owned();
        let (tree, back) = (self.dir.join("tree"), self.dir.join("copied"));
        make_tree(&tree)?;
        writeln!(out, "   $ seekless mkfs files.img --fs ffs --layout vlog --size 64M")?;
        self.own(&["mkfs", &image, "--fs", "ffs", "--layout", "vlog", "--size", "64M"])?;
        let begin = Instant::now();
        let how = match self.through_mount(&image, &tree, &back)? {
            Ok(()) => {
                writeln!(out, "   $ seekless mount files.img mnt && cp -r tree mnt")?;
                "through the kernel".to_owned()
            }
            Err(reason) => {
                self.through_tools(&image, &tree, &back)?;
                writeln!(out, "   no mount here: {reason}")?;
                writeln!(out, "   $ seekless fs cp files.img tree :/tree")?;
                "without a mount".to_owned()
            }
        };
        capture(Command::new("diff").arg("-r").args([&tree, &back]))?;
        let took = begin.elapsed().as_secs_f64();
        let check = self.own(&["fsck", &image])?;
        let files = DIRS * FILES;
        writeln!(out, "   {files} files there and back {how} in {took:.1} s: equal")?;
        let found = check.trim().rsplit_once(": ").map_or(check.trim(), |(_, found)| found);
        writeln!(out, "   seekless fsck: {found}")?;
        Ok(())
    }

    /// Copies through a mount; the reason if there is none on this machine.
    fn through_mount(
        &self,
        image: &str,
        tree: &Path,
        back: &Path,
    ) -> Result<Result<(), String>, Failure> {
        let dir = self.dir.join("mnt");
        std::fs::create_dir(&dir)?;
        let mut command = Command::new(&self.own);
        command.args(["mount", image]).arg(&dir).stdin(Stdio::null());
        // The process that stays behind must not hold a pipe open.
        let said = self.dir.join("mount.log");
        let log = std::fs::File::create(&said)?;
        let status = command.stdout(Stdio::null()).stderr(log).status()?;
        if !status.success() {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            let line = said.lines().next().unwrap_or("it ended without a message");
            return Ok(Err(line.trim_start_matches("error: ").to_owned()));
        }
        let mounted = Mounted(dir);
        capture(Command::new("cp").arg("-r").arg(tree).arg(&mounted.0))?;
        capture(Command::new("cp").arg("-r").arg(mounted.0.join("tree")).arg(back))?;
        mounted.unmount()?;
        Ok(Ok(()))
    }

    /// The same with the tools for an image that is not mounted.
    fn through_tools(&self, image: &str, tree: &Path, back: &Path) -> Outcome {
        let (tree, back) = (tree.to_string_lossy(), back.to_string_lossy());
        self.own(&["fs", "cp", image, &tree, ":/tree"])?;
        self.own(&["fs", "cp", image, ":/tree", &back])?;
        Ok(())
    }
}

/// A mounted directory.
struct Mounted(PathBuf);

impl Mounted {
    fn unmount(self) -> Outcome {
        unmount(&self.0, &[]).map(|_| ())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After an unmount there is nothing to do, and it fails.
        let _ = unmount(&self.0, &["-z"]);
    }
}

fn unmount(dir: &Path, how: &[&str]) -> Result<String, Failure> {
    capture(Command::new("fusermount3").arg("-u").args(how).arg(dir))
}

/// A tree of files with content of a seed.
fn make_tree(tree: &Path) -> Outcome {
    let mut rng = Rng::stream(1, "tree of the demonstration");
    for dir in 0..DIRS {
        let dir = tree.join(format!("dir{dir}"));
        std::fs::create_dir_all(&dir)?;
        for file in 0..FILES {
            let words = rng.below(MOST_BYTES / 8);
            let bytes: Vec<u8> = (0..words).flat_map(|_| rng.next().to_le_bytes()).collect();
            std::fs::write(dir.join(format!("file{file}")), bytes)?;
        }
    }
    Ok(())
}
