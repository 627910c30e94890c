//! The words of the contract page: a table for each policy and mode of data, and one of the kinds
//! of damage. Policies that promise the same share a table.

use super::Rules;
use super::damage::{Damage, Damages};
use super::operation::{Operation, Operations};
use super::standard;
use super::table::{Contract, Covers, Durable, Row};
use std::fmt::Write as _;

/// A test, and the file that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The function.
    pub test: &'static str,
    /// Its file, from the top of the repository.
    pub file: &'static str,
}

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Whether programs see the old state or the new one, and nothing else.
    Atomic,
    /// When it is durable.
    Durable,
    /// What a crash may leave.
    Leaves,
    /// What a repair may do.
    Repair,
}

const SWEEP: Proof =
    Proof { test: "every_policy_keeps_its_contract", file: "crates/prove/tests/suite/files.rs" };
const ACE: Proof = Proof {
    test: "every_short_sequence_keeps_the_contract",
    file: "crates/prove/tests/suite/files.rs",
};
const MORE: Proof = Proof {
    test: "a_row_that_promises_more_is_broken",
    file: "crates/prove/tests/suite/contract.rs",
};
const LESS: Proof = Proof {
    test: "an_fsync_that_promises_less_hides_a_bug",
    file: "crates/prove/tests/suite/contract.rs",
};
const CELLS: Proof =
    Proof { test: "the_judge_reads_every_cell", file: "crates/prove/src/files/judge/cells.rs" };
const REPAIR: Proof = Proof {
    test: "the_repair_of_what_is_harmless_changes_nothing_that_a_name_leads_to",
    file: "crates/formats/src/ffs/offline/repair/tests.rs",
};
const AGAIN: Proof = Proof {
    test: "a_repair_that_is_cut_is_finished_by_the_next",
    file: "crates/formats/src/ffs/offline/repair/tests.rs",
};

/// The tests that hold a cell.
pub fn proofs(row: &Row, column: Column) -> Vec<Proof> {
    let promises_more = row.durable != Durable::Refused && !row.is_barrier();
    match column {
        Column::Atomic | Column::Leaves if promises_more => vec![ACE, CELLS, MORE],
        Column::Durable if promises_more => vec![ACE, SWEEP, MORE],
        Column::Atomic | Column::Leaves => vec![ACE, CELLS],
        Column::Durable if row.is_barrier() => vec![ACE, SWEEP, LESS],
        Column::Durable => vec![ACE],
        Column::Repair if row.leaves.has(Damage::Anything) => vec![SWEEP, AGAIN],
        Column::Repair => vec![SWEEP, REPAIR, AGAIN],
    }
}

/// What stands between the marks of the page.
pub fn page() -> String {
    let mut out = String::new();
    for contracts in equal_contracts() {
        table(&mut out, &contracts);
    }
    damages(&mut out);
    standard::table(&mut out);
    out
}

/// The contracts in the order of the page. Those of one table differ in the name only.
fn equal_contracts() -> Vec<Vec<&'static Contract>> {
    let promises = |contract: &Contract| {
        (contract.repairs, contract.one_point, contract.content, contract.rows)
    };
    let mut tables: Vec<Vec<&Contract>> = Vec::new();
    for contract in Rules::all().into_iter().map(Rules::contract) {
        match tables.iter_mut().find(|table| promises(table[0]) == promises(contract)) {
            Some(table) => table.push(contract),
            None => tables.push(vec![contract]),
        }
    }
    tables
}

/// The policies of a table, and their mode of data if it is not the default.
fn heading(contracts: &[&Contract]) -> String {
    let late = "-writeback";
    let policy = |one: &&Contract| format!("`{}`", one.policy.trim_end_matches(late));
    let policies = contracts.iter().map(policy).collect::<Vec<_>>().join(" and ");
    match contracts[0].policy.ends_with(late) {
        true => format!("{policies} with `--data writeback`"),
        false => policies,
    }
}

/// What happens after a crash, and what holds for all rows of a table.
fn recovery(contract: &Contract) -> &'static str {
    match (contract.repairs, contract.one_point) {
        (true, _) => "After a crash `fsck --repair` comes before the mount.",
        (false, false) => {
            "After a crash it is mounted at once. While it is mounted it frees what has leaked and \
             lowers counts; `fsck --repair` drops the second name of a directory."
        }
        (false, true) if contract.content => {
            "After a crash it is mounted at once. While it is mounted it frees what has leaked. \
             Names, attributes, sizes and content are together those after one of the operations; \
             of a call that writes or cuts off more than 32 blocks, or is made where space is \
             short, a part may be there, from its start. What a call makes durable brings all \
             operations before it."
        }
        (false, true) if contract.leaves(Operations::ALL).has(Damage::Leak) => {
            "After a crash it is mounted at once. While it is mounted it frees what has leaked. \
             Names, attributes and sizes are together those after one of the operations. What a \
             call makes durable brings the names, attributes and sizes of all operations before it."
        }
        (false, true) => {
            "After a crash it is mounted at once: the mount recovers from the log. Names, \
             attributes and sizes are together those after one of the operations. What a call \
             makes durable brings the names, attributes and sizes of all operations before it."
        }
    }
}

fn table(out: &mut String, contracts: &[&Contract]) {
    let rows = &contracts[0].rows;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "#### FFS under {}\n\n{}\n\n\
         | operation | atomic | durable | a crash may leave before that | repair | held by |\n\
         |---|---|---|---|---|---|\n",
        heading(contracts),
        recovery(contracts[0])
    );
    for row in rows {
        let mut held = Vec::new();
        for column in [Column::Atomic, Column::Durable, Column::Leaves, Column::Repair] {
            let new = proofs(row, column).into_iter().filter(|one| !held.contains(one));
            held.extend(new.collect::<Vec<_>>());
        }
        let held: Vec<String> = held.iter().map(Proof::link).collect();
        let atomic = match (row.durable, row.is_atomic()) {
            (Durable::Refused, _) => "–",
            (_, true) => "yes",
            (_, false) => "no",
        };
        let _ = writeln!(
            out,
            "| {} | {atomic} | {} | {} | {} | {} |",
            row.operation.name(),
            durable(row),
            leaves(row),
            repair(row.leaves),
            held.join(", ")
        );
    }
    out.push('\n');
}

impl Proof {
    fn link(&self) -> String {
        format!("[`{}`]({})", self.test, self.file)
    }
}

fn durable(row: &Row) -> &'static str {
    match row.durable {
        Durable::Acknowledged => "when acknowledged",
        Durable::Synced => "after fsync or sync",
        Durable::Refused => "refused with EINVAL",
    }
}

fn leaves(row: &Row) -> String {
    if row.is_barrier() {
        return format!("makes durable: {}", covers(row.covers));
    }
    if row.durable == Durable::Refused {
        return "–".to_owned();
    }
    match words(row.leaves) {
        words if words.is_empty() => "old or new".to_owned(),
        words if row.leaves.has(Damage::Anything) => words,
        words => format!("old or new; {words}"),
    }
}

fn words(damages: Damages) -> String {
    let words: Vec<&str> = damages.iter().map(Damage::word).collect();
    words.join(", ")
}

fn covers(covers: Covers) -> String {
    let Covers { content, attributes, names } = covers;
    let parts = [
        (content, "content and size"),
        (attributes, "attributes"),
        (names, "a path; of a directory its names"),
    ];
    let parts: Vec<&str> = parts.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    parts.join(", ")
}

fn repair(damages: Damages) -> String {
    let words: Vec<&str> = damages.iter().filter_map(Damage::repair).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

fn damages(out: &mut String) {
    out.push_str(
        "#### Kinds of damage\n\n| kind | what it is | seen by programs |\n|---|---|---|\n",
    );
    for damage in Damage::ALL {
        let seen = if damage.is_seen() { "yes" } else { "no" };
        let _ = writeln!(out, "| {} | {} | {seen} |", damage.word(), damage.meaning());
    }
    let kinds = Operation::ALL.len();
    let _ = writeln!(out, "\nThere are {kinds} rows in each table of a policy.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_each_operation_of_each_policy() {
        let page = page();
        let tables = equal_contracts();
        let policies: usize = tables.iter().map(Vec::len).sum();
        assert_eq!(policies, Rules::all().len(), "each policy has a table");
        for contracts in &tables {
            let heading = format!("#### FFS under {}\n", heading(contracts));
            assert_eq!(page.matches(&heading).count(), 1, "{heading}");
        }
        for operation in Operation::ALL {
            let rows = page.matches(&format!("\n| {} |", operation.name())).count();
            assert_eq!(rows, tables.len() + 1, "{operation:?}");
        }
        assert!(page.contains("| write, append | no | after fsync or sync | anything |"));
    }

    #[test]
    fn a_cell_that_is_changed_changes_the_page() {
        let text = |contract: &Contract| {
            let mut out = String::new();
            table(&mut out, &[contract]);
            out
        };
        for base in Rules::all().into_iter().map(Rules::contract) {
            for operation in Operation::ALL.into_iter().filter(|one| !base.refuses(*one)) {
                let mut changed = *base;
                let row = &mut changed.rows[operation as usize];
                match row.is_barrier() {
                    true => row.covers.names = false,
                    false if row.leaves.has(Damage::Anything) => row.leaves = Damages::NONE,
                    false => row.leaves = row.leaves.with(Damage::Anything),
                }
                assert_ne!(text(&changed), text(base), "{operation:?}");
            }
        }
    }
}
