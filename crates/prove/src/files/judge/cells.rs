//! Each cell of the contract decides: a tree with a kind of damage is good if the row of the
//! operation allows it, and bad if it does not. The rows are tried as they are and turned round.

use super::tests::{BAR, FOO, tree, world, wrong};
use super::*;
use crate::files::contract::damage::Damages;
use crate::files::contract::operation::Operation;
use crate::files::request::FileRequest as R;
use crate::files::tags::Tag;

/// The rules with a cell turned round.
fn flipped(rules: Rules, operation: Operation, damage: Damage) -> Rules {
    let mut contract = *rules.contract();
    let leaves = &mut contract.rows[operation as usize].leaves;
    *leaves = match leaves.has(damage) {
        true => leaves.without(damage),
        false => leaves.with(damage),
    };
    Rules::Changed(Box::leak(Box::new(contract)))
}

/// The rules that promise something of each operation.
fn strict() -> Vec<Rules> {
    Rules::all().into_iter().filter(|rules| *rules != Rules::Async).collect()
}

/// Something durable, then this operation alone since the mount.
fn done(before: &[R], request: R) -> World {
    let mut world = world(before);
    super::tests::go_on(&mut world, &[R::Sync]);
    world.done = Default::default();
    super::tests::go_on(&mut world, &[request]);
    world
}

fn inode(tree: &Tree) -> u32 {
    let ino = tree.objects.keys().copied().find(|&ino| ino != ROOT_INO as u32);
    ino.expect("a file")
}

/// The tree as the client knows it, of what can be read.
fn now(world: &World) -> Tree {
    let mut tree = tree(world);
    for found in tree.objects.values_mut() {
        let size = found.size;
        if let Body::File(cells) = &mut found.body {
            cells.retain(|(sector, cell)| {
                u64::from(*sector) * 512 < size && !matches!(cell, Cell::Absent | Cell::Zeros)
            });
        }
    }
    tree
}

/// The tree with other sectors in its file.
fn with(tree: &Tree, sectors: &[(u32, Cell)]) -> Tree {
    let mut tree = tree.clone();
    let ino = inode(&tree);
    if let Body::File(cells) = &mut tree.objects.get_mut(&ino).expect("it is there").body {
        cells.retain(|(one, _)| sectors.iter().all(|(other, _)| one != other));
        cells.extend_from_slice(sectors);
        cells.sort_unstable_by_key(|(sector, _)| *sector);
    }
    tree
}

fn sized(tree: &Tree, size: u64) -> Tree {
    let mut tree = tree.clone();
    let ino = inode(&tree);
    let found = tree.objects.get_mut(&ino).expect("it is there");
    found.size = size;
    if let Body::File(cells) = &mut found.body {
        cells.retain(|(sector, _)| u64::from(*sector) * 512 < size);
    }
    tree
}

fn cell(object: Object, sector: u32, version: Change) -> Cell {
    Cell::tagged(Tag { object, sector, version }, 512)
}

/// For each kind of damage that a tree can show, a client and a tree that shows it.
fn damaged() -> Vec<(Operation, Damage, World, Tree)> {
    let mut all = Vec::new();
    let file = [R::Create(FOO), R::Append(FOO, 4)];
    let requests = [
        (Operation::Create, &[][..], R::Create(FOO)),
        (Operation::Mkdir, &[], R::Mkdir(FOO)),
        (Operation::Link, &file, R::Link(FOO, BAR)),
        (Operation::Remove, &file, R::Unlink(FOO)),
        (Operation::Rename, &file, R::Rename(FOO, BAR)),
        (
            Operation::Replace,
            &[R::Create(FOO), R::Append(FOO, 4), R::Create(BAR)],
            R::Rename(FOO, BAR),
        ),
        (Operation::Write, &file, R::Write(FOO, 1, 2)),
        (Operation::Truncate, &file, R::Truncate(FOO, 700)),
        (Operation::Allocate, &file, R::Allocate(FOO, 0, 8)),
        (Operation::Attributes, &file, R::Chmod(FOO, 0o600)),
    ];
    // What a check of the image finds.
    for (operation, before, request) in requests {
        let world = done(before, request);
        for damage in [Damage::Leak, Damage::Count, Damage::Maps, Damage::TwoParents] {
            let damages = Damages::of(&[damage]);
            let found = Tree { damages, ..now(&world) };
            all.push((operation, damage, world.clone(), found));
        }
    }
    // The old name beside the new one.
    for operation in [Operation::Rename, Operation::Replace] {
        let (_, before, request) =
            requests.into_iter().find(|(one, ..)| *one == operation).expect("it is in the list");
        let world = done(before, request);
        let mut both = now(&world);
        let ino = inode(&both);
        if let Body::Directory(names, _) = &mut both.objects.get_mut(&2).expect("the root").body {
            names.insert(Name::FOO, ino);
        }
        all.push((operation, Damage::BothNames, world, both));
    }
    // One of two sectors.
    for (operation, request) in
        [(Operation::Write, R::Write(FOO, 1, 2)), (Operation::Allocate, R::Punch(FOO, 1, 2))]
    {
        let world = done(&file, request);
        let mixed = with(&now(&world), &[(1, cell(1, 1, 2))]);
        all.push((operation, Damage::Sectors, world, mixed));
    }
    // A size on the way.
    let large = [R::Create(FOO), R::Truncate(FOO, 1 << 20)];
    for (operation, before, request, size) in [
        (Operation::Write, &file, R::Append(FOO, 8), 6 * 512),
        (Operation::Allocate, &file, R::Allocate(FOO, 8, 8), 12 * 512),
        (Operation::Truncate, &large, R::Truncate(FOO, 0), 512 << 10),
    ] {
        let world = done(before, request);
        let between = sized(&now(&world), size);
        all.push((operation, Damage::Size, world, between));
    }
    // Blocks that others had.
    for (operation, request) in [
        (Operation::Write, R::Write(FOO, 20, 1)),
        (Operation::Truncate, R::Truncate(FOO, 30 * 512)),
        (Operation::Allocate, R::Allocate(FOO, 20, 8)),
    ] {
        let world = done(&file, request);
        let stale = with(&now(&world), &[(20, cell(7, 3, 1))]);
        all.push((operation, Damage::Stale, world, stale));
    }
    all
}

#[test]
fn the_judge_reads_every_cell() {
    for (operation, damage, world, found) in damaged() {
        for rules in strict() {
            if rules.contract().one_point && damage == Damage::BothNames {
                // No point in time has both, whatever a row allows.
                assert_ne!(wrong(&world, &found, flipped(rules, operation, damage)), "");
                continue;
            }
            let of_content = matches!(damage, Damage::Sectors | Damage::Stale | Damage::Size);
            if rules.contract().content && of_content {
                // Where content is of one point in time, that decides, and no row.
                continue;
            }
            let turned = flipped(rules, operation, damage);
            for one in [rules, turned] {
                let allowed = one.contract().row(operation).leaves.has(damage);
                let said = wrong(&world, &found, one);
                assert_eq!(
                    said.is_empty(),
                    allowed,
                    "{} {operation:?} {damage:?}: {said}",
                    rules.name()
                );
            }
            let whole = wrong(&world, &now(&world), rules);
            assert_eq!(whole, "", "{operation:?}: the new state is good");
        }
        // Where anything may be left, nothing is objected to; without that, this is.
        let turned = flipped(Rules::Async, operation, Damage::Anything);
        for rules in [Rules::Async, turned] {
            let allowed = rules.contract().row(operation).leaves.has(Damage::Anything);
            let said = wrong(&world, &found, rules);
            assert_eq!(said.is_empty(), allowed, "async {operation:?} {damage:?}: {said}");
        }
    }
}

/// The damage that a kind of operation cannot show is in no row of it.
#[test]
fn no_row_allows_what_cannot_be() {
    let names = [Operation::Rename, Operation::Replace];
    let content = [Operation::Write, Operation::Truncate, Operation::Allocate];
    for rules in strict() {
        for row in &rules.contract().rows {
            let about_names =
                row.leaves.has(Damage::BothNames) || row.leaves.has(Damage::TwoParents);
            let about_content =
                [Damage::Sectors, Damage::Size, Damage::Stale].iter().any(|&d| row.leaves.has(d));
            assert!(!about_names || names.contains(&row.operation), "{row:?}");
            assert!(!about_content || content.contains(&row.operation), "{row:?}");
            let promises_nothing = row.is_barrier() && !row.covers.content;
            assert!(!promises_nothing, "{row:?}");
        }
    }
}
