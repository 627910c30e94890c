//! What figures 1 and 2 of paper 001 claim about systems that keep a log.

use super::phases::{plain, removed, settled};
use crate::figures::claim::Judge;
use crate::figures::job::{Results, Told, ratio, spent_both, spent_in};
use crate::figures::paper::label;
use crate::figures::published::{CREATE, DELETE, SIZES_KB, column};
use seekless_fs::policy::PolicyKind;

/// A number of a figure, of a policy with files of a size.
fn printed(table: &[[f64; 8]; 13], policy: &str, kb: u64) -> f64 {
    let row = SIZES_KB.iter().position(|one| *one == kb);
    let at = row.zip(column(policy));
    at.map(|(row, column)| table[row][column]).expect("a size and a system of the paper")
}

/// The systems whose log is written later than a call is answered.
const LATE: [PolicyKind; 3] =
    [PolicyKind::LffsFile, PolicyKind::Wafs1Async, PolicyKind::Wafs2Async];

/// The claims.
pub(super) fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    creates(results, judge);
    deletes(results, judge);
    shapes(results, judge);
}

/// J12, J13 and J17: files made, against FFS-async.
fn creates(results: &Results<'_>, judge: &mut Judge<'_>) {
    for (id, kb, tolerance, policies) in [
        ("J12", 64, 0.10, &PolicyKind::LOGGED[..]),
        ("J13", 2, 0.15, &PolicyKind::LOGGED),
        ("J17", 32, 0.10, &LATE),
    ] {
        for policy in policies.iter().map(|policy| policy.name()) {
            let create = |policy| plain(results, policy, "create", kb);
            let paper = printed(&CREATE, policy, kb) / printed(&CREATE, "async", kb);
            let measured = ratio(create(policy).map(settled), create("async").map(settled));
            let says = format!("{policy} makes files of {kb} KB, against FFS-async");
            judge.claim(format!("{id}/{policy}"), says).near(paper, tolerance, measured, || {
                spent_both((policy, create(policy)), ("async", create("async")))
            });
        }
    }
}

/// J18 and J19: files removed.
fn deletes(results: &Results<'_>, judge: &mut Judge<'_>) {
    let delete = |policy, kb| plain(results, policy, "delete", kb);
    let rate = |policy, kb| delete(policy, kb).map(removed);
    for policy in ["wafs-1sync", "wafs-2sync"] {
        let claim =
            judge.claim(format!("J18/{policy}"), format!("{policy} removes files of 64 KB"));
        let paper = printed(&DELETE, policy, 64) * 1e3;
        let because = || spent_in(delete(policy, 64));
        claim.unit("files/s").near(paper, 0.15, rate(policy, 64), because);
    }
    for policy in LATE.map(PolicyKind::name) {
        let says = format!("{policy} removes files of 64 KB, against FFS-async");
        let paper = printed(&DELETE, policy, 64) / printed(&DELETE, "async", 64);
        let measured = ratio(rate(policy, 64), rate("async", 64));
        judge.claim(format!("J18/{policy}"), says).near(paper, 0.15, measured, || {
            spent_both((policy, delete(policy, 64)), ("async", delete("async", 64)))
        });
        let says = format!("{policy} removes fewer files of 104 KB than of 96: factor");
        let measured = ratio(rate(policy, 96), rate(policy, 104));
        let because = || spent_in(delete(policy, 104));
        judge.claim(format!("J19/{policy}"), says).at_least(4.0, measured, because);
    }
}

/// MB/s of two systems that make files of a size.
fn two(results: &Results<'_>, one: &'static str, other: &'static str, kb: u64) -> Told<[f64; 2]> {
    let rate = |policy| plain(results, policy, "create", kb).map(settled);
    Ok([rate(one)?, rate(other)?])
}

fn told(kb: u64, [one, other]: [f64; 2]) -> String {
    format!("{one:.2} and {other:.2} MB/s at {}", label(kb))
}

/// J15, J16 and J49: where systems part.
fn shapes(results: &Results<'_>, judge: &mut Judge<'_>) {
    let because = |one: &'static str, other: &'static str, kb| {
        move || {
            let create = |policy| plain(results, policy, "create", kb);
            spent_both((one, create(one)), (other, create(other)))
        }
    };
    let says = "FFS and wafs-1sync make files of 96 KB equally fast, at 104 KB wafs-1sync leads, \
                at 4 MB FFS";
    let seen = || -> Told<(bool, String)> {
        let of = |kb| two(results, "sync", "wafs-1sync", kb);
        let (equal, ahead, behind) = (of(96)?, of(104)?, of(4096)?);
        let is_equal = (equal[1] / equal[0] - 1.0).abs() < 0.15;
        let found = [told(96, equal), told(104, ahead), told(4096, behind)].join(", ");
        Ok((is_equal && ahead[1] > ahead[0] && behind[0] > behind[1], found))
    };
    judge.claim("J15", says).shape(seen(), because("sync", "wafs-1sync", 96));
    let says = "wafs-2async makes files of 8 KB at least twice as fast as wafs-2sync, of 256 KB \
                equally fast";
    let seen = || -> Told<(bool, String)> {
        let of = |kb| two(results, "wafs-2async", "wafs-2sync", kb);
        let (small, large) = (of(8)?, of(256)?);
        let is_equal = (large[1] / large[0] - 1.0).abs() < 0.1;
        Ok((small[0] > 2.0 * small[1] && is_equal, [told(8, small), told(256, large)].join(", ")))
    };
    judge.claim("J16", says).shape(seen(), because("wafs-2async", "wafs-2sync", 8));
    let says = "LFFS-file is slower than FFS-async for files of 64 KB and more: largest ratio";
    let largest = || -> Told<f64> {
        let mut largest = 0.0_f64;
        for kb in SIZES_KB.into_iter().filter(|&kb| kb >= 64) {
            let [file, base] = two(results, "lffs-file", "async", kb)?;
            largest = largest.max(file / base);
        }
        Ok(largest)
    };
    // Over these sizes the paper has .65 to .83.
    judge.claim("J50", says).between(0.0, 0.9, largest(), because("lffs-file", "async", 64));
    for (id, one, other, least, most) in [
        ("J49/sync", "wafs-2sync", "wafs-1sync", 1.5, 4.0),
        ("J49/async", "wafs-2async", "wafs-1async", 0.9, 1.1),
    ] {
        let says = format!("one disk or two matters to synchronous logs only: {one} over {other}");
        let measured = two(results, one, other, 64).map(|[one, other]| one / other);
        judge.claim(id, says).between(least, most, measured, because(one, other, 64));
    }
}
