//! Formats names in as many aligned columns as fit; rows first.

use console::measure_text_width;

use crate::page::{TextPage, pad_end};
use crate::printable::escape_to_line;

/// Minimum space between two columns.
const COLUMN_GAP: usize = 2;

/// Wraps words at a width; a word longer than the width stays whole.
pub fn wrap_words<T: AsRef<str>>(words: impl IntoIterator<Item = T>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        match lines.last_mut() {
            Some(last) if measure_text_width(last) + 1 + measure_text_width(word) <= width => {
                last.extend([" ", word]);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Formats the names in aligned columns, each line indented and terminated; empty without names.
pub fn format_columns<T: AsRef<str>>(names: &[T], indent: usize, width: usize) -> String {
    let names: Vec<_> = names.iter().map(|name| escape_to_line(name.as_ref())).collect();
    let widest = names.iter().map(|name| measure_text_width(name)).max().unwrap_or(0);
    let cell_width = widest + COLUMN_GAP;
    let names_per_row =
        (width.saturating_sub(indent) + COLUMN_GAP).checked_div(cell_width).unwrap_or(1).max(1);
    let mut page = TextPage::default();
    for row in names.chunks(names_per_row) {
        page.push_text(format_args!("{:indent$}", ""));
        for name in row {
            page.push_text(pad_end(name, cell_width));
        }
        page.push_line("");
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::format_columns;

    #[test]
    fn columns_fill_the_width() {
        let names = ["a1", "b22", "c333", "d", "e"];
        assert_eq!(format_columns(&names, 3, 20), "   a1    b22   c333\n   d     e\n");
        assert_eq!(format_columns(&names, 0, 3), "a1\nb22\nc333\nd\ne\n");
        assert_eq!(format_columns::<&str>(&[], 3, 20), "");
        assert_eq!(format_columns(&[""], 0, 0), "\n");
    }
}
