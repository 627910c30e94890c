//! `seekless model`: numbers, formats, and messages about invalid numbers.

use crate::harness::{run, seekless, succeed};
use serde_json::Value;

const MODELS: [&str; 6] = ["track", "cylinder", "fill", "block", "loge", "hylog"];

fn tables(args: &[&str]) -> Vec<Value> {
    let text = succeed(seekless().arg("model").args(args).arg("--json"));
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    json["tables"].as_array().expect("tables").clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn every_model_is_a_table_a_plot_and_json() {
    for model in MODELS {
        let help = succeed(seekless().args(["model", model, "--help"]));
        assert!(help.contains("Examples:"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        for format in [None, Some("--plot")] {
            let text = succeed(seekless().args(["model", model]).args(format));
            assert!(text.lines().count() > 4, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
        for table in tables(&[model]) {
            assert_eq!(table["model"], model);
            assert!(!table["rows"].as_array().expect("rows").is_empty(), "{table}");
        }
    }
}

#[test]
fn the_papers_numbers_come_out() {
    let cylinder = tables(&["cylinder", "--disk", "st19101", "--utilisation", "0.8"]);
    assert!((number(&cylinder[0]["rows"][0]["cylinder_ms"]) - 0.0931).abs() < 1e-4);
    let fill = tables(&["fill", "--disk", "hp97560", "--reserve", "0.25"]);
    assert!((number(&fill[0]["quantities"]["best_exact_ms"]["value"]) - 0.1496).abs() < 1e-4);
    let loge = tables(&["loge", "--free", "0.01,0.02"]);
    assert!((number(&loge[0]["rows"][1]["found"]) - 0.9853).abs() < 1e-4);
    assert_eq!(tables(&["track"]).len(), 2, "both disks of the paper");
}

#[test]
fn flags_replace_the_numbers_of_a_disk_and_dice_repeat() {
    let half = |args: &[&str]| number(&tables(args)[0]["rows"][0]["in_place_ms"]);
    let base = ["track", "--disk", "st19101", "--utilisation", "0.5"];
    assert_eq!(half(&base), 3.0);
    assert_eq!(half(&[base.as_slice(), &["--rpm", "5000"]].concat()), 6.0);
    let simulated = |seed| {
        let dice = ["--simulate", "300", "--seed", seed];
        number(&tables(&[base.as_slice(), &dice].concat())[0]["rows"][0]["simulated_ms"])
    };
    assert_eq!(simulated("1"), simulated("1"));
    assert_ne!(simulated("1"), simulated("2"));
}

#[test]
fn hylog_has_a_table_for_each_figure_and_explains_its_choice() {
    for about in ["utilisation", "segment", "cleaning", "distribution", "hot", "examples"] {
        let args = ["hylog", "--table", about, "--disk", "hylog-2003", "--utilisation", "0.95"];
        let tables = tables(&args);
        assert!(!tables.is_empty() && tables.iter().all(|table| table["model"] == "hylog"));
    }
    // Table H-d of the claims: the disk of 2003 is the third.
    let costs = tables(&["hylog", "--table", "distribution", "--utilisation", "0.97"]);
    assert!((number(&costs[4]["rows"][0]["knuth_80_20"]) - 12.27).abs() < 0.01, "{:#}", costs[4]);
    let fixed = ["hylog", "--positioning", "5.6", "--bandwidth", "61", "--page", "8k"];
    let eta = number(&tables(&fixed)[0]["quantities"]["eta"]["value"]);
    assert!((eta - 32.2).abs() < 0.1, "with binary sizes: {eta}");
    let simulated = tables(&[&fixed[..], &["--utilisation", "0.8", "--simulate", "3"]].concat());
    let u = number(&simulated[1]["rows"][0]["fifo_u"]);
    assert!((u - 0.6286).abs() < 0.02, "{u}");
    let why = [&fixed[..], &["--explain", "--utilisation", "0.97"]].concat();
    let why = [&why[..], &["--distribution", "knuth:80,20"]].concat();
    let text = succeed(seekless().arg("model").args(&why));
    assert!(text.contains("picks HyLog") && text.contains("knuth:80,20"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let json = succeed(seekless().arg("model").args(&why).arg("--json"));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["explanations"][0]["choice"], "hylog");
}

#[test]
fn numbers_that_make_no_sense_are_usage_errors() {
    for (args, part) in [
        (vec!["cylinder", "--utilisation", "1"], "below 1"),
        (vec!["fill", "--reserve", "nan"], "reserve"),
        (vec!["track", "--slot-sectors", "7"], "hint:"),
        (vec!["track", "--rpm", "0"], "rpm"),
        (vec!["track", "--disk", "st1910"], "known are"),
        (vec!["block", "--logical", "7"], "hint:"),
        (vec!["block", "--slot-sectors", "8"], "--logical"),
        (vec!["loge", "--rpm", "7200"], "--disk"),
        (vec!["loge", "--free", "0"], "above 0"),
        (vec!["loge", "--settle-ms", "3"], "--disk"),
        (vec!["cylinder", "--simulate", "0"], "trials"),
        (vec!["cylinder", "--simulate", "1", "--cylinders", "4000000"], "hint:"),
        (vec!["fill", "--plot", "--json"], "--json"),
        (vec!["hylog", "--utilisation", "1"], "below 1"),
        (vec!["hylog", "--distribution", "zipf"], "knuth:80,20"),
        (vec!["hylog", "--page", "8k"], "--positioning"),
        (vec!["hylog", "--positioning", "5.6"], "--bandwidth"),
        (vec!["hylog", "--positioning", "0", "--bandwidth", "61"], "above 0"),
        (vec!["hylog", "--disk", "st19101", "--page", "1G"], "small part"),
        (vec!["hylog", "--disk", "rz26", "--page", "8k", "--segment", "12k"], "whole number"),
        (vec!["hylog", "--disk", "rz26", "--alpha", "1"], "between 0 and 1"),
        (vec!["hylog", "--table", "segment", "--simulate", "3"], "--table"),
    ] {
        let ended = run(seekless().arg("model").args(&args));
        assert_eq!(ended.code(), 2, "{args:?}: {}", ended.err);
        assert!(
            ended.err.contains("error:") && ended.err.contains(part),
            "{args:?}: {}",
            ended.err
        );
    }
}
