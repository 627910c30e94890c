use super::*;

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

fn errors(circles: &[Circle], list: &str) -> Vec<String> {
    let mut found = Findings::default();
    compare(circles, list, &mut found);
    found.errors
}

/// The circles of a crate of these files.
fn circles_of(test: &str, files: &[(&str, &str)]) -> Vec<Circle> {
    let dir = std::env::temp_dir().join(format!("seekless-circles-{test}-{}", std::process::id()));
    for (name, text) in files {
        let path = dir.join("x/src").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let found = circles(&graph(&dir, "x"));
    fs::remove_dir_all(&dir).expect("it is there");
    found
}

#[test]
fn a_circle_is_found_and_a_diamond_is_none() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for &(from, to) in edges {
            graph.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        graph
    };
    let diamond = graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]);
    assert_eq!(circles(&diamond), Vec::<Circle>::new());
    // Two simple cycles that share a file are one circle.
    let knot = graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d")]);
    assert_eq!(circles(&knot), [owned(&["a", "b", "c"])]);
}

#[test]
fn every_form_of_import_closes_a_circle() {
    let both = [owned(&["x/src/m/a.rs", "x/src/m/b.rs"])];
    for (index, import) in [
        "use crate::m::b::B;",
        "use super::b::B;",
        "use super::{c::C, b};",
        "use crate::{d, m::{c, b::{self, B}}};",
        "pub(crate) use super::b::*;",
        "use crate::m::b as other;",
        "use super::B;",
        "use crate::B;",
        "fn f(b: super::b::B) {}",
        "fn f() { let _ = '\"'; crate::m::b::f(); }",
        "mod inner { use super::super::b::B; }",
        "fn f<'a>(x: &'a str) -> bool { x == r#\"\"\"# || self::super::b::g(x) }",
    ]
    .into_iter()
    .enumerate()
    {
        let files = [
            ("lib.rs", "mod m;\npub use m::B;\n"),
            ("m.rs", "mod a;\nmod b;\npub use b::B;\n"),
            ("m/a.rs", import),
            ("m/b.rs", "use super::a::A;\n"),
        ];
        assert_eq!(circles_of(&format!("form{index}"), &files), both, "{import}");
    }
}

#[test]
fn tests_text_and_parents_close_none() {
    for (index, text) in [
        "// crate::m::b::B\n",
        "/* /* */ use super::b::B; */\n",
        "const A: &str = \"super::b::B\";\n",
        "const A: &str = r#\"\" super::b::B\"#;\n",
        "#[cfg(test)]\nuse super::b::{B, C};\nstruct D;\n",
        "#[cfg(test)]\nmod tests { use super::super::b::B; }\n",
        "#[cfg(test)]\nmod tests;\n",
        "use super::M;\nuse seekless_engine::b::B;\n",
    ]
    .into_iter()
    .enumerate()
    {
        let files = [
            ("lib.rs", "mod m;\n"),
            ("m.rs", "mod a;\nmod b;\nstruct M;\nfn f() { a::f(); }\n"),
            ("m/a.rs", text),
            ("m/a/tests.rs", "use crate::m::b::B;\n"),
            ("m/b.rs", "use super::a::A;\nuse super::a::tests::T;\n"),
        ];
        let found = circles_of(&format!("none{index}"), &files);
        // The file of tests is in the graph only where no declaration marks it.
        let marked = text.contains("mod tests;");
        let expected = [owned(&["x/src/m/a/tests.rs", "x/src/m/b.rs"])];
        assert_eq!(found, if marked { &[][..] } else { &expected[..] }, "{text}");
    }
}

#[test]
fn code_behind_a_test_item_counts() {
    for item in ["use x::{y};\n", "mod tests { use super::*; }\n"] {
        let text = format!("#[cfg(test)]\n{item}use super::b::B;\n");
        let files =
            [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", &text), ("b.rs", "use crate::a::A;\n")];
        assert_eq!(circles_of("behind", &files), [owned(&["x/src/a.rs", "x/src/b.rs"])]);
    }
}

#[test]
fn the_list_names_the_circles_and_only_shrinks() {
    let circle = owned(&["a.rs", "b.rs"]);
    assert_eq!(errors(std::slice::from_ref(&circle), "a.rs b.rs\n"), Vec::<String>::new());
    // A new circle; a circle that is gone; one that is larger, or smaller, than its entry.
    assert_eq!(errors(std::slice::from_ref(&circle), "").len(), 1);
    assert_eq!(errors(&[], "a.rs b.rs\n").len(), 1);
    assert_eq!(errors(&[owned(&["a.rs", "b.rs", "c.rs"])], "a.rs b.rs\n").len(), 2);
    assert_eq!(errors(std::slice::from_ref(&circle), "a.rs b.rs c.rs\n").len(), 2);
}

#[test]
fn the_list_holds_no_large_circle() {
    let large = |files: usize| (0..files).map(|file| format!("{file}.rs")).collect::<Circle>();
    let count = |files| errors(&[large(files)], &large(files).join(" ")).len();
    assert_eq!((count(MOST_FILES), count(MOST_FILES + 1)), (0, 1));
}

#[test]
fn the_check_reads_the_crates_of_this_checkout() {
    let mut found = Findings::default();
    check(&crate::run::root().join("no-such-folder"), &mut found);
    assert_eq!(found.errors, Vec::<String>::new());
    let engine = graph(crate::run::root(), "crates/engine");
    assert!(engine.values().any(|imports| imports.contains("crates/engine/src/io.rs")));
}
