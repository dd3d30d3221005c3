//! Formats text columns as wide as their widest cell, up to a limit; cells are escaped. The last column is not padded.

use crate::display::escape_to_line;
use crate::display::grid::{TableRow, lay_out_table};

/// Widest column, in characters. A wider cell moves the rest of its own line only: the value of one node does not lengthen the lines of all.
pub const MAX_COLUMN_WIDTH: usize = 1000;

/// Formats rows under a heading; each line is terminated. Cells are wrapped if the table is wider than `width`.
pub fn format_table<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    width: usize,
) -> String {
    let heading = heading.map(str::to_owned);
    let rows = rows.iter().map(|row| row.to_vec());
    format_rows(&std::iter::once(heading.to_vec()).chain(rows).collect::<Vec<_>>(), width)
}

/// Formats rows, of which the first is the heading, as [`format_table`] does.
pub fn format_rows(rows: &[Vec<String>], width: usize) -> String {
    let text = align_columns(rows.iter().map(Vec::as_slice));
    let is_within = text.lines().all(|line| line.chars().count() <= width);
    match rows.split_first().filter(|_| !is_within) {
        None => text,
        Some((heading, rows)) => {
            let row = |cells: &Vec<String>| TableRow { cells: cells.clone(), is_bad: false };
            let rows: Vec<TableRow> = rows.iter().map(row).collect();
            lay_out_table(heading, &rows, width, None).into_text()
        }
    }
}

/// Formats rows whose number of columns is known at run time; each line is terminated.
pub fn align_columns<'a>(rows: impl Iterator<Item = &'a [String]>) -> String {
    let rows: Vec<Vec<_>> =
        rows.map(|row| row.iter().map(|cell| escape_to_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().min(MAX_COLUMN_WIDTH).max(*width);
        }
    }
    let line = |cells: &Vec<_>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::format_table;
    use crate::display::fixtures::plain;
    use crate::display::screen::UNLIMITED_WIDTH;

    #[test]
    fn wide_tables_are_wrapped_at_a_terminal_and_whole_in_a_pipe() {
        let rows = [["db1.acme.net".to_owned(), "a long text ".repeat(20)]];
        let narrow = plain(&format_table(["NODE", "TEXT"], &rows, 60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert_eq!(narrow.matches("long").count(), 20, "{narrow}");
        assert_eq!(format_table(["NODE", "TEXT"], &rows, UNLIMITED_WIDTH).lines().count(), 2);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["länger", "22"]].map(|row| row.map(str::to_owned));
        let wide = UNLIMITED_WIDTH;
        assert_eq!(format_table(["NAME", "N"], &rows, wide), "NAME    N\na       1\nlänger  22\n");
        assert_eq!(format_table(["NAME"], &[], wide), "NAME\n");
        // The standard library accepts no width above 65,535.
        let rows = [["x".repeat(70_000), "1".to_owned()], ["a", "2"].map(str::to_owned)];
        assert!(format_table(["NAME", "N"], &rows, wide).len() < 73_000);
    }
}
