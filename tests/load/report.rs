//! The results as tables for the terminal, as a section of Markdown, and as JSON. Pure, except for the date.
//!
//! Each bench returns a [`Section`]. Values that can be compared with another run are [`Figure`]s, mostly ratios to a
//! value that was measured next to them.

use std::fmt::Write as _;

use jiff::Zoned;
use serde::{Deserialize, Serialize};

use crate::machine::BenchMachine;

/// The results of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The day, as YYYY-MM-DD.
    pub(crate) date: String,
    pub(crate) machine: BenchMachine,
    /// Whether the run was a short one, with less precise figures.
    pub(crate) short: bool,
    pub(crate) sections: Vec<Section>,
}

/// The results of one bench.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Section {
    /// The subject.
    pub(crate) title: String,
    pub(crate) tables: Vec<Table>,
    /// How it was measured.
    pub(crate) method: &'static str,
    pub(crate) figures: Vec<Figure>,
    /// Single measurements, for a closer analysis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Samples>,
}

/// Rows of cells below a head; the first column is text, the others are numbers.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A number that is compared with an aim or with an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The name; the same in every run.
    pub(crate) name: String,
    pub(crate) value: f64,
    /// The unit; `x` for a ratio.
    pub(crate) unit: String,
    /// The largest value that meets the aim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aim: Option<f64>,
    /// The part by which it may exceed an earlier run's value; `None` if it is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tolerance: Option<f64>,
}

/// The measurements of a row.
#[derive(Debug, Serialize)]
pub(crate) struct Samples {
    pub(crate) of: String,
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<f64>,
}

impl Figure {
    /// A ratio to a value of the same run; smaller is better.
    pub(crate) fn ratio(name: impl Into<String>, value: f64) -> Self {
        Self::of(name, value, "x")
    }

    /// An absolute value, which depends on the machine.
    pub(crate) fn of(name: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { name: name.into(), value, unit: unit.to_owned(), aim: None, tolerance: None }
    }

    /// Sets the largest value that meets the aim.
    pub(crate) fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Sets the tolerance for the comparison with earlier runs.
    pub(crate) fn within(self, tolerance: f64) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    fn cells(&self) -> Vec<String> {
        let aim = self.aim.map_or_else(String::new, |aim| {
            let met = if self.value <= aim { "met" } else { "MISSED" };
            format!("{} {met}", format_number(aim))
        });
        vec![self.name.clone(), format!("{} {}", format_number(self.value), self.unit), aim]
    }
}

impl Section {
    /// A section without results.
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

    /// The section as text for the terminal.
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

    /// Formats the table; each column is as wide as its widest cell.
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
    /// A report without results, for this machine and day.
    pub(crate) fn new(short: bool) -> Self {
        Self {
            date: Zoned::now().strftime("%Y-%m-%d").to_string(),
            machine: BenchMachine::detect(),
            short,
            sections: Vec::new(),
        }
    }

    /// Every figure of the run.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// The report as a section of a Markdown document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}.\n", self.date, self.machine.line());
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

/// Formats a number with a suitable number of decimal places.
pub(crate) fn format_number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.01 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The median; for an even number of samples, the mean of the two middle ones.
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

/// The minimum.
pub(crate) fn min(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The maximum.
pub(crate) fn max(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::{Figure, Section, Table, format_number, median};

    #[test]
    fn median_of_odd_and_even_samples() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!((median(&[7.0]) - 7.0).abs() < f64::EPSILON);
    }

    #[test]
    fn numbers_have_suitable_decimal_places() {
        let shown = [0.0, 0.004_21, 0.5, 3.125, 47.11, 2000.4].map(format_number);
        assert_eq!(shown, ["0", "0.0042", "0.50", "3.12", "47.1", "2000"]);
    }

    #[test]
    fn tables_align_and_missed_aims_are_marked() {
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
