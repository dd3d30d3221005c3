//! Formats text columns as wide as their widest cell. The last column is not padded.

/// Formats rows under a heading; each line is terminated.
pub fn format_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(str::to_owned);
    align_columns(std::iter::once(heading.as_slice()).chain(rows.iter().map(<[_; N]>::as_slice)))
}

/// Formats rows whose number of columns is known at run time; each line is terminated.
pub fn align_columns<'a>(rows: impl Iterator<Item = &'a [String]> + Clone) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.clone() {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::format_table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["länger", "22"]].map(|row| row.map(str::to_owned));
        assert_eq!(format_table(["NAME", "N"], &rows), "NAME    N\na       1\nlänger  22\n");
        assert_eq!(format_table(["NAME"], &[]), "NAME\n");
    }
}
