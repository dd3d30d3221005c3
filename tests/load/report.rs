//! What was measured, as tables for the terminal, a section of Markdown, and JSON. Pure, but for the date.
//!
//! Every bench hands in a [`Section`]. What in it can be compared with another day's run is a [`Figure`]: mostly a ratio to something
//! that was measured beside it.

use std::fmt::Write as _;

use jiff::Zoned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Everything of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The day, as YYYY-MM-DD.
    pub(crate) format_date: String,
    pub(crate) machine: Machine,
    /// Whether the run was the shorter one, whose figures say less.
    pub(crate) short: bool,
    pub(crate) sections: Vec<Section>,
}

/// What one bench has measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Section {
    /// What it is about.
    pub(crate) title: String,
    pub(crate) tables: Vec<Table>,
    /// How it was measured: a figure without it means nothing.
    pub(crate) method: &'static str,
    pub(crate) figures: Vec<Figure>,
    /// Single measurements, for whoever wants to look closer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Samples>,
}

/// Rows of cells under a head; the first column is text, the others are numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// One number that is compared: with what we are after, or with an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What it is; the same in every run.
    pub(crate) name: String,
    pub(crate) value: f64,
    /// What it is counted in; `x` for a ratio.
    pub(crate) unit: String,
    /// At most this much is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aim: Option<f64>,
    /// By how much of itself it may exceed an earlier run's; `None` if it is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tolerance: Option<f64>,
}

/// The measurements behind a row.
#[derive(Debug, Serialize)]
pub(crate) struct Samples {
    pub(crate) of: String,
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<f64>,
}

impl Figure {
    /// A ratio to something of the same run, less is better.
    pub(crate) fn ratio(name: impl Into<String>, value: f64) -> Self {
        Self::of(name, value, "x")
    }

    /// A value of this machine and this hour.
    pub(crate) fn of(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { name: name.into(), value, unit: unit.to_owned(), aim: None, tolerance: None }
    }

    /// What is wanted at most.
    pub(crate) fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Compared with earlier runs, which it may exceed by this part of theirs.
    pub(crate) fn within(self, tolerance: f64) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    fn cells(&self) -> Vec<String> {
        let aim = self.aim.map_or_else(String::new, |aim| {
            let met = if self.value <= aim { "met" } else { "MISSED" };
            format!("{} {met}", number(aim))
        });
        vec![self.name.clone(), format!("{} {}", number(self.value), self.unit), aim]
    }
}

impl Section {
    /// Nothing measured yet.
    pub(crate) fn of(title: impl Into<String>, method: &'static str) -> Self {
        Self { title: title.into(), method, ..Self::default() }
    }

    /// The figures as a table, if there are any.
    fn figures_table(&self) -> Option<Table> {
        let head = ["figure", "value", "aim at most"];
        (!self.figures.is_empty()).then(|| Table {
            head: head.map(str::to_owned).into(),
            rows: self.figures.iter().map(Figure::cells).collect(),
        })
    }

    fn all_tables(&self) -> impl Iterator<Item = String> {
        let figures = self.figures_table();
        self.tables.iter().map(Table::markdown).chain(figures.map(|table| table.markdown()))
    }

    /// For the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for table in self.tables.iter().chain(self.figures_table().as_ref()) {
            let _ = write!(text, "\n{}", table.text());
        }
        let _ = writeln!(text, "\n{}", self.method);
        text
    }
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { head: head.map(str::to_owned).into(), rows: Vec::new() }
    }

    /// Columns as wide as their widest cell.
    fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| {
            let cells = lines().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for line in lines() {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(text, "{cell:<width$}"),
                    _ => write!(text, "  {cell:>width$}"),
                };
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("| {} |\n|---|", self.head.join(" | "));
        text.push_str(&"---:|".repeat(self.head.len().saturating_sub(1)));
        text.push('\n');
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

impl Report {
    /// Nothing measured yet, here and now.
    pub(crate) fn begin(short: bool) -> Self {
        Self {
            format_date: Zoned::now().strftime("%Y-%m-%d").to_string(),
            machine: Machine::here(),
            short,
            sections: Vec::new(),
        }
    }

    /// Every figure of the run.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// A section of a document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}.\n", self.format_date, self.machine.line());
        for section in &self.sections {
            let _ = write!(text, "\n### {}\n", section.title);
            for table in section.all_tables() {
                let _ = write!(text, "\n{table}");
            }
            let _ = writeln!(text, "\n{}", section.method);
        }
        text
    }
}

/// With as many places as say something.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.01 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The middle one; the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let middle = if sorted.len().is_multiple_of(2) {
        sorted.get(half.saturating_sub(1)..=half)
    } else {
        sorted.get(half..=half)
    };
    let middle = middle.unwrap();
    middle.iter().sum::<f64>() / if middle.len() == 2 { 2.0 } else { 1.0 }
}

/// The least.
pub(crate) fn min(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The most.
pub(crate) fn max(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{Figure, Section, Table, median, number};

    #[test]
    fn medians_are_those_of_the_book() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!((median(&[7.0]) - 7.0).abs() < f64::EPSILON);
    }

    #[test]
    fn numbers_have_the_places_that_say_something() {
        let shown = [0.0, 0.004_21, 0.5, 3.125, 47.11, 2000.4].map(number);
        assert_eq!(shown, ["0", "0.0042", "0.50", "3.12", "47.1", "2000"]);
    }

    #[test]
    fn tables_line_up_and_a_missed_aim_is_told() {
        let mut table = Table::new(["what", "ms"]);
        table.rows = vec![
            vec!["short".to_owned(), "1".to_owned()],
            vec!["a longer one".to_owned(), "1000".to_owned()],
        ];
        assert_eq!(table.text(), "what            ms\nshort            1\na longer one  1000\n");
        let mut section = Section::of("Title", "How.");
        section.tables.push(table);
        section.figures = vec![
            Figure::ratio("ours x floor", 1.25).aim(1.5),
            Figure::of("idle", 12.0, "MiB").aim(10.0),
            Figure::ratio("other", 3.0),
        ];
        let text = section.text();
        assert!(text.contains("ours x floor    1.25 x     1.50 met\n"), "{text}");
        assert!(text.contains("12.0 MiB  10.0 MISSED\n"), "{text}");
        assert!(text.ends_with("\nHow.\n"), "{text}");
        let markdown: Vec<String> = section.all_tables().collect();
        assert_eq!(
            markdown[0],
            "| what | ms |\n|---|---:|\n| short | 1 |\n| a longer one | 1000 |\n"
        );
        assert!(markdown[1].contains("| idle | 12.0 MiB | 10.0 MISSED |"));
    }
}
