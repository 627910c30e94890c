use super::*;
use crate::workload::{Bursts, Pattern};

/// Counts calls instead of time, so that reports can be compared whole.
fn stopped_clock() -> u64 {
    0
}

fn ram(kind: Kind) -> (Target, SimOptions) {
    let workload = Workload { requests: 2000, ..Workload::default() };
    (Target::ram(4000), SimOptions { workload, ..SimOptions::new(kind) })
}

#[test]
fn every_layout_and_workload_keeps_its_content_in_memory() {
    for kind in Kind::ALL {
        let (target, base) = ram(kind);
        let bursts = Some(Bursts { requests: 64, idle_ns: 1_000_000_000 });
        let mixed = Workload { read_share: 0.4, depth: 32, ..base.workload.clone() };
        let workloads = [
            base.workload.clone(),
            Workload { flush_every: Some(7), ..mixed.clone() },
            Workload { fua: true, request_blocks: 5, ..mixed.clone() },
            Workload { bursts, warm_up: 100, ..mixed.clone() },
            Workload { pattern: Pattern::Sequential, request_blocks: 16, range: 0.5, ..mixed },
        ];
        for workload in workloads {
            let options = SimOptions { workload, ..base.clone() };
            let report = simulate(&target, &options, stopped_clock).unwrap();
            assert_eq!(report.requests, 2000);
        }
    }
}

#[test]
fn utilisation_that_does_not_fit_names_what_does() {
    for kind in Kind::ALL {
        let (target, base) = ram(kind);
        let largest = kind.largest_volume(4000);
        let options = SimOptions { utilisation: Some(1.0), ..base.clone() };
        let error = simulate(&target, &options, stopped_clock).unwrap_err();
        assert!(error.to_string().contains(&largest.to_string()), "{error}");
        let fits = SimOptions { utilisation: Some(largest as f64 / 4000.0), ..base.clone() };
        assert_eq!(simulate(&target, &fits, stopped_clock).unwrap().volume_blocks, largest);
        for utilisation in [0.0, -1.0, 1.1, f64::NAN] {
            let options = SimOptions { utilisation: Some(utilisation), ..base.clone() };
            let error = simulate(&target, &options, stopped_clock).unwrap_err();
            assert!(matches!(error, SimError::Utilisation(_)), "{error}");
        }
    }
}

#[test]
fn senseless_options_are_errors() {
    let (target, base) = ram(Kind::Inplace);
    for age in [-1.0, f64::NAN, 1e12] {
        let options = SimOptions { age, ..base.clone() };
        assert!(matches!(simulate(&target, &options, stopped_clock), Err(SimError::Age(_))));
    }
    let workload = Workload { depth: 0, ..base.workload.clone() };
    let options = SimOptions { workload, ..base.clone() };
    let error = simulate(&target, &options, stopped_clock).unwrap_err();
    assert_eq!(error, SimError::Workload(WorkloadError::Depth(0)));
    let huge = Target::ram(1 << 30);
    let error = simulate(&huge, &base, stopped_clock).unwrap_err();
    assert!(error.to_string().contains("51 GB"), "{error}");
    let error = compare(&[], &[target], &base, stopped_clock).unwrap_err();
    assert_eq!(error, SimError::NothingToCompare);
}
