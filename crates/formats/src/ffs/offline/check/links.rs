//! Phase 3: each directory leads to the root, each inode has a name. Phase 4: link counts.

use super::Examination;
use super::finding::{Finding, Outcome};
use super::state::{Brief, Folder};
use crate::ffs::ondisk::format::LOG_INODE;
use seekless_fs::call::ROOT;
use std::collections::BTreeSet;

impl Examination<'_> {
    /// Phase 3.
    pub(super) fn connectivity(&mut self) -> Outcome {
        self.cycles();
        for (&ino, folder) in &self.known.folders {
            let Folder { dotdot, parent, .. } = *folder;
            if parent != 0 && dotdot != 0 && dotdot != parent {
                self.found.add(Finding::WrongParent { ino, stored: dotdot, right: parent });
            }
        }
        let known = &self.known;
        for (ino, brief) in known.in_use().filter(|(ino, _)| *ino != LOG_INODE) {
            let folder = known.folders.get(&ino);
            if brief.names > 0 || folder.is_some_and(|folder| folder.parent != 0) {
                continue;
            }
            if known.is_left(ino) {
                continue;
            }
            let is_empty = folder.map_or(!brief.has_content, |folder| folder.entries == 0);
            self.found.add(match is_empty || brief.links == 0 {
                true => Finding::Leaked { ino },
                false => Finding::Nameless { ino },
            });
        }
        Ok(())
    }

    /// Follows the parents of each directory up to the root, each once.
    fn cycles(&mut self) {
        let folders = &self.known.folders;
        let mut done = BTreeSet::from([ROOT as u32]);
        for &start in folders.keys() {
            let mut path = Vec::new();
            let mut on_path = BTreeSet::new();
            let mut ino = start;
            while ino != 0 && !done.contains(&ino) {
                let parent = folders.get(&ino).map_or(0, |folder| folder.parent);
                if !on_path.insert(ino) {
                    self.found.add(Finding::Cycle { ino, parent });
                    break;
                }
                path.push(ino);
                ino = parent;
            }
            done.extend(path);
        }
    }

    /// Phase 4. Objects without a name are those of phase 3.
    pub(super) fn counts(&mut self) -> Outcome {
        for (ino, brief) in self.known.in_use() {
            let Brief { links: stored, names, .. } = *brief;
            let right = match self.known.folders.get(&ino) {
                Some(folder) if folder.parent == 0 => continue,
                Some(folder) => u16::try_from(folder.children + 2).unwrap_or(u16::MAX),
                None => names,
            };
            if ino != LOG_INODE && right != 0 && stored != right {
                self.found.add(Finding::WrongLinks { ino, stored, right });
            }
        }
        Ok(())
    }
}
