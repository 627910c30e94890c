//! Modules of a crate import one another in one direction: a cycle of files is a room without a
//! door, which can only be understood as a whole. Crates cannot be cyclic; their modules could.

use super::Findings;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates whose top-level modules must form no cycle.
pub const CRATES: [&str; 5] =
    ["crates/engine", "crates/layouts", "crates/arrays", "crates/prove", "crates/crash"];

/// Modules, and those that each imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Names each cycle of the modules of a crate.
pub fn check(root: &Path, package: &str, found: &mut Findings) {
    let source = root.join(package).join("src");
    let Ok(top) = fs::read_to_string(source.join("lib.rs")) else { return };
    let mut graph = modules(&top).map(|name| (name, BTreeSet::new())).collect::<Graph>();
    let names: BTreeSet<String> = graph.keys().cloned().collect();
    for name in &names {
        let mut imports = BTreeSet::new();
        visit(&source.join(format!("{name}.rs")), &names, &mut imports);
        visit(&source.join(name), &names, &mut imports);
        imports.remove(name);
        graph.insert(name.clone(), imports);
    }
    for cycle in cycles(&graph) {
        let text = format!("modules import each other: {}", cycle.join(" -> "));
        found.error(package, 0, text);
    }
}

fn modules(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    })
}

/// Collects the modules that a file, or the files of a folder, import outside tests.
fn visit(path: &Path, names: &BTreeSet<String>, imports: &mut BTreeSet<String>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.for_each(|entry| visit(&entry.path(), names, imports));
    }
    if path.file_name().is_some_and(|name| name == "tests.rs") {
        return;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for rest in line.split("crate::").skip(1) {
            let word: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if names.contains(&word) {
                imports.insert(word);
            }
        }
    }
}

/// Cycles of a graph, each once, as the way round.
fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for start in graph.keys() {
        search(graph, &mut vec![start.clone()], &mut done, &mut found);
    }
    found
}

fn search(
    graph: &Graph,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
    found: &mut Vec<Vec<String>>,
) {
    let Some(last) = way.last().cloned() else { return };
    if done.contains(&last) {
        return;
    }
    for next in graph.get(&last).into_iter().flatten() {
        match way.iter().position(|one| one == next) {
            Some(first) => {
                let mut cycle = way[first..].to_vec();
                cycle.push(next.clone());
                found.push(cycle);
            }
            None => {
                way.push(next.clone());
                search(graph, way, done, found);
                way.pop();
            }
        }
    }
    done.insert(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for &(from, to) in edges {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        graph
    }

    #[test]
    fn a_cycle_is_found_and_a_diamond_is_none() {
        let diamond = graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]);
        assert_eq!(cycles(&diamond), Vec::<Vec<String>>::new());
        let long = graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]);
        assert_eq!(cycles(&long), [["a", "b", "c", "a"].map(str::to_owned)]);
    }

    #[test]
    fn imports_are_read_from_code_and_not_from_tests() {
        let dir = std::env::temp_dir().join(format!("seekless-cycles-{}", std::process::id()));
        fs::create_dir_all(dir.join("x/src")).expect("a directory");
        let write = |name: &str, text: &str| {
            fs::write(dir.join("x/src").join(name), text).expect("a file");
        };
        write("lib.rs", "pub mod a;\nmod b;\n");
        write("a.rs", "use crate::b::B;\n");
        write("b.rs", "// crate::a\nstruct B;\n#[cfg(test)]\nuse crate::a::A;\n");
        let mut found = Findings::default();
        check(&dir, "x", &mut found);
        assert_eq!(found.errors, Vec::<String>::new());
        write("b.rs", "fn f(a: crate::a::A) {}\n");
        check(&dir, "x", &mut found);
        fs::remove_dir_all(&dir).expect("it is there");
        assert_eq!(found.errors, ["x: modules import each other: a -> b -> a"]);
    }
}
