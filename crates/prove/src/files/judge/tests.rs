//! What the judge lets pass, and what it does not, on trees made by hand.

use super::*;
use crate::files::contract::damage::Damages;
use crate::files::contract::table::EVERYTHING;
use crate::files::names::Path;
use crate::files::request::FileRequest as R;
use crate::files::tags::Tag;
use crate::files::tree::Attrs;
use crate::files::world::Effect;

pub(super) const FOO: Path = Path::Names([Name::FOO; 5], 1);
pub(super) const BAR: Path = Path::Names([Name::BAR; 5], 1);

/// A client that has made these requests, each of which was acknowledged.
pub(super) fn world(requests: &[R]) -> World {
    let mut world = World::new(Attrs { mode: 0o755, uid: 0 });
    go_on(&mut world, requests);
    world
}

pub(super) fn go_on(world: &mut World, requests: &[R]) {
    for &request in requests {
        let upto = world.heard;
        match request {
            R::Sync => {
                let bonds = world.bonds_of_all();
                world.settle_all(upto, bonds);
            }
            R::Fsync(path) => {
                let object = world.resolve(&path).expect("it is there");
                let bonds = world.bonds_of(object);
                world.settle_object(object, EVERYTHING, upto, bonds);
            }
            request => {
                let effects = world.plan(request).expect("it is possible");
                world.send(effects);
                for effect in world.confirm() {
                    if let Effect::Made(object) = effect {
                        assert!(world.identify(object, (object + 10, 1)));
                    }
                }
            }
        }
    }
}

/// The tree as the client knows it.
pub(super) fn tree(world: &World) -> Tree {
    let mut objects = BTreeMap::new();
    let mut todo = vec![ROOT];
    while let Some(object) = todo.pop() {
        let record = world.record(object);
        let (ino, generation) = record.identity.expect("it was heard of");
        let body = match record.kind {
            FileKind::Directory => {
                let names: Vec<(Name, Object)> = world.names(object).collect();
                todo.extend(names.iter().map(|(_, child)| *child));
                let ino = |child: Object| world.record(child).identity.expect("heard of").0;
                Body::Directory(names.iter().map(|&(name, child)| (name, ino(child))).collect(), 0)
            }
            _ => Body::File(
                record.cells.iter().map(|(&sector, cell)| (sector, *cell.last())).collect(),
            ),
        };
        let (attrs, size) = (*record.attrs.last(), *record.size.last());
        let found = Found { generation, kind: record.kind, attrs, size, body };
        objects.insert(ino, found.into());
    }
    Tree { objects, damages: Damages::NONE }
}

fn names(tree: &mut Tree) -> &mut BTreeMap<Name, u32> {
    match &mut tree.objects.get_mut(&2).expect("the root").body {
        Body::Directory(names, _) => names,
        other => panic!("{other:?}"),
    }
}

pub(super) fn wrong(world: &World, tree: &Tree, rules: Rules) -> String {
    let said = judge(world, tree, rules).into_iter().map(|one| one.sentence);
    said.collect::<Vec<_>>().join("; ")
}

#[test]
fn a_rename_leaves_the_old_name_both_or_the_new_one() {
    let world = world(&[R::Create(FOO), R::Sync, R::Rename(FOO, BAR)]);
    let new = tree(&world);
    let ino = names(&mut new.clone())[&Name::BAR];
    let mut both = new.clone();
    names(&mut both).insert(Name::FOO, ino);
    let mut old = both.clone();
    names(&mut old).remove(&Name::BAR);
    let mut neither = old.clone();
    names(&mut neither).remove(&Name::FOO);
    neither.objects.remove(&ino);
    for rules in [Rules::Sync, Rules::Soft] {
        for good in [&new, &both, &old] {
            assert_eq!(wrong(&world, good, rules), "", "{rules:?}");
        }
        assert!(wrong(&world, &neither, rules).contains("(I11)"), "{rules:?}");
    }
    assert_eq!(wrong(&world, &neither, Rules::Async), "", "the name was given up");
}

#[test]
fn what_was_synced_has_a_name_until_it_is_removed() {
    let mut world = world(&[R::Create(FOO), R::Append(FOO, 2), R::Fsync(FOO)]);
    let mut gone = tree(&world);
    let ino = names(&mut gone).remove(&Name::FOO).expect("it is there");
    gone.objects.remove(&ino);
    for rules in [Rules::Async, Rules::Sync, Rules::Soft] {
        assert!(wrong(&world, &gone, rules).contains("(I10)"), "{rules:?}");
    }
    let there = tree(&world);
    go_on(&mut world, &[R::Unlink(FOO)]);
    for rules in [Rules::Async, Rules::Sync, Rules::Soft] {
        assert_eq!(wrong(&world, &gone, rules), "", "{rules:?}");
        assert_eq!(wrong(&world, &there, rules), "", "{rules:?}: the removal is not durable");
    }
    go_on(&mut world, &[R::Sync]);
    for rules in [Rules::Sync, Rules::Soft] {
        assert!(wrong(&world, &there, rules).contains("cannot lead to"), "{rules:?}");
    }
}

/// Content and size of a synced file stay whatever comes behind it, and its name whatever comes
/// beside it.
#[test]
fn what_was_synced_stays_when_a_file_grows_and_its_directory_changes() {
    let steps =
        [R::Create(FOO), R::Append(FOO, 2), R::Fsync(FOO), R::Append(FOO, 3), R::Create(BAR)];
    let world = world(&steps);
    let right = tree(&world);
    let ino = names(&mut right.clone())[&Name::FOO];
    let changed = |change: &dyn Fn(&mut Found)| {
        let mut tree = right.clone();
        change(tree.objects.get_mut(&ino).expect("it is there"));
        tree
    };
    let cells = |found: &mut Found, sector: u32| match &mut found.body {
        Body::File(cells) => cells.retain(|one| one.0 != sector),
        other => panic!("{other:?}"),
    };
    let mut gone = right.clone();
    names(&mut gone).remove(&Name::FOO);
    gone.objects.remove(&ino);
    for rules in [Rules::Async, Rules::Sync, Rules::Soft] {
        assert_eq!(wrong(&world, &right, rules), "", "{rules:?}");
        assert!(wrong(&world, &changed(&|file| cells(file, 1)), rules).contains("sector 1"));
        let short = changed(&|file| {
            file.size = 512;
            (1..5).for_each(|sector| cells(file, sector));
        });
        assert!(wrong(&world, &short, rules).contains("512 bytes"));
        assert!(wrong(&world, &gone, rules).contains("(I10)"), "{rules:?}");
    }
    let appended = changed(&|file| cells(file, 3));
    assert_eq!(wrong(&world, &appended, Rules::Async), "", "that was not synced");
}

#[test]
fn a_new_object_is_complete_or_not_there() {
    let world = world(&[R::Create(FOO)]);
    let there = tree(&world);
    let mut bad = there.clone();
    let ino = names(&mut bad)[&Name::FOO];
    bad.objects.get_mut(&ino).expect("it is there").attrs.mode = 0;
    let mut unknown = there.clone();
    unknown.objects.get_mut(&ino).expect("it is there").generation = 9;
    let mut free = there.clone();
    free.objects.remove(&ino);
    for rules in [Rules::Sync, Rules::Soft] {
        assert_eq!(wrong(&world, &there, rules), "");
        assert!(wrong(&world, &bad, rules).contains("has mode"));
        assert!(wrong(&world, &unknown, rules).contains("no client knows"));
        assert!(wrong(&world, &free, rules).contains("is free"));
    }
}

#[test]
fn content_is_old_new_or_fresh() {
    let world = world(&[
        R::Create(FOO),
        R::Append(FOO, 2),
        R::Sync,
        R::Write(FOO, 0, 1),
        R::Append(FOO, 1),
    ]);
    let whole = tree(&world);
    let ino = names(&mut whole.clone())[&Name::FOO];
    let with = |sector: u32, cell: Cell| {
        let mut tree = whole.clone();
        if let Body::File(cells) = &mut tree.objects.get_mut(&ino).expect("it is there").body {
            cells.retain(|(one, _)| *one != sector);
            cells.push((sector, cell));
        }
        tree
    };
    let tag = |object, sector, version| Cell::tagged(Tag { object, sector, version }, 512);
    // Sector 0 was overwritten, sector 1 is durable, sector 2 is new.
    let (old, other) = (tag(1, 0, 2), tag(7, 3, 1));
    for rules in [Rules::Sync, Rules::Soft] {
        assert_eq!(wrong(&world, &whole, rules), "", "{rules:?}");
        assert_eq!(wrong(&world, &with(0, old), rules), "", "{rules:?}");
        assert!(wrong(&world, &with(0, other), rules).contains("(I8)"), "{rules:?}");
        assert!(wrong(&world, &with(1, old), rules).contains("sector 1"), "{rules:?}");
    }
    assert_eq!(wrong(&world, &with(2, other), Rules::Sync), "", "a fresh block");
    assert!(wrong(&world, &with(2, other), Rules::Soft).contains("(I8)"));
    assert_eq!(wrong(&world, &with(0, other), Rules::Async), "", "the file was changed");
}

#[test]
fn sizes_lie_between_those_of_the_file() {
    let world = world(&[R::Create(FOO), R::Append(FOO, 4), R::Sync, R::Append(FOO, 8)]);
    let whole = tree(&world);
    let ino = names(&mut whole.clone())[&Name::FOO];
    let sized = |size: u64| {
        let mut tree = whole.clone();
        let file = tree.objects.get_mut(&ino).expect("it is there");
        file.size = size;
        if let Body::File(cells) = &mut file.body {
            cells.retain(|(sector, _)| u64::from(*sector) * 512 < size);
        }
        tree
    };
    for size in [4 * 512, 6 * 512, 12 * 512] {
        assert_eq!(wrong(&world, &sized(size), Rules::Soft), "", "{size}");
    }
    for size in [0, 3 * 512, 13 * 512] {
        assert!(wrong(&world, &sized(size), Rules::Soft).contains("bytes"), "{size}");
    }
    // What was synced stays, and behind it there may be anything.
    assert!(wrong(&world, &sized(0), Rules::Async).contains("bytes"));
    for size in [4 * 512, 6 * 512, 13 * 512] {
        assert_eq!(wrong(&world, &sized(size), Rules::Async), "", "{size}");
    }
}

/// Without generations a file that was removed and the one that took its number are told apart by
/// what is there: either may be found, and no mixture of them.
#[test]
fn an_inode_number_that_is_used_again_is_told_by_what_is_there() {
    let mut world = world(&[R::Create(FOO), R::Append(FOO, 2), R::Sync]);
    let old = tree(&world);
    let ino = names(&mut old.clone())[&Name::FOO];
    world = world.with_generations(false);
    for request in [R::Unlink(FOO), R::Create(FOO)] {
        let effects = world.plan(request).expect("it is possible");
        world.send(effects);
        for effect in world.confirm() {
            if let Effect::Made(object) = effect {
                assert!(world.identify(object, (ino, 1)), "the number is free");
            }
        }
    }
    let new = tree(&world);
    for rules in [Rules::Sync, Rules::Soft, Rules::Async] {
        assert_eq!(wrong(&world, &new, rules), "", "{rules:?}");
        assert_eq!(wrong(&world, &old, rules), "", "{rules:?}");
    }
    let first = known_objects(&world, &old, Rules::Soft)[&ino];
    assert_ne!(first, known_objects(&world, &new, Rules::Soft)[&ino]);
    let mut mixed = old.clone();
    mixed.objects.get_mut(&ino).expect("it is there").attrs.mode = 0o600;
    assert!(wrong(&world, &mixed, Rules::Soft).contains("mode"));
    // One with a name keeps its number to itself.
    let effects = world.plan(R::Create(BAR)).expect("it is possible");
    world.send(effects);
    let made = world.objects.len() as Object - 1;
    world.confirm();
    assert!(!world.identify(made, (ino, 1)));
}
