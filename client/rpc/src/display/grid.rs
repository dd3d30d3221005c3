//! Lays out tables within a width: the first column is kept, long cells of the others are wrapped and optionally cut.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, Width};

use crate::display::page::TextPage;
use crate::display::printable::escape_to_line;
use crate::display::printer::{BAD, STRONG};
use crate::display::screen::UNLIMITED_WIDTH;
use crate::display::table::MAX_COLUMN_WIDTH;

/// Maximum width of the first column; longer names are wrapped.
const MAX_FIRST_COLUMN_WIDTH: usize = 40;
const MIN_COLUMN_WIDTH: usize = 10;
/// Columns between two cells.
const COLUMN_GAP: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    pub cells: Vec<String>,
    /// Whether it is about a failure.
    pub is_bad: bool,
}

impl<const N: usize> From<[String; N]> for TableRow {
    fn from(cells: [String; N]) -> Self {
        Self { cells: cells.into(), is_bad: false }
    }
}

/// A laid out table, and the columns that did not fit.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedTable {
    /// The table; each line is terminated.
    pub text: String,
    /// Headings of the last columns, which did not fit.
    pub left_out: Vec<String>,
}

impl RenderedTable {
    /// The table, and a line that names the columns that did not fit.
    pub fn into_text(self) -> String {
        match self.left_out.as_slice() {
            [] => self.text,
            names => {
                format!(
                    "{}(too narrow for {}; a wider terminal shows all)\n",
                    self.text,
                    names.join(", ")
                )
            }
        }
    }
}

/// Lays out the rows, with their texts escaped. `…` marks text that was cut at the maximum number of lines per row, if there is one. Cells of the
/// first column must not be empty.
pub fn lay_out_table(
    heading: &[impl AsRef<str>],
    rows: &[TableRow],
    width: usize,
    max_lines: Option<usize>,
) -> RenderedTable {
    let heading: Vec<_> = heading.iter().map(|title| escape_to_line(title.as_ref())).collect();
    let escape = |cell: &String| escape_to_line(cell).into_owned();
    let escape_row = |row: &TableRow| TableRow {
        cells: row.cells.iter().map(escape).collect(),
        is_bad: row.is_bad,
    };
    let rows: Vec<_> = rows.iter().map(escape_row).collect();
    let (heading, rows) = (heading.as_slice(), rows.as_slice());
    let fitting_columns = count_fitting_columns(heading, rows, width);
    let (shown, left_out) = heading.split_at_checked(fitting_columns).unwrap_or((heading, &[]));
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(saturating_u16(width))
        .set_header(shown.iter().map(|title| &**title));
    for row in rows {
        let mut line = Row::from(row.cells.iter().take(fitting_columns));
        if let Some(max) = max_lines {
            line.max_height(max);
        }
        table.add_row(line);
    }
    let last = fitting_columns.saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        let gap = if at == last { 0 } else { COLUMN_GAP };
        column.set_padding((0, saturating_u16(gap)));
        if at == 0 {
            let first = widest_cell_width(heading, rows, 0).min(first_limit(width)) + gap;
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(saturating_u16(first))));
        } else {
            let bound = saturating_u16(heading_width(heading, at) + gap);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(bound)));
        }
    }
    let left_out = left_out.iter().map(ToString::to_string).collect();
    RenderedTable { text: colour_rows(&table, rows), left_out }
}

/// Maximum width of the first column.
fn first_limit(width: usize) -> usize {
    if width == UNLIMITED_WIDTH { MAX_COLUMN_WIDTH } else { MAX_FIRST_COLUMN_WIDTH.min(width) }
}

fn saturating_u16(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Number of columns that fit; at least one.
fn count_fitting_columns(heading: &[impl AsRef<str>], rows: &[TableRow], width: usize) -> usize {
    let mut used = 0;
    for at in 0..heading.len() {
        let limit = if at == 0 {
            first_limit(width)
        } else {
            MIN_COLUMN_WIDTH.max(heading_width(heading, at))
        };
        used += widest_cell_width(heading, rows, at).min(limit);
        if used > width && at > 0 {
            return at;
        }
        used += COLUMN_GAP;
    }
    heading.len()
}

fn widest_cell_width(heading: &[impl AsRef<str>], rows: &[TableRow], at: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| cell.chars().count());
    cells.max().unwrap_or(0).max(heading_width(heading, at))
}

/// Width of a column's heading, which is never wrapped.
fn heading_width(heading: &[impl AsRef<str>], at: usize) -> usize {
    heading.get(at).map_or(0, |title| title.as_ref().chars().count())
}

/// Colours the first words of failure rows in the finished table.
fn colour_rows(table: &Table, rows: &[TableRow]) -> String {
    let mut page = TextPage::default();
    let mut rows = rows.iter().filter_map(|row| Some((row.cells.first()?, row.is_bad))).peekable();
    for (at, line) in table.lines().enumerate() {
        if at == 0 {
            page.push_line(format_args!("{STRONG}{}{STRONG:#}", line.trim_end()));
            continue;
        }
        // First cells are never empty, so a line that begins with one starts a new row.
        let starts_row = |(cell, _): &(&String, bool)| {
            let word = cell.chars().take_while(|c| !c.is_whitespace()).take(MAX_FIRST_COLUMN_WIDTH);
            line.starts_with(&word.collect::<String>())
        };
        match rows.next_if(starts_row) {
            Some((_, true)) => {
                let name = line.find(' ').unwrap_or(line.len());
                let (name, rest) = line.split_at_checked(name).unwrap_or((&line, ""));
                page.push_line(format_args!("{BAD}{name}{BAD:#}{rest}"));
            }
            _ => page.push_line(line),
        }
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::{TableRow, UNLIMITED_WIDTH, lay_out_table};
    use crate::display::fixtures::plain;

    fn draw(width: usize, most_lines: Option<usize>) -> (String, Vec<String>) {
        let heading = ["SENDER", "STATUS", "ENSURE", "EVENTS", "CHANGED"];
        let events = "a b c ".repeat(30);
        let rows = [
            ["dev1.example.net", "OK", "6.17.0", events.trim(), "true"],
            ["dev2.example.net", "OK", "", "", "false"],
        ]
        .map(|cells| TableRow::from(cells.map(str::to_owned)));
        let grid = lay_out_table(&heading, &rows, width, most_lines);
        (plain(&grid.text), grid.left_out)
    }

    #[test]
    fn long_cells_are_wrapped_or_cut() {
        let (text, left_out) = draw(80, None);
        assert!(left_out.is_empty());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches('a').count(), 30 + 3, "{text}");
        let (text, _) = draw(80, Some(2));
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn without_a_terminal_nothing_is_wrapped_or_cut() {
        let name = format!("{}.example.net", "n".repeat(60));
        let rows = [TableRow::from([name.clone(), "a ".repeat(400), "end".to_owned()])];
        let table = lay_out_table(&["NODE", "TEXT", "LAST"], &rows, UNLIMITED_WIDTH, Some(2));
        assert_eq!((table.text.lines().count(), table.left_out.len()), (2, 0), "{}", table.text);
        assert!(table.text.contains(&name) && table.text.trim_end().ends_with("end"));
    }

    #[test]
    fn omitted_columns_are_listed() {
        let (text, left_out) = draw(40, Some(3));
        assert_eq!(left_out, ["EVENTS", "CHANGED"]);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}
