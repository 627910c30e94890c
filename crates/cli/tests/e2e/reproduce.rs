//! `seekless reproduce`: each figure has tables and verdicts, and a verdict can be another one.

use crate::harness::seekless;
use serde_json::Value;
use std::sync::LazyLock;

const FIGURES: [&str; 16] = [
    "journal/micro",
    "journal/pairs",
    "journal/crashes",
    "journal/postmark",
    "journal/ssh",
    "journal/news",
    "journal/sdet",
    "journal/recovery",
    "dcd/tree",
    "dcd/responses",
    "dcd/bandwidth",
    "vlog/small",
    "vlog/large",
    "vlog/update",
    "vlog/bursts",
    "joint",
];

fn output(args: &[&str]) -> String {
    let all = [&["reproduce"], args, &["--quick"]].concat();
    let output = seekless().args(&all).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

fn report(args: &[&str]) -> Value {
    serde_json::from_str(&output(&[args, &["--json"]].concat())).expect("JSON")
}

/// The report that several tests read; it takes the longest.
static UPDATE: LazyLock<Value> = LazyLock::new(|| report(&["vlog/update"]));

fn refused(args: &[&str], part: &str) {
    let all = [&["reproduce"], args, &["--quick"]].concat();
    let output = seekless().args(&all).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(part), "{args:?}: {said}");
    assert!(output.stdout.is_empty());
}

fn claim<'r>(report: &'r Value, id: &str) -> &'r Value {
    let claims = report["claims"].as_array().expect("claims");
    claims.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id} is a claim"))
}

#[test]
fn each_figure_has_tables_and_verdicts() {
    for figure in FIGURES {
        let made = if figure == "vlog/update" { UPDATE.clone() } else { report(&[figure]) };
        let report = &made;
        assert_eq!(report["figure"], figure);
        let tables = report["tables"].as_array().expect("tables");
        assert!(!tables.is_empty(), "{figure}");
        for table in tables {
            let columns = table["columns"].as_array().expect("columns").len();
            let rows = table["rows"].as_array().expect("rows");
            assert!(!rows.is_empty(), "{figure}: {table:#}");
            for row in rows {
                assert_eq!(row["cells"].as_array().expect("cells").len() + 1, columns, "{row}");
            }
        }
        let claims = report["claims"].as_array().expect("claims");
        assert!(!claims.is_empty(), "{figure}");
        for claim in claims {
            let verdict = claim["verdict"].as_str().expect("a verdict");
            let has_reason = claim["because"].as_str().is_some_and(|text| !text.is_empty());
            match verdict {
                "holds" | "calibration" => assert!(!has_reason, "{claim:#}"),
                "differs" | "cannot-be-told" => assert!(has_reason, "{claim:#}"),
                other => panic!("{figure}: {other}"),
            }
        }
    }
}

/// The text has what the JSON has, and does not depend on the number of workers.
#[test]
fn the_text_is_a_function_of_figure_and_seed() {
    for figure in ["journal/pairs", "vlog/small"] {
        let one = output(&[figure, "--threads", "1"]);
        assert_eq!(one, output(&[figure, "--threads", "4"]));
        assert!(one.contains("seed 1") && one.contains("cannot be told"), "{one}");
        for claim in report(&[figure])["claims"].as_array().expect("claims") {
            assert!(one.contains(claim["id"].as_str().expect("an id")), "{claim}: {one}");
        }
    }
    assert!(output(&["vlog/small", "--seed", "7"]).contains("seed 7"));
}

/// A verdict is measured: with a wrong number in place of the paper's it is another one.
#[test]
fn a_wrong_number_differs() {
    const ID: &str = "D23";
    let with = |number: f64| {
        let planted = format!("{ID}={number}");
        let report = report(&["dcd/bandwidth", "--claim", &planted]);
        claim(&report, ID)["verdict"].as_str().expect("a verdict").to_owned()
    };
    let report = report(&["dcd/bandwidth"]);
    let right = claim(&report, ID);
    assert_eq!(right["verdict"], "holds", "{right:#}");
    let measured = right["measured"].as_f64().expect("a number");
    assert_eq!(with(measured), "holds");
    assert_eq!(with(measured * 1.2), "differs");
    assert_eq!(with(measured * 0.8), "differs");
    refused(&["vlog/update", "--claim", "V99=1"], "no claim V99 with a number");
    refused(&["vlog/update", "--claim", "V40=1"], "no claim V40 with a number");
    refused(&["vlog/update", "--claim", "V39"], "give a claim and a number");
    refused(&["vlog/update", "--claim", "V39=fast"], "`fast` is no number");
}

/// The costs that no paper states are halved and doubled. Where the verdicts disagree, none counts.
#[test]
fn free_costs_of_the_host_are_varied() {
    let report = &*UPDATE;
    let gain = claim(report, "V41/ultra170+st19101");
    let measured = gain["measured"].as_f64().expect("a number");
    let sensitivity = gain["sensitivity"].as_array().expect("half and double");
    let [half, double] = [0, 1].map(|at| sensitivity[at].as_f64().expect("a number"));
    assert!(half > measured && measured > double, "a slow host hides the disk: {gain:#}");
    let alone = claim(report, "V39/inplace/st19101");
    assert_eq!(alone["sensitivity"][0], alone["measured"], "the disk alone has no host");
    for claim in report["claims"].as_array().expect("claims") {
        let Some(sensitivity) = claim["sensitivity"].as_array() else { continue };
        let (least, most) = (claim["least"].as_f64(), claim["most"].as_f64());
        let holds = |value: &Value| {
            let value = value.as_f64().expect("a number");
            least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
        };
        let all = sensitivity.iter().chain([&claim["measured"]]).map(holds);
        let expected = match all.collect::<Vec<_>>()[..] {
            [true, true, true] => "holds",
            [false, false, false] => "differs",
            _ => "cannot-be-told",
        };
        assert_eq!(claim["verdict"], expected, "{claim:#}");
    }
}

/// A system is run, or it is named as missing. Its claims cannot be told then.
#[test]
fn systems_that_are_not_built_are_named() {
    let help = seekless().args(["reproduce", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let listed = help.split("--policy").nth(1).and_then(|rest| rest.split("--layout").next());
    let listed = listed.expect("the policies are listed");
    for (figure, count) in [("journal/pairs", 8), ("vlog/small", 2)] {
        let report = report(&[figure]);
        let systems = report["systems"].as_array().expect("systems");
        assert_eq!(systems.len(), count);
        for system in systems {
            let policy = system["policy"].as_str().expect("a policy");
            let mut words = listed.split(|c: char| !c.is_alphanumeric() && c != '-');
            let expected = if words.any(|word| word == policy) { "run" } else { "not built" };
            assert_eq!(system["state"], expected, "{policy}: {listed}");
        }
        if figure == "vlog/small" {
            assert_eq!(claim(&report, "V37/lfs/same/create")["verdict"], "holds");
        }
    }
}

#[test]
fn policies_and_layouts_can_be_chosen() {
    let chosen = report(&["vlog/small", "--policy", "async", "--layout", "inplace,lfs"]);
    let labels: Vec<&str> = chosen["tables"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["label"].as_str())
        .collect();
    assert_eq!(labels, ["async, inplace", "async, lfs"]);
    let read = claim(&chosen, "V37/read");
    assert_eq!(read["verdict"], "cannot-be-told", "{read:#}");
    refused(&["vlog/small", "--policy", "brave"], "async");
    refused(&["vlog/tiny"], "vlog/small");
    refused(&["vlog/small", "--policy", "wafs-1sync"], "does not run under the policy wafs-1sync");
    let vlog = ["joint", "--policy", "atomic", "--layout", "vlog"];
    refused(&vlog, "there is nothing to run");
    let logged = report(&["joint", "--policy", "wafs-1sync", "--layout", "inplace,vlog"]);
    let rows = logged["tables"][0]["rows"].as_array().expect("rows");
    let labels: Vec<&str> = rows.iter().filter_map(|row| row["label"].as_str()).collect();
    let volumes = ["inplace", "vlog", "inplace, 4 KB fragments"];
    assert_eq!(labels, volumes.map(|volume| format!("wafs-1sync, {volume}")));
    let seconds = |row: usize| rows[row]["cells"][3].as_f64().expect("seconds of all phases");
    assert!(seconds(1) < 0.5 * seconds(2), "a log on vlog needs no seek: {logged:#}");
}

/// Crashes without an order of writes leave damage that soft updates do not leave: the check sees
/// it, and a guarantee that does not hold is no guarantee.
#[test]
fn guarantees_hold_for_the_policies_that_give_them_only() {
    let report = report(&["journal/crashes"]);
    let verdict = |id: &str| claim(&report, id)["verdict"].as_str().expect("a verdict").to_owned();
    for id in ["J3/sync", "J3/async", "J3/content/async", "J3/recovery/async", "J44/control"] {
        assert_eq!(verdict(id), "holds", "{:#}", claim(&report, id));
    }
    let table = &report["tables"][0];
    let cell = |policy: &str, column: &str| -> f64 {
        let columns = table["columns"].as_array().expect("columns");
        let at = columns.iter().position(|one| one == column).expect("a column") - 1;
        let rows = table["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["label"] == policy).expect("a row");
        row["cells"][at].as_f64().expect("a number")
    };
    assert!(cell("sync", "states") > 200.0, "{table:#}");
    assert_eq!(cell("sync", "names/lost"), 0.0);
    for policy in ["wafs-1sync", "wafs-2sync"] {
        assert!(cell(policy, "states") > 200.0, "{table:#}");
        assert_eq!(cell(policy, "names/lost") + cell(policy, "removals/lost"), 0.0, "{policy}");
    }
    for policy in ["wafs-1sync", "wafs-1async", "wafs-2sync", "wafs-2async"] {
        for id in ["J3/", "J3/atomic/"].map(|id| format!("{id}{policy}")) {
            assert_eq!(verdict(&id), "holds", "{:#}", claim(&report, &id));
        }
        assert_eq!(cell(policy, "states"), cell(policy, "clean"), "{policy}: {table:#}");
    }
    assert_eq!(verdict("J40"), "differs", "one operation is one group");
    for policy in ["async", "soft", "wafs-1async", "wafs-2async"] {
        assert!(cell(policy, "names/lost") > 0.0, "{policy} answers before it writes");
    }
    let damage = ["damage/repaired", "damage/with loss"].map(|column| cell("async", column));
    assert!(damage.iter().all(|states| *states > 0.0), "{damage:?}");
}

/// Numbers of a log are measured: J52 needs a write of the log for each call, J4 its size.
#[test]
fn logs_have_the_size_and_the_writes_that_the_paper_states() {
    let report = report(&["journal/pairs", "--policy", "async,wafs-1sync", "--layout", "inplace"]);
    for id in ["J4/size", "J52", "J20/wafs-1sync"] {
        assert_eq!(claim(&report, id)["verdict"], "holds", "{:#}", claim(&report, id));
    }
    assert_eq!(claim(&report, "J20/wafs-2sync")["verdict"], "cannot-be-told", "it was not run");
    let two = [&["journal/pairs", "--policy", "wafs-1sync"][..], &["--claim", "J52=2"]].concat();
    assert_eq!(claim(&self::report(&two), "J52")["verdict"], "differs");
}

/// A lock over the whole volume makes users wait for each other.
#[test]
fn one_lock_makes_programs_slower() {
    let seconds = |lock: &[&str]| -> f64 {
        let args = ["sim-fs", "--program", "tree", "--users", "4", "--policy", "sync", "--layout"];
        let rest = ["dcd", "--disk", "barracuda", "--trust-completions", "--json"];
        let output = seekless().args(args).args(rest).args(lock).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let phases = report["phases"].as_array().expect("phases").iter();
        phases.map(|phase| phase["elapsed_seconds"].as_f64().expect("a number")).sum()
    };
    let (locked, free) = (seconds(&["--one-lock"]), seconds(&[]));
    assert!(locked > free * 1.05, "{locked} s with the lock, {free} s without");
}

#[test]
fn a_picture_shows_each_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("joint.svg");
    let name = path.to_str().expect("a name");
    let text = output(&["joint", "--svg", name, "--layout", "inplace,vlog"]);
    let svg = std::fs::read_to_string(&path).expect("it is written");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for name in ["async", "inplace", "vlog"] {
        assert!(svg.contains(&format!(">{name}</text>")) && text.contains(name), "{name}: {svg}");
    }
    let nowhere = dir.path().join("missing/joint.svg");
    let args = ["reproduce", "vlog/small", "--quick", "--svg"];
    let output = seekless().args(args).arg(&nowhere).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write"));
}

/// A run that was kept is not made again; one with another seed is.
#[test]
fn kept_runs_count_again_and_only_under_the_same_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().to_str().expect("a name");
    let asked = ["journal/crashes", "--policy", "async,soft", "--keep", kept];
    let first = output(&asked);
    let mut files = std::fs::read_dir(dir.path()).expect("a directory");
    let file = files.next().expect("a file").expect("its name").path();
    assert!(files.next().is_none(), "one file");
    let text = std::fs::read_to_string(&file).expect("runs were kept");
    let lines = text.lines().count();
    assert_eq!(text.matches("\"clean\":").count(), lines, "runs with crashes: {text}");
    // What is kept counts, and is not measured again.
    std::fs::write(&file, text.replace("\"clean\":", "\"clean\":1000000")).expect("a file");
    assert!(output(&asked).contains("1000000"), "it was not run again");
    assert!(output(&[&asked[..], &["--markdown"]].concat()).contains("1000000"), "in any form");
    let other = output(&[&asked[..], &["--seed", "2"]].concat());
    assert!(!other.contains("1000000"), "{other}");
    let both = std::fs::read_to_string(&file).expect("runs were kept").lines().count();
    assert_eq!(both, 2 * lines, "both seeds are kept");
    // A run that was broken off: the last line is not whole.
    std::fs::write(&file, &text[..text.len() - 5]).expect("a file");
    assert_eq!(output(&asked), first);
    assert_eq!(std::fs::read_to_string(&file).expect("runs"), text, "the last run is made again");
}

/// All figures of a paper stand one behind the other, and none of another paper.
#[test]
fn a_paper_is_printed_whole() {
    let all = output(&["dcd/all", "--markdown", "--policy", "async"]);
    let figures: Vec<&str> =
        all.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
    let wanted: Vec<&str> = FIGURES.into_iter().filter(|name| name.starts_with("dcd/")).collect();
    assert_eq!(figures, wanted);
    let report = report(&["dcd/bandwidth"]);
    for claim in report["claims"].as_array().expect("claims") {
        let row = format!("| {} | ", claim["id"].as_str().expect("an id"));
        let is_listed = all.lines().any(|line| line.starts_with(&row));
        assert_eq!(is_listed, claim["verdict"] != "calibration", "{row}");
    }
    refused(&["dcd/all", "--svg", "all.svg"], "has several figures");
    refused(&["dcd/all", "--claim", "D23=1"], "has several figures");
}
