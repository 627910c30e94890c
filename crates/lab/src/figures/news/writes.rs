//! What soft updates write beyond FFS, and why: J9, J30 and J31.
//!
//! The rule that content goes before what leads there can be switched off. What is written less
//! without it is what the rule costs.

use super::{HALVES, TABLE, UNORDERED, gain, with_cache};
use crate::figures::claim::Judge;
use crate::figures::job::{IN_PLACE, Results, Told};
use crate::figures::table::{Table, heads, told};

/// Counters of the file system.
const WRITES: &str = "writes";
const ROLLED_BACK: &str = "images rolled back";

/// A counter over all phases of a run in place.
fn counted(
    results: &Results<'_>,
    policy: &'static str,
    variant: &str,
    name: &'static str,
) -> Told<f64> {
    let report = results.files(policy, IN_PLACE.name, variant)?;
    let each = report.phases.iter().map(|phase| phase.file_system.get(name).copied());
    each.sum::<Option<f64>>().ok_or_else(|| format!("{name} are not counted"))
}

/// The claims, and what they were judged by.
pub(super) fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let of = |policy, variant, name| counted(results, policy, variant, name);
    let writes = |policy, variant| of(policy, variant, WRITES);
    let (ffs, soft) = (writes("sync", TABLE.variant), writes("soft", TABLE.variant));
    let unordered = writes("soft", UNORDERED);
    let told_writes = || {
        let each = [("FFS", &ffs), ("soft updates", &soft), ("without the rule", &unordered)];
        let each = each.map(|(name, count)| match count {
            Ok(count) => format!("{name}: {count:.0} writes"),
            Err(why) => format!("{name}: {why}"),
        });
        each.join(", ")
    };
    let says = "soft updates write more often than FFS, by 13 %";
    let more = || -> Told<f64> { Ok(soft.clone()? / ffs.clone()?) };
    judge.claim("J30/writes", says).between(1.08, 1.18, more(), told_writes);
    let says = "of images rolled back, inodes that point at unwritten content cause 65 %";
    let images = |variant| of("soft", variant, ROLLED_BACK);
    let share = || -> Told<f64> {
        let (all, others) = (images(TABLE.variant)?, images(UNORDERED)?);
        Ok((all - others) / all.max(1.0))
    };
    judge.claim("J30/content", says).at_least(0.5, share(), || match images(TABLE.variant) {
        Ok(all) => format!("{all:.0} images were rolled back; {}", told_writes()),
        Err(why) => why,
    });
    let says = "to write content before inodes costs soft updates 8 %: speed without it";
    let because = || TABLE.because(results, ["soft", "async"], "unbatch");
    judge.claim("J9/netnews", says).between(1.05, 1.10, gain(results), because);
    let rolled_back = |halves| counted(results, "soft", &with_cache(halves), ROLLED_BACK);
    let seen = || -> Told<(bool, String)> {
        let all: Vec<f64> = HALVES.into_iter().map(rolled_back).collect::<Told<_>>()?;
        let each = HALVES.iter().zip(&all).map(|(halves, count)| format!("{halves}/2: {count:.0}"));
        let found = each.collect::<Vec<_>>().join(", ");
        let falls = all.windows(2).all(|two| two[1] < two[0]);
        Ok((falls, format!("images rolled back with a cache of {found}")))
    };
    let says = "the smaller the cache, the more images are rolled back";
    judge.claim("J31", says).shape(seen(), told_writes);
    vec![table(results)]
}

fn table(results: &Results<'_>) -> Table {
    let columns = ["writes", "images/rolled back"].map(str::to_owned);
    let mut table = Table::new("what is written in all", heads("run", columns));
    let policies = results.policies_on(IN_PLACE.name).into_iter();
    let plain = policies.map(|policy| (policy, TABLE.variant.to_owned()));
    let halves = HALVES.into_iter().filter(|halves| *halves != 2).map(with_cache);
    let more = std::iter::once(UNORDERED.to_owned()).chain(halves).map(|one| ("soft", one));
    for (policy, variant) in plain.chain(more) {
        let of = |name| told(counted(results, policy, &variant, name));
        table.row(format!("{policy}, {variant}"), vec![of(WRITES), of(ROLLED_BACK)]);
    }
    table
}
