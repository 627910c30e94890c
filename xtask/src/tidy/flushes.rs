//! Every flush that a promise rests on has a name.
//!
//! A layout, an array, a file system flushes for a reason, which is an edge
//! (`crates/engine/src/edge.rs`) and has a line in the ledger. Without a name, nothing can leave
//! the flush out to see whether the prover notices.

/// Folders of the programs whose flushes are edges.
const FOLDERS: [&str; 4] =
    ["crates/layouts/src/", "crates/arrays/src/", "crates/formats/src/", "crates/fs/src/"];
/// Files of others.
const FILES: [&str; 2] = ["crates/engine/src/superblock.rs", "crates/engine/src/joined.rs"];

/// Lines of a file that flush without a name, counted from 1. Devices hand flushes on: what stands
/// in a function `flush`, or is chosen by `Op::Flush`, needs none.
pub fn nameless(name: &str, text: &str) -> Vec<usize> {
    let is_bound = FOLDERS.iter().any(|folder| name.starts_with(folder)) || FILES.contains(&name);
    if !is_bound || name.contains("tests") {
        return Vec::new();
    }
    // `concat!` keeps this file from naming what it looks for.
    let flushes = [concat!(".flu", "sh()"), concat!("Io::flu", "sh(")];
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let is_handed_on = |index: usize| {
        let within = lines[index.saturating_sub(1)..=index].iter();
        within.clone().any(|line| line.contains("fn flush(") || line.contains("Op::Flush"))
    };
    let offends = |index: &usize| {
        flushes.iter().any(|flush| lines[*index].contains(flush)) && !is_handed_on(*index)
    };
    (0..lines.len()).filter(offends).map(|index| index + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_without_a_name_is_found() {
        let flush = concat!("        disk.flu", "sh()?;\n");
        let text = format!("fn mount() {{\n{flush}}}\n");
        assert_eq!(nameless("crates/layouts/src/vlog/recover.rs", &text), [2]);
        assert_eq!(nameless("crates/serve/src/server.rs", &text), [0; 0], "not bound");
        assert_eq!(nameless("crates/layouts/src/x/tests.rs", &text), [0; 0]);
        let device = format!("fn flush(&mut self) {{\n{flush}}}\n");
        assert_eq!(nameless("crates/layouts/src/vlog/recover.rs", &device), [0; 0]);
        let named = "disk.flush_for(Edge::VlogMountFlush)?;\n";
        assert_eq!(nameless("crates/layouts/src/vlog/recover.rs", named), [0; 0]);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{flush}}}\n");
        assert_eq!(nameless("crates/layouts/src/vlog/recover.rs", &tested), [0; 0]);
    }
}
