//! The verdict line of each situation.

use super::super::*;
use super::sample::{probe, sample};

/// A change that makes a report doubtful, and the reason that the verdict gives.
type Doubt = (fn(&mut Report), &'static str);

fn clean() -> Report {
    let mut report = sample();
    report.groups.clear();
    report.states.retain(|row| row.kind == Kind::Good);
    report.coverage = Coverage {
        boundaries: 42,
        space: 313,
        tried: 263,
        identical: 50,
        good: 263,
        complete: true,
        ..Coverage::default()
    };
    report.exit_code = 0;
    report
}

#[test]
fn bad_states_are_red() {
    let mut report = sample();
    let head = "RED: 14 of 263 states lose acknowledged data, 3 are broken";
    assert_eq!(report.headline(), head);
    report.coverage.broken = 1;
    report.coverage.lost = 0;
    assert_eq!(report.headline(), "RED: 1 of 247 states is broken");
    report.coverage.lost = 1;
    report.coverage.broken = 0;
    assert_eq!(report.headline(), "RED: 1 of 247 states loses acknowledged data");
    // What was found stays found, however the test ended.
    report.ended_by = Some("SIGINT".into());
    report.probes.push(probe("control", true, false));
    assert_eq!(report.verdict(), Verdict::Red);
    assert!(text::write(&report, false).contains("SIGINT ended the test early"));
}

#[test]
fn good_states_are_green_and_say_what_was_checked() {
    let mut report = clean();
    let head = "GREEN: all 263 states are good; 20 acknowledgements checked";
    assert_eq!(report.headline(), head);
    report.acknowledgements = Acknowledgements::NotUsed;
    report.coverage.complete = false;
    report.coverage.space = 400;
    let head = "GREEN: all 263 states are good (78.2% of the space); durability not checked";
    assert_eq!(report.headline(), head);
    report.acknowledgements = Acknowledgements::ConsistencyOnly;
    assert!(report.headline().ends_with("; consistency only"));
}

#[test]
fn states_that_were_not_tried_keep_a_report_from_being_green() {
    let mut report = clean();
    report.coverage = Coverage { space: 626, share: 626, cut_short: true, ..report.coverage };
    report.coverage.complete = false;
    assert_eq!(report.verdict(), Verdict::GreenSoFar);
    let head = "GREEN SO FAR: all 263 states are good (50.0% of the space; the others were not \
                tried); 20 acknowledgements checked";
    assert_eq!(report.headline(), head);
    assert!(junit::write(&report).expect("memory").contains("errors=\"1\""));
    for (percent, is_enough) in [(49.0, true), (50.0, true), (50.1, false)] {
        report.coverage.enough_percent = Some(percent);
        assert_eq!(report.coverage.is_enough(), is_enough, "{percent}");
    }
    report.coverage.enough_percent = Some(50.0);
    assert!(junit::write(&report).expect("memory").contains("errors=\"0\""));
    // A share of a shard, and the whole of one.
    report.coverage.share = 400;
    assert!(report.headline().contains("(78.2% of this shard; the others"), "{report:?}");
    report.coverage.cut_short = false;
    assert_eq!(report.verdict(), Verdict::Green);
    // Without a state there is nothing to be green.
    let nothing = Coverage { share: 9, space: 9, cut_short: true, ..Coverage::default() };
    report.coverage = Coverage { enough_percent: Some(0.0), ..nothing };
    assert_eq!(report.verdict(), Verdict::NoVerdict);
    assert!(!report.coverage.is_enough());
}

#[test]
fn a_check_that_cannot_be_trusted_gives_no_verdict() {
    let doubts: [Doubt; 10] = [
        (|report| report.probes[0].passed = false, "the check fails on an undamaged disk"),
        (|report| report.probes[2].passed = true, "the control has no bad state"),
        (|report| report.probes[1].passed = false, "the start state fails unexpectedly"),
        (|report| report.ended_by = Some("SIGINT".into()), "SIGINT ended the test after 263"),
        (|report| report.coverage = Coverage::default(), "no state was checked"),
        (|report| report.tape.writes = 0, "the tape has no write"),
        (
            |report| report.acknowledgements = Acknowledgements::Used { count: 0 },
            "the tape has no acknowledgement",
        ),
        (
            |report| report.workload_died = Some("killed by signal 11 (SIGSEGV)".into()),
            "the workload died (killed by signal 11 (SIGSEGV)); before that, none of 263 states",
        ),
        (|report| report.coverage.wavers = 2, "the check wavers on 2 of 265 states"),
        (|report| report.coverage.hung = 2, "2 of 265 states hung in the check"),
    ];
    for (change, reason) in doubts {
        let mut report = clean();
        change(&mut report);
        assert_eq!(report.verdict(), Verdict::NoVerdict, "{reason}");
        let head = report.headline();
        assert!(head.starts_with(&format!("NO VERDICT: {reason}")), "{head}");
    }
    // Even if bad states were counted: on an undamaged disk the check fails as well.
    let mut report = sample();
    report.probes[0].passed = false;
    assert_eq!(report.verdict(), Verdict::NoVerdict);
    let text = text::write(&report, false);
    assert!(text.contains("The check of the end state fails.\n    the check said:"), "{text}");
}

#[test]
fn a_report_without_a_verdict_fails_the_build() {
    let mut report = clean();
    let xml = junit::write(&report).expect("memory");
    assert!(xml.contains("tests=\"4\" failures=\"0\" errors=\"0\""), "{xml}");
    report.probes[0].passed = false;
    let xml = junit::write(&report).expect("memory");
    assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"1\""), "{xml}");
    assert!(xml.contains("type=\"no-verdict\""), "{xml}");
}

#[test]
fn policies_are_compared_in_a_table() {
    use super::super::policies::{self, PolicyReport};
    let named = |policy: &str, report| PolicyReport { policy: policy.to_owned(), report };
    let mut doubtful = clean();
    doubtful.probes.push(probe("missing data", true, false));
    let all = [named("async", sample()), named("sync", clean()), named("soft", doubtful)];
    assert_eq!(policies::verdict(&all), Verdict::Red);
    assert_eq!(policies::headline(&all), "RED: bad states under async");
    assert_eq!(policies::verdict(&all[1..]), Verdict::NoVerdict);
    assert_eq!(policies::headline(&all[1..]), "NO VERDICT: no verdict under soft");
    assert_eq!(policies::headline(&all[1..2]), "GREEN: no bad state under sync");
    assert_eq!(policies::verdict(&[]), Verdict::NoVerdict);
    let text = policies::write(&all, false);
    let table: Vec<&str> = text.lines().skip(2).take(4).collect();
    assert_eq!(
        table,
        [
            "  policy  states    LOST  BROKEN      ok  verdict",
            "  async      263      14       3     240  RED",
            "  sync       263       0       0     263  GREEN",
            "  soft       263       0       0     263  NO VERDICT",
        ]
    );
    assert!(text.contains("\npolicy soft\nNO VERDICT: the check cannot fail"), "{text}");
    let json = policies::write_json(&all).expect("memory");
    let value: serde_json::Value = serde_json::from_str(&json).expect("valid");
    assert_eq!((&value["verdict"], &value["format"]), (&"red".into(), &json::FORMAT.into()));
    assert_eq!(value["policies"][1]["policy"], "sync");
    assert_eq!(value["policies"][0]["coverage"]["lost"], 14);
    assert!(text.ends_with("order, when a call returns.\n"), "{text}");
    assert_eq!(value["enough_policy"]["policy"], "sync");
    let mut own = clean();
    own.file_system = Some("seekless:ffs:async".to_owned());
    let text = text::write(&own, false);
    assert!(text.contains("\nPolicies: good under async, "), "{text}");
    assert!(!text::write(&clean(), false).contains("Policies:"), "ext4 has none");
}
