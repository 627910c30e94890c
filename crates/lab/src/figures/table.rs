//! Tables of figures: ours beside those of the papers.

use super::claim::number;
use super::job::Told;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Columns between two columns.
const GAP: usize = 2;

/// A table. A value is missing where nothing was run or printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Headings; that of the row labels first. `/` separates their lines in text.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// A value for each column after the first.
    pub cells: Vec<Option<f64>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: Vec<String>) -> Table {
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, label: impl Into<String>, cells: Vec<Option<f64>>) {
        debug_assert_eq!(cells.len() + 1, self.columns.len(), "a value for each column");
        self.rows.push(Row { label: label.into(), cells });
    }

    /// As text.
    pub fn to_text(&self) -> String {
        let heads: Vec<Vec<&str>> =
            self.columns.iter().map(|one| one.split('/').collect()).collect();
        let lines = heads.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |value: &Option<f64>| value.map_or("-".to_owned(), number);
        let width = |at: usize| {
            let head = heads[at].iter().map(|part| part.chars().count()).max();
            let cells = self.rows.iter().map(|row| match at {
                0 => row.label.chars().count(),
                _ => cell(&row.cells[at - 1]).len(),
            });
            head.into_iter().chain(cells).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        let mut push = |fields: Vec<String>| {
            let mut line = String::new();
            for (at, (field, &width)) in fields.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = match at {
                    0 => write!(line, "  {field:<width$}"),
                    _ => write!(line, "{:GAP$}{field:>width$}", ""),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        };
        for line in 0..lines {
            // Headings stand on the rows.
            let part = |head: &Vec<&str>| {
                let skipped = lines - head.len();
                head.get(line.wrapping_sub(skipped)).copied().unwrap_or("").to_owned()
            };
            push(heads.iter().map(part).collect());
        }
        for row in &self.rows {
            let cells = row.cells.iter().map(cell);
            push(std::iter::once(row.label.clone()).chain(cells).collect());
        }
        out
    }
}

/// A heading for each of several columns, after one for the labels.
pub fn heads(first: &str, others: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// A table of counts: a row for each run, a column for each thing that was counted, and their sum.
pub fn counts(title: String, first: &str, rows: Vec<(String, Vec<(String, u64)>)>) -> Table {
    let names: BTreeSet<String> =
        rows.iter().flat_map(|row| &row.1).map(|count| count.0.clone()).collect();
    let columns = names.iter().map(|name| name.replace(", ", "/").replace(' ', "/"));
    let columns = std::iter::once("all".to_owned()).chain(columns);
    let mut table = Table::new(title, heads(first, columns));
    for (label, counts) in rows {
        let sum = |wanted: &dyn Fn(&str) -> bool| {
            let all = counts.iter().filter(|count| wanted(&count.0)).map(|count| count.1);
            Some(all.sum::<u64>() as f64)
        };
        let each = names.iter().map(|name| sum(&|one| one == name));
        table.row(label, std::iter::once(sum(&|_| true)).chain(each).collect());
    }
    table
}

/// A cell of what was measured.
pub fn told<T>(value: Told<T>) -> Option<T> {
    value.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new("rates", heads("KB", ["async".into(), "FFS/paper".into()]));
        table.row("64", vec![Some(18.07), None]);
        let expected = "rates\n               FFS\n  KB  async  paper\n  64  18.07      -\n";
        assert_eq!(table.to_text(), expected);
    }
}
