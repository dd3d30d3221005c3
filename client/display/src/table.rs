//! Lays out tables. Columns are as wide as their widest cell; a table that does not fit is wrapped, and optionally cut, but for its first column.

use std::fmt::Display;

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Width};
use console::{measure_text_width, truncate_str};

use crate::page::{TextPage, pad_end};
use crate::printable::escape_to_line;
use crate::printer::{BAD, STRONG};

/// Widest column. A wider cell moves the rest of its own line only: the value of one node does not lengthen the lines of all.
pub const MAX_COLUMN_WIDTH: usize = 1000;
/// Maximum width of the first column in a table that does not fit; longer names are wrapped.
const MAX_FIRST_COLUMN_WIDTH: usize = 40;
const MIN_COLUMN_WIDTH: usize = 10;
/// Columns between two cells.
const COLUMN_GAP: usize = 2;

/// A table, with its texts escaped. Widths are those on a terminal, where a Chinese, Japanese or Korean character has two columns.
#[derive(Debug, Default)]
pub struct Table {
    /// Empty for a list without headings.
    heading: Vec<String>,
    rows: Vec<TableRow>,
    max_lines: Option<usize>,
}

#[derive(Debug)]
struct TableRow {
    cells: Vec<String>,
    is_bad: bool,
}

/// A laid out table, and the columns that did not fit.
#[derive(Debug, PartialEq, Eq)]
pub struct RenderedTable {
    /// The table; each line is terminated.
    pub text: String,
    /// Headings of the last columns, which did not fit.
    pub left_out: Vec<String>,
}

impl Table {
    /// A table without rows.
    pub fn new(heading: impl IntoIterator<Item = impl Display>) -> Self {
        Self { heading: escape_cells(heading), ..Self::default() }
    }

    /// Adds a row. Its first cell must not be empty if any row has failed.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Display>) -> &mut Self {
        self.rows.push(TableRow { cells: escape_cells(cells), is_bad: false });
        self
    }

    /// Adds rows.
    pub fn rows(
        &mut self,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = impl Display>>,
    ) -> &mut Self {
        for cells in rows {
            self.row(cells);
        }
        self
    }

    /// Marks the last row as one about a failure.
    pub fn failed_if(&mut self, is_bad: bool) -> &mut Self {
        if let Some(row) = self.rows.last_mut() {
            row.is_bad = is_bad;
        }
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes the column with this heading.
    pub fn remove_column(&mut self, title: &str) -> &mut Self {
        if let Some(at) = self.heading.iter().position(|name| name == title) {
            self.heading.remove(at);
            let rows = self.rows.iter_mut().filter(|row| at < row.cells.len());
            rows.for_each(|row| drop(row.cells.remove(at)));
        }
        self
    }

    /// Cuts rows that would have more lines; `…` marks them.
    pub fn max_lines(&mut self, max_lines: Option<usize>) -> &mut Self {
        self.max_lines = max_lines;
        self
    }

    /// The table, and a line that names the columns that did not fit.
    pub fn render(&self, width: usize) -> String {
        let RenderedTable { mut text, left_out } = self.lay_out(width);
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            text.extend(["(too narrow for ", &names, "; a wider terminal shows all)\n"]);
        }
        text
    }

    /// The same, but nothing without rows.
    pub fn render_rows(&self, width: usize) -> String {
        if self.is_empty() { String::new() } else { self.render(width) }
    }

    /// Lays out the table for this width, in columns.
    pub fn lay_out(&self, width: usize) -> RenderedTable {
        let mut columns: Vec<usize> = Vec::new();
        for cells in self.lines() {
            columns.resize(columns.len().max(cells.len()), 0);
            for (column, cell) in columns.iter_mut().zip(cells) {
                *column = measure_text_width(cell).min(MAX_COLUMN_WIDTH).max(*column);
            }
        }
        let lines: Vec<String> = self.lines().map(|cells| align_cells(cells, &columns)).collect();
        if lines.iter().all(|line| measure_text_width(line) <= width) {
            return RenderedTable { text: self.color_lines(lines, width), left_out: Vec::new() };
        }
        let fitting_columns = self.count_fitting_columns(&columns, width);
        let lines = self.wrap_cells(&columns, fitting_columns, width);
        let left_out = self.heading.iter().skip(fitting_columns).cloned().collect();
        RenderedTable { text: self.color_lines(lines, width), left_out }
    }

    /// The cells of each line before it is wrapped.
    fn lines(&self) -> impl Iterator<Item = &[String]> {
        let heading = Some(self.heading.as_slice()).filter(|heading| !heading.is_empty());
        heading.into_iter().chain(self.rows.iter().map(|row| row.cells.as_slice()))
    }

    fn wrap_cells(&self, columns: &[usize], fitting_columns: usize, width: usize) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(saturating_u16(width));
        if !self.heading.is_empty() {
            table.set_header(self.heading.iter().take(fitting_columns));
        }
        for row in &self.rows {
            let mut line = Row::from(row.cells.iter().take(fitting_columns));
            if let Some(max) = self.max_lines {
                line.max_height(max);
            }
            table.add_row(line);
        }
        let last = fitting_columns.saturating_sub(1);
        for ((at, column), widest) in table.column_iter_mut().enumerate().zip(columns) {
            let gap = if at == last { 0 } else { COLUMN_GAP };
            column.set_padding((0, saturating_u16(gap)));
            let limit = |width| Width::Fixed(saturating_u16(width + gap));
            column.set_constraint(match at {
                0 => ColumnConstraint::Absolute(limit((*widest).min(first_limit(width)))),
                _ => ColumnConstraint::LowerBoundary(limit(self.heading_width(at))),
            });
        }
        table.lines().collect()
    }

    /// Number of columns that fit; at least one.
    fn count_fitting_columns(&self, columns: &[usize], width: usize) -> usize {
        let mut used = 0;
        for (at, widest) in columns.iter().enumerate() {
            let limit = match at {
                0 => first_limit(width),
                _ => MIN_COLUMN_WIDTH.max(self.heading_width(at)),
            };
            used += (*widest).min(limit);
            if used > width && at > 0 {
                return at;
            }
            used += COLUMN_GAP;
        }
        columns.len()
    }

    /// Width of a column's heading, which is never wrapped.
    fn heading_width(&self, at: usize) -> usize {
        self.heading.get(at).map_or(0, |title| measure_text_width(title))
    }

    /// Colours the heading and the first words of failure rows in the finished lines.
    fn color_lines(&self, lines: Vec<String>, width: usize) -> String {
        let mut page = TextPage::default();
        let mut lines = lines.into_iter();
        if !self.heading.is_empty()
            && let Some(heading) = lines.next()
        {
            page.push_line(format_args!("{STRONG}{}{STRONG:#}", heading.trim_end()));
        }
        let mut rows = self.rows.iter().peekable();
        for line in lines {
            // First cells are never empty, so a line that begins with one starts a new row.
            let starts_row = |row: &&TableRow| {
                let cell = row.cells.first().map_or("", String::as_str);
                let word = cell.split(char::is_whitespace).next().unwrap_or_default();
                line.starts_with(&*truncate_str(word, first_limit(width), ""))
            };
            match rows.next_if(starts_row) {
                Some(row) if row.is_bad => {
                    let (name, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
                    page.push_line(format_args!("{BAD}{name}{BAD:#}{rest}"));
                }
                _ => page.push_line(line),
            }
        }
        page.into_text()
    }
}

fn escape_cells(cells: impl IntoIterator<Item = impl Display>) -> Vec<String> {
    cells.into_iter().map(|cell| escape_to_line(&cell.to_string()).into_owned()).collect()
}

fn align_cells(cells: &[String], columns: &[usize]) -> String {
    let padded = cells.iter().zip(columns).map(|(cell, width)| pad_end(cell, *width));
    padded.collect::<Vec<_>>().join(&" ".repeat(COLUMN_GAP)).trim_end().to_owned()
}

/// Maximum width of the first column of a table that does not fit.
fn first_limit(width: usize) -> usize {
    MAX_FIRST_COLUMN_WIDTH.min(width)
}

fn saturating_u16(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::screen::UNLIMITED_WIDTH;
    use crate::testing::plain;

    fn draw(width: usize, max_lines: Option<usize>) -> (String, Vec<String>) {
        let events = "a b c ".repeat(30);
        let mut table = Table::new(["SENDER", "STATUS", "ENSURE", "EVENTS", "CHANGED"]);
        table.row(["dev1.example.net", "OK", "6.17.0", events.trim(), "true"]);
        table.row(["dev2.example.net", "OK", "", "", "false"]).max_lines(max_lines);
        let rendered = table.lay_out(width);
        (plain(&rendered.text), rendered.left_out)
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
    fn removed_column_is_in_no_row() {
        let mut table = Table::new(["TIME", "NODE", "RESULT"]);
        table.row(["1", "db1", "OK"]).row(["2"]).remove_column("NODE").remove_column("NONE");
        assert_eq!(plain(&table.render(80)), "TIME  RESULT\n1     OK\n2\n");
    }

    #[test]
    fn without_a_terminal_nothing_is_wrapped_or_cut() {
        let name = format!("{}.example.net", "n".repeat(60));
        let mut table = Table::new(["NODE", "TEXT", "LAST"]);
        table.row([&*name, &"a ".repeat(400), "end"]).max_lines(Some(2));
        let table = table.lay_out(UNLIMITED_WIDTH);
        assert_eq!((table.text.lines().count(), table.left_out.len()), (2, 0), "{}", table.text);
        assert!(table.text.contains(&name) && table.text.trim_end().ends_with("end"));
    }

    #[test]
    fn omitted_columns_are_listed() {
        let (text, left_out) = draw(40, Some(3));
        assert_eq!(left_out, ["EVENTS", "CHANGED"]);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn wide_tables_are_wrapped_at_a_terminal_and_whole_in_a_pipe() {
        let text = "a long text ".repeat(20);
        let mut table = Table::new(["NODE", "TEXT"]);
        table.row(["db1.acme.net", &text]);
        let narrow = plain(&table.render(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert_eq!(narrow.matches("long").count(), 20, "{narrow}");
        assert_eq!(table.render(UNLIMITED_WIDTH).lines().count(), 2);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let draw = |table: &Table| plain(&table.render(UNLIMITED_WIDTH));
        let mut table = Table::new(["NAME", "N"]);
        table.rows([["a", "1"], ["länger", "22"]]);
        assert_eq!(draw(&table), "NAME    N\na       1\nlänger  22\n");
        // A Chinese character has two columns.
        table.row(["東京都庁", "3"]);
        assert_eq!(draw(&table), "NAME      N\na         1\nlänger    22\n東京都庁  3\n");
        assert_eq!(draw(&Table::new(["NAME"])), "NAME\n");
        assert_eq!(Table::new(["NAME"]).render_rows(80), "");
        assert_eq!(draw(Table::default().rows([["a", "1"], ["bb", "2"]])), "a   1\nbb  2\n");
        // A wide cell moves its own line only.
        let mut table = Table::new(["NAME", "N"]);
        table.rows([[&*"x".repeat(70_000), "1"], ["a", "2"]]);
        assert!(draw(&table).len() < 73_000);
    }

    #[test]
    fn failures_are_colored_in_whole_and_wrapped_tables() {
        let name = "東京".repeat(30);
        let mut table = Table::new(["NODE", "TEXT"]);
        table.row([&*name, &"a ".repeat(100)]).failed_if(true).row(["b", "c"]);
        for width in [UNLIMITED_WIDTH, 60] {
            let text = table.render(width);
            assert_eq!(text.matches(&crate::printer::BAD.to_string()).count(), 1, "{text}");
        }
    }
}
