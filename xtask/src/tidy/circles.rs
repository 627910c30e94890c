//! Files of a crate import one another in one direction: files in a circle can only be understood
//! together.
//!
//! A file imports the file that the longest module prefix of a path names, after imports and
//! re-exports on the way are followed. Every path outside tests counts, in `use` or in code. Paths
//! between a module and a module inside it do not count: `impl` blocks split over files need both
//! directions. A circle is a strongly connected component of this graph.
//!
//! The list holds the circles that are tolerated, one a line, and can only shrink.

mod scan;

use super::Findings;
use scan::{Scan, scan};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The list, from the root of the checkout.
const LIST: &str = "xtask/src/tidy/circles.txt";
/// Files of the largest circle that the list may hold.
const MOST_FILES: usize = 8;
/// Imports and re-exports that a path may lead through.
const MOST_STEPS: usize = 16;

/// Sorted names of the files of a circle.
type Circle = Vec<String>;
/// Files, and those that each imports.
type Graph = BTreeMap<String, BTreeSet<String>>;
/// Names of the modules from the root of a crate to one of its files.
type Module = Vec<String>;

/// Compares the circles of all crates with the list.
pub fn check(root: &Path, found: &mut Findings) {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let names = crates.map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    let mut packages: Vec<String> = names.chain(["xtask".to_owned()]).collect();
    packages.sort();
    let circles: Vec<Circle> =
        packages.iter().flat_map(|package| circles(&graph(root, package))).collect();
    compare(&circles, &fs::read_to_string(root.join(LIST)).unwrap_or_default(), found);
}

/// Reports circles that are not in the list, and entries that the code no longer has.
fn compare(circles: &[Circle], list: &str, found: &mut Findings) {
    let listed: Vec<Circle> =
        list.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    for circle in circles.iter().filter(|circle| !listed.contains(circle)) {
        found.error(LIST, 0, format!("files import each other in a circle: {}", circle.join(" ")));
    }
    for (index, entry) in listed.iter().enumerate() {
        if !circles.contains(entry) {
            found.error(
                LIST,
                index + 1,
                "the code has no such circle: remove or shorten the entry",
            );
        }
        if entry.len() > MOST_FILES {
            let text = format!("a circle of {} files, {MOST_FILES} at most", entry.len());
            found.error(LIST, index + 1, text);
        }
    }
}

/// The files of a crate outside tests, and their imports.
fn graph(root: &Path, package: &str) -> Graph {
    let mut files = BTreeMap::new();
    read(&root.join(package).join("src"), &mut Module::new(), &mut files);
    let tests: Vec<Module> =
        files.iter().flat_map(|(module, scan)| test_modules(module, scan)).collect();
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    let name = |module: &Module| match module.as_slice() {
        [] => format!("{package}/src"),
        names => format!("{package}/src/{}.rs", names.join("/")),
    };
    let imports = |(module, scan): (&Module, &Scan)| {
        let ends = scan.paths.iter().filter_map(|path| resolve(&files, module, path, MOST_STEPS));
        let far = |end: &Module| !end.starts_with(module) && !module.starts_with(end);
        (name(module), ends.filter(far).map(|end| name(&end)).collect())
    };
    files.iter().map(imports).collect()
}

fn test_modules(module: &Module, scan: &Scan) -> Vec<Module> {
    let inside = |name: &String| module.iter().chain([name]).cloned().collect();
    scan.tests.iter().map(inside).collect()
}

/// Reads the files of a folder, which are the modules in `module`.
fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, Scan>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_root = module.is_empty() && (stem == "lib" || stem == "main");
        module.push(stem);
        if path.is_dir() {
            read(&path, module, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let key = if is_root { Module::new() } else { module.clone() };
            files.insert(key, scan(&fs::read_to_string(&path).unwrap_or_default()));
        }
        module.pop();
    }
}

/// The file that a path in a module names; none if the path leaves the crate.
fn resolve(
    files: &BTreeMap<Module, Scan>,
    module: &Module,
    path: &[String],
    steps: usize,
) -> Option<Module> {
    let steps = steps.checked_sub(1)?;
    let mut at = module.clone();
    for (index, name) in path.iter().enumerate() {
        let inside: Module = at.iter().chain([name]).cloned().collect();
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ if files.contains_key(&inside) => at = inside,
            _ => {
                let names = files.get(&at).map_or(&[][..], |scan| scan.names.as_slice());
                let alias = names.iter().find(|(own, to)| own == name && to != path);
                let Some((_, to)) = alias else { return (index > 0).then_some(at) };
                let whole: Vec<String> = to.iter().chain(&path[index + 1..]).cloned().collect();
                return resolve(files, &at, &whole, steps).or_else(|| (index > 0).then_some(at));
            }
        }
    }
    Some(at)
}

/// Strongly connected components of at least two files, by Tarjan's algorithm.
fn circles(graph: &Graph) -> Vec<Circle> {
    let mut search = Search::new(graph);
    for file in graph.keys() {
        if !search.numbers.contains_key(file.as_str()) {
            search.visit(file);
        }
    }
    search.circles.sort();
    search.circles
}

struct Search<'g> {
    graph: &'g Graph,
    /// The order in which files are reached.
    numbers: BTreeMap<&'g str, usize>,
    /// Files whose component is open.
    stack: Vec<&'g str>,
    circles: Vec<Circle>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph) -> Self {
        Search { graph, numbers: BTreeMap::new(), stack: Vec::new(), circles: Vec::new() }
    }

    /// Closes the components below a file; the answer is the lowest number that it reaches.
    fn visit(&mut self, file: &'g str) -> usize {
        let number = self.numbers.len();
        let mut low = number;
        self.numbers.insert(file, number);
        self.stack.push(file);
        for next in self.graph.get(file).into_iter().flatten() {
            match self.numbers.get(next.as_str()) {
                None => low = low.min(self.visit(next)),
                Some(&known) if self.stack.contains(&next.as_str()) => low = low.min(known),
                Some(_) => {}
            }
        }
        if low == number
            && let Some(begin) = self.stack.iter().position(|one| *one == file)
        {
            let mut circle: Circle = self.stack.drain(begin..).map(str::to_owned).collect();
            circle.sort();
            if circle.len() > 1 {
                self.circles.push(circle);
            }
        }
        low
    }
}

#[cfg(test)]
mod tests;
