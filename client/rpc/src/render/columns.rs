//! Names side by side, in as many columns as fit; read from left to right.

use super::page::Page;

/// Least space between two columns.
const GAP: usize = 2;

/// The names in aligned columns, each line indented and ended; nothing for no names.
pub fn columns<T: AsRef<str>>(names: &[T], indent: usize, width: usize) -> String {
    let widest = names
        .iter()
        .map(|name| name.as_ref().chars().count())
        .max()
        .unwrap_or(0);
    let cell = widest + GAP;
    let across = (width.saturating_sub(indent) + GAP)
        .checked_div(cell)
        .unwrap_or(1)
        .max(1);
    let mut page = Page::default();
    for row in names.chunks(across) {
        page.add(format_args!("{:indent$}", ""));
        for name in row {
            page.add(format_args!("{:<cell$}", name.as_ref()));
        }
        page.line("");
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn as_many_columns_as_fit() {
        let names = ["a1", "b22", "c333", "d", "e"];
        assert_eq!(columns(&names, 3, 20), "   a1    b22   c333\n   d     e\n");
        assert_eq!(columns(&names, 0, 3), "a1\nb22\nc333\nd\ne\n");
        assert_eq!(columns::<&str>(&[], 3, 20), "");
        assert_eq!(columns(&[""], 0, 0), "\n");
    }
}
