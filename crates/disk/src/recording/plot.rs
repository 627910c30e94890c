//! Two distributions as text: share of requests over response time.

use seekless_engine::units::{MILLIS, Time};
use std::fmt::Write as _;

/// The characters of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// ASCII.
    Ascii,
    /// Box drawing and dots.
    Unicode,
}

impl Ink {
    /// Measured, simulated, both, axis, corner, rule.
    fn glyphs(self) -> [char; 6] {
        match self {
            Ink::Ascii => ['o', 'x', '*', '|', '+', '-'],
            Ink::Unicode => ['○', '·', '●', '│', '└', '─'],
        }
    }
}

/// Draws the distributions of two ascending lists of times, `columns` wide and `rows` high. The
/// horizontal axis ends where 99.5 % of either are below. Empty lists give an empty text.
pub fn distributions(
    measured: &[Time],
    simulated: &[Time],
    columns: usize,
    rows: usize,
    ink: Ink,
) -> String {
    let Some(end) = quantile(measured, 0.995).max(quantile(simulated, 0.995)) else {
        return String::new();
    };
    let end = end.max(1);
    let [one, other, both, axis, corner, rule] = ink.glyphs();
    let mut cells = vec![vec![' '; columns]; rows];
    for (times, glyph) in [(measured, one), (simulated, other)] {
        for (column, height) in heights(times, end, columns, rows).enumerate() {
            let cell = &mut cells[rows - 1 - height][column];
            *cell = if *cell == ' ' || *cell == glyph { glyph } else { both };
        }
    }
    let mut text = String::new();
    for (row, cells) in cells.iter().enumerate() {
        let share = 100.0 * (rows - 1 - row) as f64 / (rows - 1).max(1) as f64;
        let label = if row % 5 == 0 { format!("{share:.0} %") } else { String::new() };
        let line: String = cells.iter().collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:>6} {axis}{}", line.trim_end());
    }
    let middle = end as f64 / 2.0 / MILLIS as f64;
    let last = format!("{:.1} ms", end as f64 / MILLIS as f64);
    let half = columns / 2;
    let _ = writeln!(text, "       {corner}{}", String::from(rule).repeat(columns));
    let left = half.saturating_sub(1);
    let right = columns.saturating_sub(left + 1);
    let _ = writeln!(text, "       0{:>left$}{last:>right$}", format!("{middle:.1}"));
    let _ = writeln!(text, "       {one} measured   {other} simulated   {both} both");
    text
}

/// Height of the curve in each column, in rows from the lowest; empty for an empty list.
fn heights(times: &[Time], end: Time, columns: usize, rows: usize) -> impl Iterator<Item = usize> {
    let drawn = if times.is_empty() || rows == 0 { 0 } else { columns };
    (1..=drawn).map(move |column| {
        let until = end as f64 * column as f64 / columns as f64;
        let below = times.partition_point(|&time| time as f64 <= until);
        (below as f64 / times.len() as f64 * (rows - 1) as f64).round() as usize
    })
}

/// The smallest time that a share of the list does not exceed.
fn quantile(sorted: &[Time], share: f64) -> Option<Time> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().wrapping_sub(1))).copied()
}
