//! Figures that a change of structure must not move: each simulation and each proof of
//! `figures.tsv` prints what it printed before, but for the time of the host.
//!
//! After an intended change, `SEEKLESS_FIGURES=overwrite` writes the table anew.

use crate::harness::seekless;
use std::path::PathBuf;

const PROGRAMS: [&str; 9] = [
    "small",
    "large",
    "pairs --files 2000",
    "postmark",
    "tree",
    "update --file-size 1M --updates 200",
    "ssh",
    "sdet --users 3",
    "news --files 4000 --memory 1M",
];
const POLICIES: [&str; 3] = ["async", "sync", "soft"];
const LAYOUTS: [&str; 8] = ["inplace", "vlog", "loge", "dcd", "lfs", "wolf", "hylog", "lld"];
const DISKS: [&str; 2] = ["st19101", "hp97560"];
/// Fields of reports that tell the speed of the host.
const OF_THE_HOST: [&str; 3] = ["host_seconds", "\"simulated_", "states_per_second"];

fn table() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/figures.tsv")
}

fn output(command: &str) -> String {
    let output = seekless().args(command.split(' ')).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The fields of a report that are the same on each host.
fn fields(report: &str) -> impl Iterator<Item = &str> {
    report
        .split([',', '\n'])
        .map(str::trim)
        .filter(|field| !field.is_empty() && !OF_THE_HOST.iter().any(|of| field.contains(of)))
}

/// FNV-1a of 64 bits.
fn digest(report: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    fields(report)
        .flat_map(|field| field.bytes().chain(std::iter::once(b'\n')))
        .fold(0xcbf2_9ce4_8422_2325, step)
}

fn commands() -> Vec<String> {
    let files = PROGRAMS.iter().flat_map(|program| {
        POLICIES.iter().map(move |policy| {
            format!("sim-fs --json --disk cheetah9lp --policy {policy} --program {program}")
        })
    });
    let blocks = LAYOUTS.iter().flat_map(|layout| {
        DISKS
            .iter()
            .map(move |disk| format!("sim --json --requests 2000 --layout {layout} --disk {disk}"))
    });
    let subjects = output("prove --list");
    let proofs =
        subjects.lines().map(|subject| format!("prove --json --jobs 1 --states 3000 {subject}"));
    files.chain(blocks).chain(proofs).collect()
}

#[test]
fn figures_are_the_same() {
    let measured: String = commands()
        .iter()
        .map(|command| format!("{:016x}\t{command}\n", digest(&output(command))))
        .collect();
    if std::env::var("SEEKLESS_FIGURES").is_ok_and(|value| value == "overwrite") {
        std::fs::write(table(), measured).expect("the table can be written");
        return;
    }
    let known = std::fs::read_to_string(table()).expect("the table is there");
    let moved: Vec<&str> =
        measured.lines().filter(|line| !known.lines().any(|one| one == *line)).collect();
    let gone = known.lines().count().saturating_sub(measured.lines().count());
    assert!(moved.is_empty() && gone == 0, "{gone} are gone, and these differ:\n{moved:#?}");
}

#[test]
fn a_figure_that_moves_is_noticed() {
    let report = "{\n  \"writes\": 7,\n  \"host_seconds\": 0.5\n}\n";
    assert_eq!(digest(report), digest(&report.replace("0.5", "0.75")));
    assert_ne!(digest(report), digest(&report.replace('7', "8")));
    assert_ne!(digest(report), digest(""));
}
