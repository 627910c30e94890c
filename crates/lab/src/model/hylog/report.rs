//! The cost model as tables: every number that comes from outside is checked here.

use super::super::report::{Dice, shares};
use super::super::tiny::{Policy, Setup, Tiny};
use super::super::{Column, ModelError, Quantity, Table};
use super::worked::{HOT_WRITES, Measured};
use super::{Disk, best_hot_share, cleaning_utilisation, disk::ALPHA, with_hot_share};
use crate::distribution::Distribution;

/// The name of the model in JSON.
const MODEL: &str = "hylog";

/// The distributions of table H-d, with the keys of their columns.
const DISTRIBUTIONS: [(&str, &str, Distribution); 5] = [
    ("uniform", "all pages alike", Distribution::Uniform),
    ("knuth_70_30", "70 % of the writes go to 30 % of the pages", Distribution::knuth(70.0, 30.0)),
    ("knuth_80_20", "80 % of the writes go to 20 % of the pages", Distribution::knuth(80.0, 20.0)),
    ("knuth_90_10", "90 % of the writes go to 10 % of the pages", Distribution::knuth(90.0, 10.0)),
    ("hill", "Hill(105, 0.528, 0.546), as in production databases", Distribution::DATABASE),
];

/// Utilisations of the tables by default: those of table H-b.
pub const UTILISATIONS: [f64; 11] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.95, 0.97, 0.98];

/// Pages in a segment of table H-a.
const SEGMENT_PAGES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Segments of the disk that is simulated beside equation (2), and pages in each.
const TINY_SEGMENTS: u32 = 2000;
const TINY_PAGES: u32 = 64;

/// Most overwrites of each page in a simulation.
const MOST_ROUNDS: u32 = 1000;

fn title(disk: &Disk, what: &str) -> String {
    format!(
        "{what}: {}, {:.2} ms, {:.1} MB/s, segments of {:.0} × {:.1} KB",
        disk.name(),
        disk.positioning_ms(),
        disk.mb_per_s(),
        disk.pages(),
        disk.page_bytes() / 1e3,
    )
}

fn table(
    disk: &Disk,
    what: &str,
    quantities: Vec<Quantity>,
    columns: Vec<Column>,
    rows: Vec<Vec<f64>>,
) -> Table {
    let rows = rows.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
    let (title, disk) = (title(disk, what), disk.name().to_owned());
    Table { model: MODEL, title, disk, quantities, columns, rows }
}

/// The quantities that depend only on the disk.
fn quantities(disk: &Disk) -> Vec<Quantity> {
    let eta = disk.efficiency();
    let u = super::crossing(eta);
    let limit = 100.0 * eta / disk.efficiency_limit();
    let list: [(_, _, _, &str, _); 9] = [
        ("product_kb", disk.product_bytes() / 1e3, "KB", "transferred while positioning", "H3"),
        ("page_ms", disk.page_ms(), "ms", "a page in place", "H1"),
        ("segment_ms", disk.segment_ms(), "ms", "a segment", "H1"),
        ("eta", eta, "", "a page alone over a page in a segment: equation (1)", "H2, H5"),
        ("eta_share", limit, "%", "of the limit for segments without end", "H10"),
        (
            "segment_kb",
            disk.exact_bytes(ALPHA) / 1e3,
            "KB",
            "best segment: equation (6), four times the product",
            "H4, H10",
        ),
        ("inefficiency", disk.transfer_inefficiency(), "", "a segment over its transfer", "H19"),
        ("crossing_u", u, "", "live in cleaned segments where all cost the same", "H8"),
        (
            "crossing_utilisation",
            super::disk_utilisation(u),
            "",
            "of the disk in use there: below it a log beats writing in place",
            "H8, H33",
        ),
    ];
    list.into_iter()
        .map(|(key, value, unit, what, source)| {
            let what = what.to_owned();
            Quantity { key, value, unit, what, source }
        })
        .collect()
}

/// Scaled write costs by the utilisation of the disk, HyLog with its best share of hot pages. With
/// `dice` a second table has the results of a small simulation of the cleaner; its trials are
/// overwrites of each page.
///
/// # Errors
/// Utilisations outside 0 to below 1, and simulations that are too long.
pub fn by_utilisation(
    disk: &Disk,
    utilisations: &[f64],
    distribution: Distribution,
    dice: Option<Dice>,
) -> Result<Vec<Table>, ModelError> {
    let eta = disk.efficiency();
    let columns = vec![
        Column::new("utilisation", "share of the disk in use"),
        Column::new("u", "live share of cleaned segments: equation (2) (H6)"),
        Column::curve("in_place", "cost of writing in place: equation (3)"),
        Column::curve("cleaning", "cost of a log that copies what lives: equation (4)"),
        Column::curve("plugging", "cost of a log that plugs holes: equation (5)"),
        Column::new("overall", "the cheaper of both logs, times the inefficiency (H19)"),
        Column::curve("hylog", "cost of HyLog at its best: equation (8) (H12)"),
        Column::new("hot", "share of pages that are hot then"),
    ];
    let mut rows = Vec::new();
    for u_d in shares("utilisation", utilisations)? {
        let u = cleaning_utilisation(u_d);
        let best = best_hot_share(u_d, eta, distribution);
        let (cleaning, plugging) = (super::cleaning(u), super::plugging(u, eta));
        let overall = super::adaptive(u, eta) * disk.transfer_inefficiency();
        rows.push(vec![u_d, u, eta, cleaning, plugging, overall, best.cost, best.hot]);
    }
    let what = format!("Write costs, {distribution}");
    let mut tables = vec![table(disk, &what, quantities(disk), columns, rows)];
    if let Some(dice) = dice {
        tables.push(simulated(disk, utilisations, distribution, dice)?);
    }
    Ok(tables)
}

fn simulated(
    disk: &Disk,
    utilisations: &[f64],
    distribution: Distribution,
    Dice { trials, seed }: Dice,
) -> Result<Table, ModelError> {
    if trials == 0 || trials > MOST_ROUNDS {
        let (what, range) = ("overwrites of each page", "1 to 1000");
        return Err(ModelError::Range { what, value: f64::from(trials), range });
    }
    let columns = vec![
        Column::new("utilisation", "share of the disk in use"),
        Column::curve("u", "live share of cleaned segments: equation (2)"),
        Column::curve("fifo_u", "simulated: the oldest segment is cleaned"),
        Column::curve("greedy_u", "simulated: the emptiest segment is cleaned"),
        Column::new("cleaning", "cost of a log that copies what lives: equation (4)"),
        Column::new("fifo_cost", "simulated: the oldest segment is cleaned"),
        Column::new("greedy_cost", "simulated: the emptiest segment is cleaned"),
    ];
    let mut rows = Vec::new();
    for &utilisation in utilisations {
        let run = |policy| {
            let setup = Setup {
                segments: TINY_SEGMENTS,
                pages_per_segment: TINY_PAGES,
                utilisation,
                distribution,
                policy,
                seed,
                ..Setup::default()
            };
            Tiny::new(setup).map(|mut tiny| {
                let writes = tiny.pages() * u64::from(trials);
                tiny.run(writes);
                tiny.run(writes)
            })
        };
        let (fifo, greedy) = (run(Policy::Fifo)?, run(Policy::Greedy)?);
        let u = cleaning_utilisation(utilisation);
        rows.push(vec![
            utilisation,
            u,
            fifo.cleaning_utilisation(),
            greedy.cleaning_utilisation(),
            super::cleaning(u),
            fifo.scaled_cost(disk.efficiency()),
            greedy.scaled_cost(disk.efficiency()),
        ]);
    }
    let what = format!("Simulated, {distribution}");
    Ok(table(disk, &what, Vec::new(), columns, rows))
}

/// *η* by the size of segments: figure 1, table H-a.
///
/// # Errors
/// Sizes that no disk can have.
pub fn by_segment(disk: &Disk) -> Result<Table, ModelError> {
    let columns = vec![
        Column::new("segment_kb", "size of a segment, 1 KB being 1000 bytes"),
        Column::curve("eta", "a page alone over a page in a segment: equation (1) (H2)"),
        Column::new("share", "of its limit for segments without end"),
        Column::new("inefficiency", "time of a segment over that of its transfer"),
        Column::new("crossing", "share of the disk in use up to which a log is cheaper (H8)"),
    ];
    let mut rows = Vec::new();
    for pages in SEGMENT_PAGES {
        let other = disk.with_segment(pages * disk.page_bytes())?;
        let eta = other.efficiency();
        rows.push(vec![
            other.segment_bytes() / 1e3,
            eta,
            eta / other.efficiency_limit(),
            other.transfer_inefficiency(),
            super::disk_utilisation(super::crossing(eta)),
        ]);
    }
    Ok(table(disk, "Segment sizes", quantities(disk), columns, rows))
}

/// Scaled write costs by the live share of cleaned segments: figure 3, table H-c.
///
/// # Errors
/// Shares outside 0 to below 1.
pub fn by_cleaning(disk: &Disk, live: &[f64]) -> Result<Table, ModelError> {
    let eta = disk.efficiency();
    let columns = vec![
        Column::new("u", "live share of cleaned segments"),
        Column::curve("in_place", "cost of writing in place: equation (3)"),
        Column::curve("cleaning", "cost of a log that copies what lives: equation (4)"),
        Column::curve("plugging", "cost of a log that plugs holes: equation (5)"),
        Column::new("adaptive", "the cheaper of both logs"),
        Column::new("utilisation", "share of the disk in use: equation (2)"),
    ];
    let row = |u| {
        let (cleaning, plugging) = (super::cleaning(u), super::plugging(u, eta));
        vec![u, eta, cleaning, plugging, super::adaptive(u, eta), super::disk_utilisation(u)]
    };
    let rows = shares("live share", live)?.into_iter().map(row).collect();
    Ok(table(disk, "Cleaning", quantities(disk), columns, rows))
}

fn distribution_columns(first: Column) -> Vec<Column> {
    let mut columns = vec![first];
    columns.extend(DISTRIBUTIONS.map(|(key, what, _)| Column::curve(key, what)));
    columns
}

/// HyLog at its best under five distributions, table H-d: a table of costs, and one of the shares
/// of hot pages.
///
/// # Errors
/// Utilisations outside 0 to below 1.
pub fn by_distribution(disk: &Disk, utilisations: &[f64]) -> Result<Vec<Table>, ModelError> {
    let eta = disk.efficiency();
    let first = Column::new("utilisation", "share of the disk in use");
    let mut costs = distribution_columns(first);
    costs.insert(1, Column::curve("lfs", "cost of a log, whatever the distribution"));
    let (mut rows, mut hot) = (Vec::new(), Vec::new());
    for u_d in shares("utilisation", utilisations)? {
        let best = DISTRIBUTIONS.map(|(_, _, one)| best_hot_share(u_d, eta, one));
        let mut row = vec![u_d, super::cleaning(cleaning_utilisation(u_d))];
        row.extend(best.map(|best| best.cost));
        rows.push(row);
        let mut row = vec![u_d];
        row.extend(best.map(|best| best.hot));
        hot.push(row);
    }
    Ok(vec![
        table(disk, "HyLog's best costs", quantities(disk), costs, rows),
        table(disk, "HyLog's hot pages", Vec::new(), distribution_columns(first), hot),
    ])
}

/// HyLog's cost over the share of hot pages: figure 4(b) and (c) (claim H15), a table for each
/// utilisation.
///
/// # Errors
/// Utilisations outside 0 to below 1.
pub fn by_hot_share(disk: &Disk, utilisations: &[f64]) -> Result<Vec<Table>, ModelError> {
    let eta = disk.efficiency();
    let mut columns = distribution_columns(Column::new("hot", "share of the pages that are hot"));
    columns.push(Column::curve("in_place", "cost of writing in place"));
    columns.push(Column::curve("lfs", "cost of a log"));
    let mut tables = Vec::new();
    for u_d in shares("utilisation", utilisations)? {
        let lfs = super::cleaning(cleaning_utilisation(u_d));
        let row = |step: u32| {
            let hot = f64::from(step) / 20.0;
            let mut row = vec![hot];
            row.extend(DISTRIBUTIONS.map(|(_, _, one)| with_hot_share(u_d, hot, eta, one).cost));
            row.extend([eta, lfs]);
            row
        };
        let what = format!("HyLog at {:.1} % in use", u_d * 100.0);
        tables.push(table(disk, &what, Vec::new(), columns.clone(), (0..=20).map(row).collect()));
    }
    Ok(tables)
}

/// The worked examples of section 6.2 (claims H27 and H28).
pub fn examples() -> Table {
    let columns = vec![
        Column::new("example", "1: LFS at 95 %; 2: HyLog at 98 %; 3: LFS at 98 %; atlas10k"),
        Column::new("eta", "S T_pg / T_seg from measured times"),
        Column::new("adjusted", "over the share of time in which disks work"),
        Column::new("cleaner", "segments the cleaner moves for each of new data"),
        Column::new("share", "of the cleaner in all segments moved"),
        Column::curve("log_ratio", "rate of writes to the log over rate in place"),
        Column::curve("write_ratio", "rate of all writes over rate in place"),
        Column::curve("throughput", "of all requests over that of writing in place"),
    ];
    let all = [
        (Measured::LFS_AT_95, 1.0),
        (Measured::HYLOG_AT_98, HOT_WRITES),
        (Measured::LFS_AT_98, 1.0),
    ];
    let row = |(index, (one, hot)): (usize, (Measured, f64))| {
        let ratio = one.write_ratio(hot);
        [
            (index + 1) as f64,
            one.efficiency(),
            one.adjusted_efficiency(),
            one.cleaner_segments(),
            one.cleaner_share(),
            one.log_ratio(),
            ratio,
            one.throughput(ratio),
        ]
        .map(Some)
        .to_vec()
    };
    Table {
        model: MODEL,
        title: "Worked examples of section 6.2 (H27, H28)".to_owned(),
        disk: "atlas10k (1999)".to_owned(),
        quantities: Vec::new(),
        columns,
        rows: all.into_iter().enumerate().map(row).collect(),
    }
}
