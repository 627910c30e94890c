//! The models as tables: numbers from outside are checked here.

use super::fill::{Costs, Optimum};
use super::loge::Drive;
use super::monte::{self, Scope};
use super::{Column, ModelError, Params, Quantity, Table, below_one, fill, locate};
use seekless_engine::units::SECTOR_BYTES;

/// Default utilisations of the tables: those of the claims.
pub const UTILISATIONS: [f64; 13] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99];

/// Default reserves: those of table V-c.
pub const RESERVES: [f64; 13] =
    [0.0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9];

/// Default shares of free segments for Loge: those of its section 5.2, and some between.
pub const FREE: [f64; 9] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.35, 0.5];

/// Largest number of trials for each point.
const MOST_TRIALS: u32 = 100_000_000;

/// Most slots of a disk that is simulated as a whole.
const MOST_SLOTS: u64 = 1 << 20;

/// Simulation beside the formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dice {
    /// Trials for each point.
    pub trials: u32,
    /// Seed of all randomness.
    pub seed: u64,
}

fn check(dice: Option<Dice>, slots: u64) -> Result<(), ModelError> {
    let Some(dice) = dice else { return Ok(()) };
    if dice.trials == 0 || dice.trials > MOST_TRIALS {
        let (what, value) = ("trials", f64::from(dice.trials));
        return Err(ModelError::Range { what, value, range: "1 to 100000000" });
    }
    if slots > MOST_SLOTS {
        let (what, value) = ("slots of a simulated disk", slots as f64);
        let range = "at most 1048576; replace its cylinders by fewer or take larger slots";
        return Err(ModelError::Range { what, value, range });
    }
    Ok(())
}

pub(super) fn shares(what: &'static str, values: &[f64]) -> Result<Vec<f64>, ModelError> {
    if values.is_empty() {
        return Err(ModelError::Nothing(what));
    }
    values.iter().map(|&value| below_one(what, value)).collect()
}

fn title(model: &str, params: &Params) -> String {
    format!(
        "{model}: {}, {} tracks of {} slots of {} B, turn {:.3} ms, switch {:.3} ms",
        params.name(),
        params.tracks(),
        params.slots(),
        params.slot_sectors() * SECTOR_BYTES as u32,
        params.turn_ms(),
        params.track_switch_ms(),
    )
}

/// Table of the single-track model, equations (1) to (3).
///
/// # Errors
/// Utilisations outside 0 to below 1, and too many trials.
pub fn track(
    params: &Params,
    utilisations: &[f64],
    dice: Option<Dice>,
) -> Result<Table, ModelError> {
    let n = params.slots();
    check(dice, u64::from(n))?;
    let mut columns = vec![
        Column::new("utilisation", "share of the track in use"),
        Column::new("skipped", "used slots that pass before a free one: equation (1)"),
        Column::curve("track_ms", "the same as time"),
        Column::curve("in_place_ms", "half a turn, what a write in place waits (V17)"),
    ];
    if dice.is_some() {
        columns.push(Column::curve("simulated_ms", "simulated, free slots rounded to whole ones"));
    }
    let mut rows = Vec::new();
    for utilisation in shares("utilisation", utilisations)? {
        let free = 1.0 - utilisation;
        let skipped = locate::track(f64::from(n), free);
        let time = locate::track_ms(params, free);
        let mut row = vec![utilisation, skipped, time, params.half_turn_ms()];
        if let Some(Dice { trials, seed }) = dice {
            let k = ((f64::from(n) * free).round() as u32).max(1);
            row.push(monte::track(n, k, trials, seed) * params.slot_ms());
        }
        rows.push(row.into_iter().map(Some).collect());
    }
    Ok(table("track", title("Single track", params), params, columns, rows))
}

/// Table of the single-cylinder model, equations (4) to (6), and its extension to the disk.
///
/// # Errors
/// Utilisations outside 0 to below 1, and simulations that are too large.
pub fn cylinder(
    params: &Params,
    utilisations: &[f64],
    dice: Option<Dice>,
) -> Result<Table, ModelError> {
    let slots = u64::from(params.slots()) * u64::from(params.tracks());
    check(dice, slots * u64::from(params.cylinders()))?;
    let mut columns = vec![
        Column::new("utilisation", "share of the disk in use"),
        Column::curve("track_ms", "single track, equation (1)"),
        Column::curve("cylinder_ms", "single cylinder, equations (4) to (6)"),
        Column::new("zone_ms", "the same over all cylinders (V19)"),
        Column::new("at_work_ms", "single cylinder, searches beginning after the overhead"),
        Column::curve("in_place_ms", "half a turn, what a write in place waits (V17)"),
    ];
    if dice.is_some() {
        columns.push(Column::curve("simulated_ms", "simulated: the nearest free slot of the disk"));
        columns.push(Column::curve("greedy_ms", "simulated: the same after two writes a slot"));
    }
    let mut rows = Vec::new();
    for utilisation in shares("utilisation", utilisations)? {
        let free = 1.0 - utilisation;
        let mut row = vec![
            utilisation,
            locate::track_ms(params, free),
            locate::cylinder_ms(params, free),
            locate::zone_ms(params, free),
            locate::cylinder_at_work_ms(params, free),
            params.half_turn_ms(),
        ];
        if let Some(Dice { trials, seed }) = dice {
            row.push(monte::locate_ms(params, free, Scope::Zone, trials, seed));
            row.push(monte::working_ms(params, free, Scope::Zone, 2.0, trials, seed));
        }
        rows.push(row.into_iter().map(Some).collect());
    }
    Ok(table("cylinder", title("Single cylinder", params), params, columns, rows))
}

/// Table of filling empty tracks, equations (7) to (10) and the exact form.
///
/// # Errors
/// Reserves outside 0 to below 1, and too many trials.
pub fn filling(params: &Params, reserves: &[f64], dice: Option<Dice>) -> Result<Table, ModelError> {
    let (n, slot) = (params.slots(), params.slot_ms());
    check(dice, u64::from(n))?;
    let costs = Costs { n, switch: params.track_switch_ms(), slot };
    let mut columns = vec![
        Column::new("reserve", "share of a track kept free, rounded to slots"),
        Column::new("kept", "slots kept free, the k of the equations"),
        Column::new("skipped", "slots that pass while a track is filled: equation (7)"),
        Column::curve("eq8_ms", "mean of a write with equation (8): free slots at random"),
        Column::curve("eq10_ms", "mean of a write with equation (10): the paper's fit"),
        Column::curve("exact_ms", "mean of a write, exact: linear probing (V26)"),
    ];
    if dice.is_some() {
        columns.push(Column::curve("simulated_ms", "simulated: each write takes the next slot"));
    }
    let mut rows = Vec::new();
    for reserve in shares("reserve", reserves)? {
        let k = costs.reserve(reserve);
        let mut row = vec![
            Some(reserve),
            Some(f64::from(k)),
            Some(fill::skipped(n, k)),
            Some(costs.random(k)),
            costs.fitted(k),
            Some(costs.exact(k)),
        ];
        if let Some(Dice { trials, seed }) = dice {
            // Trials are writes, so that all points take about as long.
            let tracks = trials.div_ceil(n - k);
            let switch = costs.switch / f64::from(n - k);
            row.push(Some(switch + slot * monte::fill(n, k, tracks, seed)));
        }
        rows.push(row);
    }
    let mut table = table("fill", title("Filling tracks", params), params, columns, rows);
    let mut best = |key, optimum: Optimum, source| {
        let share = 100.0 * f64::from(optimum.k) / f64::from(n);
        let what = format!("least mean of a write, with {share:.1} % in reserve");
        table.quantities.push(Quantity { key, value: optimum.latency, unit: "ms", what, source });
    };
    best("best_exact_ms", costs.best_exact(), "exact, V26");
    best("best_eq8_ms", costs.best_random(), "equation 8, V22");
    if let Some(optimum) = costs.best_fitted() {
        best("best_eq10_ms", optimum, "equation 10, V24");
    }
    Ok(table)
}

/// Table of the time to place a logical block of `logical` sectors, equation (11), by the size of
/// physical blocks: the divisors of `logical`.
///
/// # Errors
/// A utilisation outside 0 to below 1, and logical blocks that do not fill a track.
pub fn block(
    params: &Params,
    utilisations: &[f64],
    logical: u32,
    dice: Option<Dice>,
) -> Result<Vec<Table>, ModelError> {
    let n = params.sectors();
    check(dice, u64::from(n))?;
    if logical == 0 || !n.is_multiple_of(logical) {
        return Err(ModelError::Logical { logical, sectors: n });
    }
    let mut tables = Vec::new();
    for utilisation in shares("utilisation", utilisations)? {
        let free = 1.0 - utilisation;
        let mut columns = vec![
            Column::new("physical", "sectors in a physical block"),
            Column::new("skipped", "sectors that pass while all pieces are found: equation (11)"),
            Column::curve("locate_ms", "the same as time"),
        ];
        if dice.is_some() {
            columns
                .push(Column::curve("simulated_ms", "simulated, free slots rounded to whole ones"));
        }
        let mut rows = Vec::new();
        for physical in (1..=logical).filter(|&size| logical.is_multiple_of(size)) {
            let size = f64::from(physical);
            let skipped = locate::pieces(f64::from(n), free, size, f64::from(logical));
            let mut row = vec![size, skipped, skipped * params.sector_ms()];
            if let Some(Dice { trials, seed }) = dice {
                let (slots, count) = (n / physical, logical / physical);
                let k = ((f64::from(slots) * free).round() as u32).max(count).min(slots);
                let found = monte::pieces(slots, k, count, trials, seed);
                row.push(found * size * params.sector_ms());
            }
            rows.push(row.into_iter().map(Some).collect());
        }
        let title = format!(
            "Block size: {}, {n} sectors on a track, logical blocks of {logical}, {:.0} % in use",
            params.name(),
            utilisation * 100.0
        );
        tables.push(table("block", title, params, columns, rows));
    }
    Ok(tables)
}

/// Table of Loge's section 5.2: single figures, and costs by the share of free segments.
///
/// # Errors
/// Shares of free segments that are not above 0 and below 1, and simulations that are too large.
pub fn loge(drive: &Drive, free: &[f64], dice: Option<Dice>) -> Result<Table, ModelError> {
    let segments = u64::from(drive.cylinders()) * u64::from(drive.surfaces());
    check(dice, segments * u64::from(drive.positions()))?;
    let mut columns = vec![
        Column::new("free", "share of segments that are free, at random places"),
        Column::new("found", "probability of a free segment in reach after one move (L12, L13)"),
        Column::curve("long_cost", "write cost of a long write to isolated segments (L14)"),
        Column::new("pair", "probability of two in a row in reach (L16)"),
        Column::new("track", "probability of a whole free track in reach (L17)"),
    ];
    if dice.is_some() {
        columns.push(Column::new("found_dice", "simulated: found in reach"));
        columns.push(Column::curve("cost_dice", "simulated: write cost of a long write"));
        columns.push(Column::new("pair_dice", "simulated: two in a row in reach"));
    }
    let mut rows = Vec::new();
    for free in shares("free share", free)? {
        if free == 0.0 {
            let (what, range) = ("free share", "above 0 and below 1");
            return Err(ModelError::Range { what, value: free, range });
        }
        let track = drive.found(free, drive.positions());
        let mut row =
            vec![free, drive.found(free, 1), drive.long_cost(free), drive.found(free, 2), track];
        if let Some(Dice { trials, seed }) = dice {
            let long = monte::long_write(drive, free, trials, seed);
            let pair = monte::runs_found(drive, free, 2, trials, seed);
            row.extend([long.found, 1.0 + long.wait, pair]);
        }
        rows.push(row.into_iter().map(Some).collect());
    }
    Ok(Table {
        model: "loge",
        title: format!(
            "Loge, section 5.2: {}, {} segments on a track, {} surfaces, {} cylinders",
            drive.name(),
            drive.positions(),
            drive.surfaces(),
            drive.cylinders()
        ),
        disk: drive.name().to_owned(),
        quantities: loge_quantities(drive),
        columns,
        rows,
    })
}

/// The figures that do not depend on free space.
fn loge_quantities(drive: &Drive) -> Vec<Quantity> {
    let period = drive.period_ms();
    let moved = drive.switch_periods();
    let list: [(_, _, _, &str, _); 17] = [
        ("capacity_mb", drive.capacity_bytes() as f64 / 1e6, "MB", "capacity", "L2"),
        ("period_ms", period, "ms", "a segment passes: the rotational period", "L1, L20"),
        ("switch_periods", f64::from(moved), "", "periods lost to a head switch", "L20, L22"),
        (
            "cylinder_periods",
            f64::from(drive.cylinder_periods()),
            "",
            "to the next cylinder",
            "L21",
        ),
        ("margin_ms", f64::from(moved) * period - drive.move_ms(0), "ms", "left of them", "L20"),
        ("reach", drive.reach(moved).map_or(0.0, f64::from), "", "cylinders to each side", "L4"),
        ("candidates", f64::from(drive.candidates(moved)), "", "segments in that reach", "L11"),
        ("after_read_ms", drive.cost_after_read() * period, "ms", "a write after a read", "L5"),
        ("at_random_ms", drive.cost_at_random() * period, "ms", "a write at any time", "L5, L15"),
        ("after_write_ms", period, "ms", "a write after a write: cost 1", "L5"),
        ("in_transit_cost", drive.cost_in_transit(), "", "cost if the arm never rests", "L19"),
        ("track_ms", drive.track_cost() * drive.turn_ms(), "ms", "a track at any time", "L6"),
        ("pair_cost", drive.run_cost(2), "", "cost of long writes in pairs", "L16"),
        ("sequential_cost", drive.run_cost(drive.positions()), "", "cost in sequence", "L3, L18"),
        ("sequential_mb_per_s", drive.sequential_rate() / 1e6, "MB/s", "rate in sequence", "L3"),
        ("reserved", 100.0 * drive.reserved(), "%", "kept free in the ordered state", "L7"),
        ("restore_s", drive.restore_seconds(), "s", "from random into that state", "L8"),
    ];
    list.into_iter()
        .map(|(key, value, unit, what, source)| {
            let what = what.to_owned();
            Quantity { key, value, unit, what, source }
        })
        .collect()
}

fn table(
    model: &'static str,
    title: String,
    params: &Params,
    columns: Vec<Column>,
    rows: Vec<Vec<Option<f64>>>,
) -> Table {
    let disk = params.name().to_owned();
    Table { model, title, disk, quantities: Vec::new(), columns, rows }
}
