//! Formats text columns as wide as their widest cell. The last column is not padded.

/// Formats rows under a heading.
pub fn format_table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = heading.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: &[String; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(line(&heading.map(str::to_owned))).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::format_table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["länger", "22"]].map(|row| row.map(str::to_owned));
        assert_eq!(format_table(["NAME", "N"], &rows), ["NAME    N", "a       1", "länger  22"]);
        assert_eq!(format_table(["NAME"], &[]), ["NAME"]);
    }
}
