use super::super::hylog;
use super::*;

#[track_caller]
fn close(what: &str, found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() <= part * expected, "{what}: {found}, expected {expected}");
}

/// A run in the steady state: some overwrites of each page before the measured ones.
fn steady(setup: Setup, rounds: u64) -> Counts {
    let mut tiny = Tiny::new(setup).expect("a disk");
    let writes = tiny.pages() * rounds;
    tiny.run(writes);
    tiny.run(writes)
}

#[test]
fn h6_uniform_updates_follow_equation_2() {
    for (utilisation, expected) in [(0.6, 0.3242), (0.8, 0.6286), (0.9, 0.8069)] {
        // The larger the segments, the less the choice of the emptiest gains.
        for (policy, pages_per_segment) in [(Policy::Fifo, 64), (Policy::Greedy, 256)] {
            let setup = Setup {
                segments: 1500,
                pages_per_segment,
                utilisation,
                policy,
                ..Setup::default()
            };
            let counts = steady(setup, 3);
            let what = format!("{policy:?} at {utilisation}");
            close(&what, counts.cleaning_utilisation(), expected, 0.02);
            // Equation (4) is its cost.
            close(&what, counts.scaled_cost(9.0), hylog::cleaning(expected), 0.05);
        }
    }
}

/// The disk of the claim is so small that three free segments count.
#[test]
fn h6_the_small_disk_of_the_claim() {
    let table = [(0.6, 0.332, 0.320), (0.8, 0.638, 0.626), (0.9, 0.820, 0.806)];
    for (utilisation, fifo, greedy) in table {
        for (policy, expected) in [(Policy::Fifo, fifo), (Policy::Greedy, greedy)] {
            let setup = Setup { segments: 400, utilisation, policy, ..Setup::default() };
            let counts = steady(setup, 8);
            let what = format!("{policy:?} at {utilisation}");
            close(&what, counts.cleaning_utilisation(), expected, 0.02);
        }
    }
}

#[test]
fn h7_writing_in_place_costs_eta() {
    let setup = Setup { policy: Policy::Overwrite, ..Setup::default() };
    let counts = steady(setup, 1);
    assert_eq!(counts.scaled_cost(17.0), 17.0);
    assert_eq!(counts.cleaning_utilisation(), 0.0);
    assert_eq!(Counts::default().scaled_cost(17.0), 0.0);
}

/// Figure 5: pages of 8 KB, segments of 256 KB, 15 ms, 5 MB/s.
fn figure_5(policy: Policy, utilisation: f64) -> f64 {
    let disk = hylog::Disk::new("figure 5", 15.0, 5.0, 8e3, Some(256e3)).expect("a disk");
    let setup = Setup {
        segments: 1200,
        pages_per_segment: 32,
        utilisation,
        policy,
        efficiency: disk.efficiency(),
        free_segments: 10,
        pass_segments: 10,
        ..Setup::default()
    };
    steady(setup, 4).scaled_cost(disk.efficiency()) * disk.transfer_inefficiency()
}

#[test]
fn h19_plugging_holes_pays_on_full_disks() {
    for (utilisation, copying_wins) in [(0.5, true), (0.75, true), (0.92, false), (0.95, false)] {
        let copying = figure_5(Policy::CostAge, utilisation);
        let plugging = figure_5(Policy::Plugging, utilisation);
        let adaptive = figure_5(Policy::Adaptive, utilisation);
        assert_eq!(copying < plugging, copying_wins, "{utilisation}: {copying} {plugging}");
        let best = copying.min(plugging);
        assert!(adaptive <= best * 1.05, "{utilisation}: {adaptive}, the better is {best}");
    }
}

#[test]
fn skew_leaves_less_to_clean() {
    let hot = Distribution::HotCold { references: 0.9, pages: 0.1 };
    let run = |distribution, policy, buffered| {
        let setup = Setup { distribution, policy, buffered, pass_segments: 8, ..Setup::default() };
        steady(Setup { free_segments: 10, ..setup }, 6).scaled_cost(9.0)
    };
    let uniform = run(Distribution::Uniform, Policy::CostAge, 0);
    let skewed = run(hot, Policy::CostAge, 0);
    assert!(skewed < uniform, "{skewed} and {uniform}");
    // A buffer that sorts by popularity separates hot from cold.
    let (one, four) = (run(hot, Policy::CostAge, 1), run(hot, Policy::CostAge, 4));
    assert!(four < one, "sorted {four}, unsorted {one}");
}

#[test]
fn nothing_is_lost_and_every_page_has_one_slot() {
    for policy in
        [Policy::Fifo, Policy::Greedy, Policy::CostAge, Policy::Plugging, Policy::Adaptive]
    {
        let setup = Setup {
            segments: 40,
            pages_per_segment: 16,
            utilisation: 0.75,
            policy,
            efficiency: 6.0,
            pass_segments: 2,
            distribution: Distribution::knuth(80.0, 20.0),
            ..Setup::default()
        };
        let mut tiny = Tiny::new(setup).expect("a disk");
        for _ in 0..200 {
            tiny.run(50);
            let owned = tiny.owners.iter().filter(|&&page| page != NONE).count();
            assert_eq!(owned as u64, tiny.pages(), "{policy:?}");
            for (page, &slot) in tiny.slots.iter().enumerate() {
                assert_eq!(tiny.owners[slot as usize], page as u32, "{policy:?}");
            }
            let live: u32 = tiny.segments.iter().map(|segment| segment.live).sum();
            assert_eq!(u64::from(live), tiny.pages(), "{policy:?}");
            assert!(tiny.free.len() >= 3, "{policy:?}");
        }
    }
}

#[test]
fn disks_without_room_are_refused() {
    for setup in [
        Setup { utilisation: 1.0, ..Setup::default() },
        Setup { utilisation: 0.999, ..Setup::default() },
        Setup { segments: 0, ..Setup::default() },
        Setup { pages_per_segment: u32::MAX, ..Setup::default() },
        Setup { pass_segments: 0, ..Setup::default() },
        Setup { free_segments: 0, ..Setup::default() },
    ] {
        assert!(Tiny::new(setup).is_err(), "{setup:?}");
    }
}
