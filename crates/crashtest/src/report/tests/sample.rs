//! A report with every kind of group.

use super::super::*;

pub fn sample() -> Report {
    Report {
        title: "python3 load.py {dir}".into(),
        file_system: Some("ext4".into()),
        acknowledgements: Acknowledgements::Used { count: 20 },
        tape: TapeFacts {
            events: 1204,
            writes: 311,
            flushes: 42,
            marks: 20,
            size_bytes: 256 << 20,
            bytes_written: 1_400_000,
            has_calls: false,
        },
        sector_bytes: 4096,
        probes: vec![
            probe("end state", true, true),
            probe("start state", true, true),
            probe("control", false, false),
        ],
        coverage: Coverage {
            boundaries: 42,
            space: 320,
            tried: 263,
            identical: 50,
            good: 240,
            lost: 14,
            broken: 3,
            wavers: 0,
            failed: 2,
            hung: 4,
            complete: false,
            share: 320,
            cut_short: true,
            enough_percent: None,
            budget_s: Some(60.0),
        },
        groups: groups(),
        states: states(),
        ended_by: None,
        workload_died: None,
        elapsed_s: 61.24,
        warnings: vec!["2 checks left processes behind; they were killed".into()],
        exit_code: 1,
    }
}

pub fn probe(name: &str, passed: bool, expected: bool) -> Probe {
    Probe { name: name.into(), passed, expected, output: format!("output of the {name}\n") }
}

fn groups() -> Vec<Group> {
    let outputs = [
        (Kind::Broken, Some(2), 3, "opening d.db\nError: database disk image is malformed (11)\n"),
        (Kind::Lost, Some(1), 12, "row 7 of 8 is missing\n"),
        (Kind::Lost, Some(1), 2, "row 7 of 8 is <damaged> & \"cut\"\n"),
        (Kind::Hung, None, 4, ""),
        (Kind::Failed, Some(127), 2, "sh: 1: check: not found\n"),
    ];
    let group = |(index, (kind, exit, states, output)): (usize, (Kind, _, u64, &str))| Group {
        signature: signature(kind, exit, output),
        kind,
        exit,
        states,
        first_seen: format!("3f9a{index}"),
        example: example(&format!("3f9a{index}"), output),
    };
    outputs.into_iter().enumerate().map(group).collect()
}

pub fn example(id: &str, output: &str) -> Example {
    Example {
        id: id.into(),
        name: "912:keep,45=lost,47=0-3.6".into(),
        minimised: true,
        allowed: true,
        cut: 912,
        acked: 8,
        last_acked: Some("row 8".into()),
        missing: Some(super::super::Missing {
            against: "at event 90, where the check accepts it".into(),
            lines: vec!["d/cur is missing".into(), "d/new is there, but not on that disk".into()],
            more: 1,
            remedies: vec![
                "`fsync` of directory `d` after `rename` or `link` of `d/new` to `d/cur`".into(),
            ],
        }),
        why: None,
        output: output.into(),
        again: format!("seekless replay-crashes run.tape --state {id} --check 'python3 check.py'"),
        writes: writes(),
        durable: 120,
        timeline: timeline(),
    }
}

fn writes() -> Vec<WriteLine> {
    let line = |number, offset, length, fate, place: Option<&str>| WriteLine {
        disk: 1,
        number,
        offset,
        length,
        kind: WriteKind::Write,
        fua: false,
        answered: true,
        fate,
        kept_ranges: Vec::new(),
        place: place.map(str::to_owned),
    };
    let mut out = vec![
        line(44, 139_264, 4096, Fate::Kept, Some("ext4 journal (commit block)")),
        line(45, 4_202_496, 4096, Fate::Lost, Some("d.db bytes 12288-16384")),
        line(47, 8_388_608, 32_768, Fate::Torn, Some("d.db-wal bytes 0-32768")),
        line(48, 16_777_216, 65_536, Fate::Kept, None),
    ];
    out[0].fua = true;
    out[0].answered = false;
    out[2].kept_ranges = vec![(8_388_608, 8_404_992), (8_413_184, 8_417_280)];
    out[3].kind = WriteKind::Trim;
    out
}

fn timeline() -> Vec<Moment> {
    let moment = |event, kind, text: &str, fate| Moment { event, kind, text: text.into(), fate };
    vec![
        moment(890, MomentKind::Request, "write d.db bytes 8192-12288", None),
        moment(894, MomentKind::Flush, "flush 31 answered", None),
        moment(896, MomentKind::Mark, "row 7", None),
        moment(899, MomentKind::Request, "write d.db bytes 12288-16384", Some(Fate::Lost)),
        moment(903, MomentKind::Request, "write d.db-wal bytes 0-32768", Some(Fate::Torn)),
        moment(905, MomentKind::Request, "write ext4 journal", Some(Fate::Kept)),
        moment(910, MomentKind::Mark, "row 8", None),
        moment(912, MomentKind::Cut, "the power goes", None),
    ]
}

fn states() -> Vec<StateRow> {
    let row = |id: &str, kind, exit, group| StateRow {
        id: id.into(),
        name: format!("912:keep,{id}=lost"),
        cut: 912,
        acked: 8,
        kind,
        exit,
        group,
        same_as: None,
    };
    let mut out = vec![
        row("11", Kind::Good, Some(0), None),
        row("12", Kind::Lost, Some(1), Some(1)),
        row("13", Kind::Broken, Some(2), Some(0)),
        row("14", Kind::Lost, Some(1), Some(2)),
        row("15", Kind::Hung, None, Some(3)),
        row("16", Kind::Failed, Some(127), Some(4)),
        row("17", Kind::Good, Some(0), None),
    ];
    out[6].same_as = Some("11".into());
    out
}
