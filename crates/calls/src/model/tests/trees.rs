//! Trees against a plain implementation, on random recordings and random power cuts.

use super::*;
use crate::model::{Change, NameChange, ObjectId, Step, TOP, Tree, difference};
use proptest::prelude::*;
use seekless_engine::rng::Rng;
use seekless_fs::call::AllocateHow;
use std::collections::{BTreeMap, BTreeSet};

/// What lies at a path: kind, bytes, mode, and the first path of the object.
type Listing = BTreeMap<Vec<u8>, (New, Vec<u8>, Option<u16>, Vec<u8>)>;

fn listing(tree: &Tree) -> Listing {
    let one = |found: crate::model::Found| {
        let what = tree.object(found.object).what.clone();
        let mode = tree.attributes(found.object).mode;
        let first = found.link_to.unwrap_or_else(|| found.path.clone());
        (found.path, (what, tree.bytes(found.object), mode, first))
    };
    tree.found().into_iter().map(one).collect()
}

/// A tree as plain maps and vectors.
#[derive(Clone, Default)]
struct Plain {
    names: BTreeMap<ObjectId, BTreeMap<Bytes, ObjectId>>,
    files: BTreeMap<ObjectId, (usize, Vec<u8>)>,
    modes: BTreeMap<ObjectId, u16>,
}

impl Plain {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Names { sets, .. } => {
                for NameChange { directory, name, object } in sets {
                    let names = self.names.entry(*directory).or_default();
                    names.remove(name);
                    names.extend(object.map(|object| (name.clone(), object)));
                }
            }
            Change::Page { object, at, data } => {
                let (_, bytes) = self.files.entry(*object).or_default();
                let end = *at as usize + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at as usize..end].copy_from_slice(data);
            }
            Change::Zeros { object, from, to } => {
                let (_, bytes) = self.files.entry(*object).or_default();
                let to = bytes.len().min(*to as usize);
                bytes[to.min(*from as usize)..to].fill(0);
            }
            Change::Grow { object, to } => {
                let (size, _) = self.files.entry(*object).or_default();
                *size = (*size).max(*to as usize);
            }
            Change::SetSize { object, from, to } => {
                let (size, bytes) = self.files.entry(*object).or_default();
                if to < from {
                    bytes.truncate(*to as usize);
                    *size = *to as usize;
                } else {
                    *size = (*size).max(*to as usize);
                }
            }
            Change::Attributes { object, set } => {
                self.modes.extend(set.mode.map(|mode| (*object, mode)));
            }
            Change::Attribute { .. } => {}
        }
    }

    fn listing(&self, recorded: &Recorded) -> Listing {
        let (mut out, mut first) = (Listing::new(), BTreeMap::new());
        let mut left = vec![(TOP, Vec::new())];
        while let Some((directory, base)) = left.pop() {
            for (name, &object) in self.names.get(&directory).into_iter().flatten() {
                let path = [&base[..], name].concat();
                let made = &recorded.objects[object as usize];
                if made.is_directory() {
                    left.push((object, [&path[..], b"/"].concat()));
                }
                let first = first.entry(object).or_insert_with(|| path.clone()).clone();
                let (size, mut bytes) = self.files.get(&object).cloned().unwrap_or_default();
                bytes.resize(size, 0);
                let mode = self.modes.get(&object).copied().or(made.attributes.mode);
                let is_new = out.insert(path, (made.what.clone(), bytes, mode, first));
                assert!(is_new.is_none(), "a path leads to one object");
            }
        }
        out
    }
}

/// A recording of random calls in two directories and the top.
fn random(seed: u64, calls: u32) -> Script {
    let mut rng = Rng::stream(seed, "calls");
    let mut script = Script::default();
    let mut dirs = vec![ROOT];
    let mut names: BTreeMap<(Ino, u64), Ino> = BTreeMap::new();
    let mut files: BTreeSet<Ino> = BTreeSet::new();
    let text = |name: u64| format!("{}", (b'a' + name as u8) as char);
    for _ in 0..calls {
        if rng.chance(0.02) {
            script.begin();
        }
        let dir = dirs[rng.below(dirs.len() as u64) as usize];
        let name = rng.below(4);
        let at = (dir, name);
        let there = names.get(&at).copied();
        let bytes = || Bytes::copy_from_slice(text(name).as_bytes());
        match (rng.below(12), there) {
            (0, None) if dirs.len() < 4 => {
                let ino = script.make(dir, &text(name), New::Directory);
                names.insert(at, ino);
                dirs.push(ino);
            }
            (0..=2, None) => {
                let ino = script.make(dir, &text(name), New::File);
                names.insert(at, ino);
                files.insert(ino);
            }
            (3, None) => {
                if let Some(&ino) = files.iter().nth(rng.below(1 + files.len() as u64) as usize) {
                    let request = Request::Link { ino, dir, name: bytes() };
                    script.call(request, Told::Object(ino, 0, None));
                    names.insert(at, ino);
                }
            }
            (4, Some(ino)) if files.contains(&ino) => {
                script.call(Request::Unlink { dir, name: bytes() }, Told::Done);
                names.remove(&at);
            }
            (5 | 6, Some(ino)) => {
                let to = (dirs[rng.below(dirs.len() as u64) as usize], rng.below(4));
                let target = names.get(&to).copied();
                let is_file = |ino: Option<Ino>| ino.is_none_or(|ino| files.contains(&ino));
                // Directories move into directories that are above them or beside them.
                let fits = is_file(Some(ino)) && is_file(target)
                    || target.is_none() && !within(&names, to.0, ino);
                let exchange = target.is_some() && rng.chance(0.3);
                if fits && to != at {
                    let how = if exchange { RenameHow::Exchange } else { RenameHow::Replace };
                    let to_name = Bytes::copy_from_slice(text(to.1).as_bytes());
                    let (name, to_dir) = (bytes(), to.0);
                    let request = Request::Rename { dir, name, to_dir, to_name, how };
                    script.call(request, Told::Done);
                    if target != Some(ino) {
                        names.remove(&at);
                        names.extend(target.filter(|_| exchange).map(|other| (at, other)));
                        names.insert(to, ino);
                    }
                }
            }
            (7, Some(ino)) if files.contains(&ino) => {
                script.truncate(ino, rng.below(9000));
            }
            (8, Some(ino)) => {
                script.fsync(if rng.chance(0.5) { ino } else { dir });
            }
            (9, Some(ino)) if files.contains(&ino) => {
                let (from, length) = (rng.below(9000), 1 + rng.below(6000));
                let how = [AllocateHow::Punch, AllocateHow::Zero { keep_size: false }];
                let how = how[rng.below(2) as usize];
                let handle = by_inode(ino);
                script.call(Request::Allocate { handle, at: from, length, how }, Told::Done);
            }
            (10, Some(ino)) if rng.chance(0.3) => {
                let mode = Some(rng.below(0o1000) as u16);
                let set = SetAttr { mode, ..SetAttr::default() };
                script.call(Request::SetAttr { ino, set }, Told::Attr(0));
            }
            (_, Some(ino)) if files.contains(&ino) => {
                let count = 1 + if rng.chance(0.5) { rng.below(20) } else { rng.below(9000) };
                let fill = rng.below(4) as u8;
                script.write(ino, rng.below(9000), &vec![fill; count as usize]);
            }
            _ => {}
        }
    }
    // Only one `Begin` counts.
    let last = script.entries.iter().rposition(|entry| *entry == Entry::Begin);
    let mut at = 0;
    script.entries.retain(|entry| {
        at += 1;
        *entry != Entry::Begin || Some(at - 1) == last
    });
    script
}

/// True if a directory is another one or lies in it.
fn within(names: &BTreeMap<(Ino, u64), Ino>, mut dir: Ino, above: Ino) -> bool {
    while dir != above {
        match names.iter().find(|(_, ino)| **ino == dir) {
            Some(((parent, _), _)) => dir = *parent,
            None => return false,
        }
    }
    true
}

/// A directory on which steps are done, with files that names share.
#[derive(Default)]
struct Disk {
    names: BTreeMap<Vec<u8>, usize>,
    objects: Vec<(New, Vec<u8>, Option<u16>)>,
}

impl Disk {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Remove { path, is_directory } => {
                let inside = [&path[..], b"/"].concat();
                let is_empty = !self.names.keys().any(|name| name.starts_with(&inside));
                assert!(is_empty, "{path:?} is removed with what is in it");
                let object = self.names.remove(path).expect("it is there");
                assert_eq!(*is_directory, self.objects[object].0 == New::Directory);
            }
            Step::Make { path, what } => {
                let parent = path.iter().rposition(|&byte| byte == b'/');
                assert!(parent.is_none_or(|at| self.names.contains_key(&path[..at])));
                let before = self.names.insert(path.clone(), self.objects.len());
                assert!(before.is_none(), "{path:?} is there");
                self.objects.push((what.clone(), Vec::new(), None));
            }
            Step::Link { to, path } => {
                let object = self.names[to];
                assert!(self.names.insert(path.clone(), object).is_none(), "{path:?} is there");
            }
            Step::SetSize { path, size } => {
                let object = self.names[path];
                self.objects[object].1.resize(*size as usize, 0);
            }
            Step::Page { path, at, bytes } => {
                let object = self.names[path];
                let file = &mut self.objects[object].1;
                let (at, end) = (*at as usize, file.len().min(*at as usize + 4096));
                file[at..end].fill(0);
                file[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Step::Attributes { path, set, .. } => {
                if !path.is_empty() {
                    let object = self.names[path];
                    self.objects[object].2 = set.mode;
                }
            }
        }
    }

    fn listing(&self, like: &Listing) -> Listing {
        let one = |(path, &object): (&Vec<u8>, &usize)| {
            let (what, bytes, mode) = self.objects[object].clone();
            let first = like.get(path).map_or(Vec::new(), |(.., first)| first.clone());
            assert_eq!(self.names.get(&first), Some(&object), "{path:?} shares its file");
            (path.clone(), (what, bytes, mode, first))
        };
        let list: Listing = self.names.iter().map(one).collect();
        let objects: BTreeSet<&usize> = self.names.values().collect();
        let firsts: BTreeSet<&Vec<u8>> = list.values().map(|(.., first)| first).collect();
        assert_eq!(objects.len(), firsts.len(), "no others share one");
        list
    }
}

/// A choice of pending micro-operations that is closed over their needs.
fn closed(modelled: &Modelled, durable: &Kept, pending: &[usize], rng: &mut Rng) -> Kept {
    let share = [0.1, 0.5, 0.9][rng.below(3) as usize];
    let (mut set, lose) = (durable.clone(), rng.chance(0.5));
    let drawn: Vec<usize> = pending.iter().copied().filter(|_| rng.chance(share)).collect();
    if lose {
        for index in drawn {
            if modelled.needs(index).iter().all(|need| set.contains(need.micro as usize)) {
                set.insert(index);
            }
        }
    } else {
        modelled.add(&mut set, drawn);
    }
    set
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every closed choice of a power cut is a tree: the same as a plain implementation builds from
    /// nothing, with a print that tells it from others, and reached by steps from the one before.
    #[test]
    fn every_closed_choice_is_a_tree(seed in any::<u64>(), calls in 1_u32..120) {
        let script = random(seed, calls);
        let recorded = Arc::new(Recorded::read(&script.entries).expect("it is modelled"));
        for model in Model::ALL {
            let modelled = Modelled::new(Arc::clone(&recorded), model);
            let mut rng = Rng::stream(seed, "cuts");
            let (mut trees, mut disk) = (modelled.trees(), Disk::default());
            let mut shown = Tree::new(recorded.objects.clone());
            let mut prints: BTreeMap<u128, Listing> = BTreeMap::new();
            for position in recorded.begin + 1..=recorded.entries {
                if !rng.chance(0.2) && position < recorded.entries {
                    continue;
                }
                trees.advance(position);
                for _ in 0..3 {
                    let set = closed(&modelled, trees.durable(), trees.pending(), &mut rng);
                    prop_assert!(modelled.is_closed(&set));
                    let tree = trees.tree(|index| set.contains(index));
                    let mut plain = Plain::default();
                    set.iter().for_each(|index| plain.apply(&recorded.micros[index].change));
                    let found = listing(&tree);
                    prop_assert_eq!(&found, &plain.listing(&recorded));
                    for step in difference(&shown, &tree) {
                        disk.step(&step);
                    }
                    prop_assert_eq!(&disk.listing(&found), &found);
                    let print = tree.print();
                    prop_assert_eq!(prints.entry(print).or_insert_with(|| found.clone()), &found);
                    let alike = prints.iter().filter(|(_, one)| **one == found).count();
                    // The mode of the top is in the print and not in the listing.
                    prop_assert!(alike == 1 || tree.attributes(TOP).mode.is_some());
                    shown = tree;
                }
            }
        }
    }

    /// What is closed under a file system is closed under POSIX. (A sync can make less
    /// durable under the stronger one: it commits nothing if an earlier commit took all of the file
    /// with it.)
    #[test]
    fn models_are_ordered(seed in any::<u64>(), calls in 1_u32..120) {
        let script = random(seed, calls);
        let recorded = Arc::new(Recorded::read(&script.entries).expect("it is modelled"));
        let mut rng = Rng::stream(seed, "cuts");
        for model in [Model::XFS, Model::EXT4] {
            let under = |model: Model| Modelled::new(Arc::clone(&recorded), model);
            let (weak, strong) = (under(Model::POSIX), under(model));
            for position in [recorded.entries / 2, recorded.entries] {
                let durable = strong.durable(position);
                let asked = |index: &usize| recorded.micros[*index].asked < position;
                let pending = (0..recorded.micros.len()).filter(asked);
                let pending: Vec<usize> = pending.filter(|&i| !durable.contains(i)).collect();
                let set = closed(&strong, &durable, &pending, &mut rng);
                prop_assert!(weak.is_closed(&set));
            }
        }
    }
}

/// The plain implementation finds a defect: if it did not, the test above would prove nothing.
#[test]
fn a_choice_that_is_not_closed_is_another_tree() {
    let mut script = Script::default();
    let file = script.file("a");
    script.write(file, 0, b"abc").begin();
    script.rename("a", "b").rename("b", "c");
    let modelled = script.under(Model::POSIX);
    let [first, second] = ["\"a\", \"b\"", "\"b\", \"c\""].map(|text| saying(&modelled, text)[0]);
    let mut trees = modelled.trees();
    trees.advance(u64::MAX);
    let both = trees.tree(|_| true);
    assert_eq!(both.found().len(), 1);
    let hole = trees.tree(|index| index == second);
    assert_eq!(hole.found().len(), 2, "the file has its old name, too");
    assert_ne!(both.print(), hole.print());
    assert!(!modelled.is_closed(&[second].into_iter().chain(trees.durable().iter()).collect()));
    assert_eq!(modelled.needs(second)[0].micro as usize, first);
}
