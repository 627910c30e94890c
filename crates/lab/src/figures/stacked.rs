//! Where the time of an update goes on each platform (paper 000, figure 10; claim V43): overhead of
//! the command, transfer, locating the sectors, and all else.

use super::claim::Judge;
use super::job::{IN_PLACE, Platform, Results, Told, VLOG, spent_in};
use super::table::{Table, heads};
use super::updates::{DATA_ONLY, PLATFORMS, fresh, ms};
use super::{ufs_policy, vlfs};
use crate::files::report::PhaseReport;
use seekless_disk::specs;

const PARTS: [&str; 4] = ["overhead", "transfer", "locate", "other"];
const LOCATE: usize = 2;
const OTHER: usize = 3;

/// The parts of an update in milliseconds.
fn parts(phase: &PhaseReport, disk: Platform) -> [f64; 4] {
    let overhead_ms = specs::find(disk.name()).map_or(0.0, |spec| spec.overhead_ms);
    let updates = phase.by_call.get("fsync").map_or(0, |call| call.calls).max(1) as f64;
    let all = phase.disk_time.iter().flat_map(|disk| &disk.spent);
    // What the disk does while no update waits is not part of one.
    let (mut commands, mut busy, mut locate) = (0.0, 0.0, 0.0);
    let is_own = |what: &str| !["ordering", "cleaning"].iter().any(|one| what.starts_with(one));
    for one in all.filter(|one| is_own(&one.what)) {
        // A flush costs the disk nothing here.
        commands += if one.mebibytes > 0.0 { one.commands as f64 / updates } else { 0.0 };
        busy += one.seconds * 1e3 / updates;
        locate += one.positioning_seconds * 1e3 / updates;
    }
    let overhead = commands * overhead_ms;
    [overhead, (busy - overhead - locate).max(0.0), locate, (ms(phase) - busy).max(0.0)]
}

fn shares(
    results: &Results<'_>,
    platform: (&str, Platform),
    volume: &'static str,
) -> Told<[f64; 4]> {
    let variant = fresh(platform.0, platform.1);
    let phase = results.phase(ufs_policy(results), volume, &variant, DATA_ONLY)?;
    let parts = parts(phase, platform.1);
    let whole = parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    Ok(parts.map(|part| part / whole * 100.0))
}

/// The six bars.
pub(super) fn table(results: &Results<'_>) -> Table {
    let title = "where the time of an update goes at 80 %, in %";
    let mut table = Table::new(title, heads("platform, volume", PARTS.map(str::to_owned)));
    for platform in PLATFORMS {
        let more = vlfs::systems(results).into_iter().filter(|(policy, _)| *policy == "sync");
        let names = [IN_PLACE.name, VLOG.name].into_iter().chain(more.map(|(_, volume)| volume));
        for volume in names {
            let cells = match shares(results, platform, volume) {
                Ok(shares) => shares.map(Some).to_vec(),
                Err(_) => vec![None; PARTS.len()],
            };
            let (host, disk) = platform;
            table.row(format!("{host} with {}, {volume}", disk.name()), cells);
        }
    }
    table
}

/// V43.
pub(super) fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let [old, slow, fast] = PLATFORMS;
    let share = |platform, volume, part: usize| {
        shares(results, platform, volume).map(|shares: [f64; 4]| shares[part])
    };
    let because = |platform: (&str, Platform), volume: &'static str| {
        let variant = fresh(platform.0, platform.1);
        spent_in(results.phase(ufs_policy(results), volume, &variant, DATA_ONLY))
    };
    for (name, platform) in [("hp97560", old), ("st19101", fast)] {
        let says = "in place, locating the sectors takes the largest part of the time";
        let claim = judge.claim(format!("V43/inplace/{name}"), says).unit("%");
        let part = share(platform, IN_PLACE.name, LOCATE);
        claim.at_least(40.0, part, || because(platform, IN_PLACE.name));
    }
    let says = "on the virtual log, locating takes a smaller share than in place";
    let less = share(fast, VLOG.name, LOCATE).and_then(|vlog| {
        let plain = share(fast, IN_PLACE.name, LOCATE)?;
        Ok((vlog < plain, format!("{vlog:.0} % against {plain:.0} %")))
    });
    judge.claim("V43/vlog", says).shape(less, || because(fast, VLOG.name));
    let says = "sparc10 with the newer disk, virtual log: the host takes the largest part";
    let claim = judge.claim("V43/host", says).unit("%");
    claim.at_least(50.0, share(slow, VLOG.name, OTHER), || because(slow, VLOG.name));
    let says = "ultra170 with the newer disk, virtual log: host and disk are balanced";
    let claim = judge.claim("V43/balanced", says).unit("%");
    claim.between(25.0, 65.0, share(fast, VLOG.name, OTHER), || because(fast, VLOG.name));
}
