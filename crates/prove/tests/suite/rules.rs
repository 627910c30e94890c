//! Each rule of each judge can object: a planted bug breaks it, and it finds that bug by itself,
//! with all other rules silenced.
#![cfg(debug_assertions)]

use crate::hunters::each;
use crate::{planted_bugs, planted_files, planted_log};
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_prove::rules::{Judge, alone};
use seekless_prove::{ProveOptions, ProveReport, Rule, Subject, prove};

/// Rule, subject, bug, seed, and states until that seed finds the bug with this rule alone.
const SHOWN: &[(Rule, &str, PlantedBug, u64, u64)] = &[
    (Rule::OnePoint, "ffs wafs-1async", PlantedBug::GroupSplit, 1, 5_407),
    (Rule::SectorCounts, "ffs async", PlantedBug::CutTailCounted, 1, 11_509),
    (Rule::MarkedClean, "ffs async", PlantedBug::CutTailCounted, 1, 11_509),
    (Rule::ShutsDown, "dcd", PlantedBug::TombstoneLost, 1, 5621),
    (Rule::Answers, "loge", PlantedBug::WaiterForgotten, 1, 17062),
    (Rule::StaysFailed, "inplace", PlantedBug::ErrorForgotten, 1, 6755),
    (Rule::ImageDamage, "ffs sync", PlantedBug::PointerBeforeContent, 1, 8208),
    (Rule::Attributes, "ffs async", PlantedBug::AckBeforeDurable, 1, 767),
    (Rule::BlockVersion, "inplace", PlantedBug::AckBeforeDurable, 1, 1155),
    (Rule::CanBeRead, "vlog", PlantedBug::FreeBeforeCommit, 1, 1360),
    (Rule::ChangeAnswered, "dcd", PlantedBug::DestageBeforeDurable, 1, 2790),
    (Rule::DamageAtRest, "inplace", PlantedBug::SecondCopyIgnored, 1, 813),
    (Rule::DamageNoticed, "inplace", PlantedBug::AckBeforeDurable, 1, 1164),
    (Rule::EnoughLinks, "ffs soft", PlantedBug::FreedAtOnce, 1, 424),
    (Rule::FreshIdentity, "ffs async", PlantedBug::GenerationKept, 1, 50),
    (Rule::FsyncedName, "ffs async", PlantedBug::AckBeforeDurable, 1, 3),
    (Rule::ImageSound, "ffs sync", PlantedBug::EntryBeforeInode, 1, 3),
    (Rule::KindKept, "ffs sync", PlantedBug::GenerationKept, 1, 347),
    (Rule::LogDurable, "log", PlantedBug::AckBeforeDurable, 1, 1_000),
    (Rule::LogPrefix, "log", PlantedBug::TailPastGap, 1, 1_000),
    (Rule::MarkedInUse, "ffs soft", PlantedBug::InodeBeforeBitmap, 1, 31),
    (Rule::MembersAgree, "inplace on RAID-5 of 3", PlantedBug::NoWriteLog, 1, 139),
    (Rule::Mounts, "vlog", PlantedBug::FreeBeforeCommit, 1, 1430),
    (Rule::NameLeads, "ffs sync", PlantedBug::AckBeforeDurable, 1, 114),
    (Rule::NameStays, "ffs sync", PlantedBug::AckBeforeDurable, 1, 1),
    (Rule::NamesInUse, "ffs sync", PlantedBug::EntryBeforeInode, 1, 3),
    (Rule::NoForeignSector, "ffs async", PlantedBug::GenerationKept, 1, 1794),
    (Rule::NothingLeaked, "ffs soft", PlantedBug::PointerBeforeContent, 1, 339),
    (Rule::OneOwner, "ffs soft", PlantedBug::FreedAtOnce, 1, 2721),
    (Rule::ParentEntries, "ffs sync", PlantedBug::PointerBeforeContent, 1, 220),
    (Rule::ReadAnswered, "vlog", PlantedBug::MapBeforeData, 1, 1306),
    (Rule::ReadOnlyShows, "inplace on RAID-5 of 3", PlantedBug::UnreplayedShown, 1, 119),
    (Rule::ReadVersion, "dcd", PlantedBug::FreeBeforeCommit, 1, 1591),
    (Rule::RenamedName, "ffs async", PlantedBug::AckBeforeDurable, 1, 744),
    (Rule::RequestOrder, "vlog", PlantedBug::ChecksumNotVerified, 1, 1100),
    (Rule::SectorVersion, "ffs async", PlantedBug::AckBeforeDurable, 1, 612),
    (Rule::SizeVersion, "ffs async", PlantedBug::AckBeforeDurable, 1, 612),
    (Rule::WholeRequest, "vlog", PlantedBug::ChecksumNotVerified, 1, 23),
    (Rule::Works, "dcd", PlantedBug::OlderRead, 1, 7),
];

/// Rules that no planted bug breaks alone so far. The list can only shrink.
const UNSHOWN: &[Rule] = &[
    Rule::NoPretence,
    Rule::MountShows,
    Rule::DamageLookedPast,
    Rule::DamageMended,
    Rule::Repairable,
    Rule::AddressRange,
    Rule::DirectoryForm,
    Rule::OneParent,
    Rule::KnownName,
    Rule::RootThere,
    Rule::OneName,
    Rule::WholeWrite,
    Rule::WrittenWhole,
    Rule::Refused,
    Rule::CallAnswered,
];

/// A hunt may take this many times the known number of states. A slower search then fails the test.
const SLACK: u64 = 3;

fn hunt<S: Subject>(
    subject: S,
    rule: Rule,
    bug: PlantedBug,
    seed: u64,
    states: u64,
) -> ProveReport {
    let options = ProveOptions { seed, states, stop_at_first: true, ..ProveOptions::of(subject) };
    alone(rule, || with_bug(Some(bug), || prove(&options, || 0, &mut |_, _| {})))
}

/// States until a rule alone finds a bug in a subject; none if it does not.
fn found(rule: Rule, subject: &str, bug: PlantedBug, seed: u64, states: u64) -> Option<u64> {
    let report = hunt_by_name(rule, subject, bug, seed, states);
    let report = report.unwrap_or_else(|| panic!("{bug:?} is not planted in {subject}"));
    (!report.violations.is_empty()).then_some(report.states)
}

fn hunt_by_name(
    rule: Rule,
    name: &str,
    bug: PlantedBug,
    seed: u64,
    states: u64,
) -> Option<ProveReport> {
    let blocks =
        planted_bugs::planted().into_iter().find(|one| one.0.name() == name && one.1 == bug);
    if let Some((subject, _)) = blocks {
        return Some(hunt(subject, rule, bug, seed, states));
    }
    let files =
        planted_files::planted().into_iter().find(|one| one.0.name() == name && one.1 == bug);
    if let Some((subject, _)) = files {
        return Some(hunt(subject, rule, bug, seed, states));
    }
    let log = planted_log::planted().into_iter().find(|one| one.0.name() == name && one.1 == bug);
    log.map(|(subject, _)| hunt(subject, rule, bug, seed, states))
}

#[test]
fn every_rule_is_shown_to_object() {
    for rule in Rule::ALL {
        let shown = SHOWN.iter().filter(|one| one.0 == *rule).count();
        let unshown = UNSHOWN.iter().filter(|one| *one == rule).count();
        assert_eq!(shown + unshown, 1, "{rule:?} must be in one list");
    }
    let found = each(SHOWN, |&(rule, subject, bug, seed, states)| {
        found(rule, subject, bug, seed, SLACK * states)
    });
    let missed: Vec<_> =
        SHOWN.iter().zip(found).filter(|(_, found)| found.is_none()).map(|(one, _)| one).collect();
    assert!(missed.is_empty(), "these rules miss their bugs: {missed:#?}");
}

/// The lines of the table of rules in `docs/proof.md`.
fn lines() -> Vec<String> {
    let line = |rule: &Rule| {
        let shown = SHOWN.iter().find(|one| one.0 == *rule);
        let shown = shown.map_or("–".to_owned(), |one| format!("`{:?}` in {}", one.2, one.1));
        format!("| {} | {} | {shown} |", rule.judge().name(), rule.summary())
    };
    Rule::ALL.iter().map(line).collect()
}

#[test]
fn the_page_lists_the_rules() {
    let page = include_str!("../../../../docs/proof.md");
    let lines = lines();
    let missing: Vec<&String> = lines.iter().filter(|line| !page.contains(*line)).collect();
    assert!(missing.is_empty(), "the table of the page lacks these lines:\n{missing:#?}");
}

/// True if a judge looks at block volumes, and if it looks at file systems. The judge of records
/// looks at neither.
fn looks_at(judge: Judge) -> (bool, bool) {
    match judge {
        Judge::History | Judge::BlockClient => (true, false),
        Judge::Image | Judge::Check | Judge::Tree | Judge::FileClient => (false, true),
        Judge::State | Judge::Run | Judge::Subject => (true, true),
        Judge::Records => (false, false),
    }
}

/// States of each search for a bug that an unshown rule finds.
const SEARCHED: u64 = 4_000;

/// No planted bug shows a rule that is listed as not shown: where one does, that is its line. Takes
/// minutes, so nightly runs it.
#[test]
#[ignore = "takes minutes; `cargo xtask ci nightly` runs it"]
fn no_bug_shows_a_rule_that_is_listed_as_unshown() {
    let blocks = planted_bugs::planted().into_iter().map(|one| (one.0.name(), one.1, true));
    let files = planted_files::planted().into_iter().map(|one| (one.0.name(), one.1, false));
    let tries: Vec<(Rule, String, PlantedBug)> = blocks
        .chain(files)
        .flat_map(|(subject, bug, is_block)| {
            let may_look = move |rule: &&Rule| {
                let (of_blocks, of_files) = looks_at(rule.judge());
                if is_block { of_blocks } else { of_files }
            };
            UNSHOWN.iter().filter(may_look).map(move |&rule| (rule, subject.clone(), bug))
        })
        .collect();
    let found = each(&tries, |(rule, subject, bug)| {
        // Some bugs end a run in an assertion, if the rule that finds them first is silenced.
        std::panic::catch_unwind(|| found(*rule, subject, *bug, 1, SEARCHED)).unwrap_or(None)
    });
    let lines: Vec<String> = tries
        .iter()
        .zip(found)
        .filter_map(|((rule, subject, bug), states)| {
            Some(format!("(Rule::{rule:?}, \"{subject}\", PlantedBug::{bug:?}, 1, {}),", states?))
        })
        .collect();
    assert!(lines.is_empty(), "these rules are shown:\n{}", lines.join("\n"));
}
