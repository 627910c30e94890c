//! The harness itself: it must fail where a page is not true.

use crate::page::Page;
use crate::run::run;

/// A page with one console block.
fn page(block: &str) -> String {
    format!("# A page\n\n```console\n{block}\n```\n")
}

/// The only finding about a page.
fn finding(text: &str) -> String {
    let result = run("page.md", text, false);
    assert_eq!(result.findings.len(), 1, "{result:?}");
    result.findings[0].clone()
}

fn passes(text: &str) {
    let result = run("page.md", text, false);
    assert!(result.findings.is_empty(), "{result:?}");
}

#[test]
fn right_output_passes() {
    passes(&page("$ echo one; echo two\none\ntwo"));
    passes(&page("$ echo nothing >/dev/null"));
    passes(&page("$ seekless --version\nseekless [..]"));
}

#[test]
fn wrong_output_is_found_with_its_line() {
    let told = finding(&page("$ echo right\nright\n$ echo one\ntwo"));
    assert!(told.starts_with("page.md:6: `echo one`"), "{told}");
    assert!(told.contains("two") && told.contains("one"), "{told}");
    finding(&page("$ echo one\none\ntwo"));
    finding(&page("$ echo one; echo two\none"));
    finding(&page("$ true\nsomething"));
    finding(&page("$ echo something"));
}

#[test]
fn elisions_stand_for_lines_and_for_text_within_a_line() {
    passes(&page("$ seq 5\n1\n...\n5"));
    passes(&page("$ seq 2\n1\n...\n2"));
    passes(&page("$ echo 12.3 ms a request\n[..] ms a request"));
    finding(&page("$ seq 5\n1\n...\n6"));
    finding(&page("$ echo 12.3 s a request\n[..] ms a request"));
    finding(&page("$ seq 3\n1\n[..]"));
}

#[test]
fn a_missing_command_is_found() {
    let told = finding(&page("$ no-such-program-anywhere\n..."));
    assert!(told.contains("exit code 127"), "{told}");
    let told = finding(&page("$ seekless no-such-subcommand\n..."));
    assert!(told.contains("exit code 2"), "{told}");
}

#[test]
fn a_failure_passes_only_where_its_exit_code_is_shown() {
    passes(&page("$ (exit 3)\n$ echo $?\n3"));
    finding(&page("$ (exit 3)\n$ echo $?\n4"));
    finding(&page("$ (exit 3)\n$ echo on\non"));
}

#[test]
fn a_command_that_stops_the_shell_is_found() {
    let told = finding(&page("$ exit 0"));
    assert!(told.contains("does not end"), "{told}");
}

#[test]
fn a_block_without_a_command_is_found() {
    assert_eq!(finding(&page("seekless layouts")), "page.md:4: output before the first command");
    let told = finding("```console\n```\n");
    assert_eq!(told, "page.md:2: a console block without a command: begin one with `$ `");
}

#[test]
fn a_page_without_a_block_is_found() {
    let told = finding("# A page\n\nWords.\n");
    assert!(told.contains("no console block"), "{told}");
}

#[test]
fn a_command_in_another_block_is_found() {
    let told = finding(&format!("{}\n```\n$ seekless layouts\n```\n", page("$ true")));
    assert!(told.contains("outside a console block"), "{told}");
}

#[test]
fn a_block_that_is_not_closed_is_found() {
    let told = finding("```console\n$ true\n");
    assert!(told.contains("not closed"), "{told}");
}

#[test]
fn blocks_share_one_shell_and_one_directory() {
    passes(
        "```console\n$ x=1; echo 2 > file\n```\n\n## More\n\n\
         ```console\n$ echo $x $(cat file)\n1 2\n```\n",
    );
}

#[test]
fn commands_may_have_several_lines() {
    passes(&page("$ echo one \\\n    two\none two"));
    passes(&page("$ cat > file <<'END'\n> a\n> b\n> END\n$ cat file\na\nb"));
    assert!(Page::parse(&page("$ echo one \\")).is_err());
}

#[test]
fn jobs_in_the_background_have_time_to_print() {
    passes(&page(
        "$ (sleep 0.3; echo ready; sleep 60) &\nready\n$ kill %1; wait %1\n$ echo $?\n143",
    ));
    passes(&page("$ (sleep 0.3; echo late) & pid=$!\n$ wait $pid\nlate"));
}

#[test]
fn commands_cannot_read_the_commands_that_follow() {
    passes(&page("$ cat\n$ echo on\non"));
}

#[test]
fn a_section_without_what_it_needs_is_skipped_with_a_reason() {
    let text = "```console\n$ true\n```\n# A\n\n<!-- needs: no-such-program -->\n\
        ```console\n$ false\n```\n\n\
                ```console\n$ false\n```\n# B\n\n```console\n$ true\n```\n";
    let result = run("page.md", text, false);
    assert!(result.findings.is_empty(), "{result:?}");
    assert_eq!(result.skipped, ["page.md:7: no-such-program is not installed"]);
    let told = finding(&text.replace("# B\n\n```console\n$ true", "# B\n\n```console\n$ false"));
    assert!(told.starts_with("page.md:17"), "{told}");
}

#[test]
fn a_note_must_stand_before_its_block() {
    let told = finding("<!-- needs: fio -->\nWords.\n```console\n$ true\n```\n");
    assert!(told.starts_with("page.md:2"), "{told}");
    finding("<!-- not run: -->\n```console\n$ true\n```\n");
}

#[test]
fn what_is_not_run_has_options_that_exist() {
    let not_run = |line: &str| {
        format!("<!-- not run: a device -->\n{}", page(line).replace("# A page\n\n", ""))
    };
    passes(&not_run("$ sudo seekless drain /dev/sdb --log /dev/nvme0n1p3"));
    passes(&not_run("$ seekless disk fit --device /dev/sdb --output mine.toml"));
    let told = finding(&not_run("$ seekless drain /dev/sdb --logg /dev/nvme0n1p3"));
    assert!(told.contains("has no --logg"), "{told}");
}

#[test]
fn a_page_is_written_anew_and_keeps_its_elisions() {
    let old = page("$ seq 3\n1\n...\n4\n$ echo 7 ms; echo b\n[..] ms\na\n$ echo c\nc");
    let result = run("page.md", &old, true);
    assert!(result.findings.is_empty(), "{result:?}");
    let written = result.written.expect("the page ran to its end");
    passes(&written);
    assert!(written.contains("[..] ms\nb\n$ echo c\nc\n"), "{written}");
    let same = run("page.md", &written, true).written;
    assert_eq!(same.as_deref(), Some(written.as_str()));
}
