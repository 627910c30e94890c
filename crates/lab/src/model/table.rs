//! Results in rows and columns, as text and as JSON.

use super::plot;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Name of the field in JSON and heading in text; ends in its unit, if it has one.
    pub key: &'static str,
    /// Its meaning and source.
    pub what: &'static str,
    /// Drawn by a plot.
    pub plotted: bool,
}

impl Column {
    /// A column that plots leave out.
    pub(super) const fn new(key: &'static str, what: &'static str) -> Column {
        Column { key, what, plotted: false }
    }

    /// A curve.
    pub(super) const fn curve(key: &'static str, what: &'static str) -> Column {
        Column { key, what, plotted: true }
    }
}

/// A single figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// Name of the field.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// Its meaning.
    pub what: String,
    /// Claim or section it comes from.
    pub source: &'static str,
}

/// The results of a model for a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the model.
    pub model: &'static str,
    /// One line: the model, the disk and its numbers.
    pub title: String,
    /// Name of the disk.
    pub disk: String,
    /// Single figures, if there are any.
    pub quantities: Vec<Quantity>,
    /// Columns; the first is what the others depend on.
    pub columns: Vec<Column>,
    /// Rows, a value for each column; `None` where a formula does not hold.
    pub rows: Vec<Vec<Option<f64>>>,
}

/// A number with its significant digits.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return format!("{value}");
    }
    match value.abs() {
        size if size >= 1e6 => format!("{value:.4e}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

impl Table {
    /// As text, at most 100 columns wide.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for quantity in &self.quantities {
            let Quantity { value, unit, what, source, .. } = quantity;
            let value = format!("{} {unit}", number(*value));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {value:<15} {what} [{source}]");
        }
        let width = |column: &Column| column.key.chars().count().max(9) + 2;
        for column in &self.columns {
            let _ = write!(out, "{:>1$}", column.key, width(column));
        }
        out.push('\n');
        for row in &self.rows {
            for (column, value) in self.columns.iter().zip(row) {
                let text = value.map_or("-".to_owned(), number);
                let _ = write!(out, "{text:>0$}", width(column));
            }
            out.push('\n');
        }
        out + &self.legend(|_| true)
    }

    /// The curves over the first column, drawn with letters.
    pub fn to_plot(&self) -> String {
        plot::draw(self)
    }

    /// The meaning of the columns, a line each.
    pub(super) fn legend(&self, wanted: impl Fn(&Column) -> bool) -> String {
        let mut out = String::new();
        for column in self.columns.iter().filter(|column| wanted(column)) {
            let _ = writeln!(out, "  {:<15} {}", column.key, column.what);
        }
        out
    }

    /// As JSON: rows and quantities by the keys of their columns.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let fields = self.columns.iter().zip(row);
                let field = |(column, value): (&Column, &Option<f64>)| {
                    (column.key.to_owned(), json!(value))
                };
                Value::Object(fields.map(field).collect::<Map<_, _>>())
            })
            .collect();
        let quantities: Map<String, Value> =
            self.quantities.iter().map(|one| (one.key.to_owned(), json!(one))).collect();
        json!({
            "model": self.model,
            "disk": self.disk,
            "title": self.title,
            "quantities": quantities,
            "columns": self.columns,
            "rows": rows,
        })
    }
}
