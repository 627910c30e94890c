//! Curves drawn with letters.

use super::Table;
use super::table::number;
use std::fmt::Write as _;

const WIDTH: usize = 72;
const HEIGHT: usize = 20;
/// From this ratio of the largest to the smallest value on, the vertical axis is logarithmic.
const WIDE_RATIO: f64 = 30.0;

/// A curve: its letter and its points.
struct Curve {
    letter: char,
    key: &'static str,
    points: Vec<(f64, f64)>,
}

/// Maps values to cells.
struct Axis {
    low: f64,
    high: f64,
    cells: usize,
    logarithmic: bool,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, cells: usize, may_be_wide: bool) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let logarithmic = may_be_wide && low > 0.0 && high / low > WIDE_RATIO;
        // A linear axis starts at zero.
        let low = if may_be_wide && !logarithmic { low.min(0.0) } else { low };
        Axis { low, high, cells, logarithmic }
    }

    fn cell(&self, value: f64) -> usize {
        let scale = |x: f64| if self.logarithmic { x.ln() } else { x };
        let (low, high) = (scale(self.low), scale(self.high));
        let part = if high > low { (scale(value) - low) / (high - low) } else { 0.0 };
        (part.clamp(0.0, 1.0) * (self.cells - 1) as f64).round() as usize
    }

    fn value(&self, cell: usize) -> f64 {
        let part = cell as f64 / (self.cells - 1) as f64;
        if self.logarithmic {
            self.low * (self.high / self.low).powf(part)
        } else {
            self.low + (self.high - self.low) * part
        }
    }
}

fn curves(table: &Table) -> Vec<Curve> {
    let plotted = table.columns.iter().enumerate().filter(|(_, column)| column.plotted);
    let curve = |((index, column), letter): ((usize, &super::Column), char)| {
        let point = |row: &Vec<Option<f64>>| Some((row[0]?, row[index]?));
        Curve { letter, key: column.key, points: table.rows.iter().filter_map(point).collect() }
    };
    plotted.zip('A'..='Z').map(curve).collect()
}

/// Draws the plotted columns over the first one. Where curves meet, the first one is seen.
pub(super) fn draw(table: &Table) -> String {
    let curves = curves(table);
    let all = curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = Axis::new(all.clone().map(|point| point.0), WIDTH, false);
    let y = Axis::new(all.map(|point| point.1), HEIGHT, true);
    let mut cells = vec![[' '; WIDTH]; HEIGHT];
    for curve in curves.iter().rev() {
        for pair in curve.points.windows(2) {
            let (from, to) = (x.cell(pair[0].0), x.cell(pair[1].0));
            let (low, high) = (y.cell(pair[0].1) as f64, y.cell(pair[1].1) as f64);
            // Between two points: a straight line in the cells.
            let height = |column: usize| {
                let part = (column - from) as f64 / (to - from).max(1) as f64;
                (low + (high - low) * part).round() as usize
            };
            (from..=to).for_each(|column| cells[height(column)][column] = '.');
        }
    }
    for curve in curves.iter().rev() {
        for &(at, value) in &curve.points {
            cells[y.cell(value)][x.cell(at)] = curve.letter;
        }
    }
    let mut out = format!("{}\n", table.title);
    for (row, line) in cells.iter().enumerate().rev() {
        let mark = if row % 4 == 3 || row == 0 { number(y.value(row)) } else { String::new() };
        let text: String = line.iter().collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{mark:>10} |{}", text.trim_end());
    }
    let _ = writeln!(out, "{:>10} +{}", "", "-".repeat(WIDTH));
    let (left, right) = (number(x.low), number(x.high));
    let key = table.columns.first().map_or("", |column| column.key);
    let room = WIDTH.saturating_sub(left.len() + right.len());
    let _ = writeln!(out, "{:>12}{left}{key:^room$}{right}", "");
    for curve in &curves {
        let column = table.columns.iter().find(|column| column.key == curve.key);
        let what = column.map_or("", |column| column.what);
        let _ = writeln!(out, "  {} {:<15} {what}", curve.letter, curve.key);
    }
    if y.logarithmic {
        out.push_str("  The vertical axis is logarithmic.\n");
    }
    out
}
