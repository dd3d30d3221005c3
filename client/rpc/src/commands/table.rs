//! Formats text columns as wide as their widest cell, up to a limit; cells are escaped. The last column is not padded.

use crate::render::escape_to_line;

/// Widest column, in characters. A wider cell moves the rest of its own line only: the value of one node does not lengthen the lines of all.
pub const MAX_COLUMN_WIDTH: usize = 1000;

/// Formats rows under a heading; each line is terminated.
pub fn format_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(str::to_owned);
    align_columns(std::iter::once(heading.as_slice()).chain(rows.iter().map(<[_; N]>::as_slice)))
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

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["länger", "22"]].map(|row| row.map(str::to_owned));
        assert_eq!(format_table(["NAME", "N"], &rows), "NAME    N\na       1\nlänger  22\n");
        assert_eq!(format_table(["NAME"], &[]), "NAME\n");
        // The standard library accepts no width above 65,535.
        let rows = [["x".repeat(70_000), "1".to_owned()], ["a", "2"].map(str::to_owned)];
        assert!(format_table(["NAME", "N"], &rows).len() < 73_000);
    }
}
