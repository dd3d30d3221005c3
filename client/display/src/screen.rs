//! Dimensions of the output, and whether it is a terminal. Passed to renderers as a value.

use terminal_size::{Width, terminal_size_of};

/// Width of text that no terminal limits, in columns.
pub const DEFAULT_COLUMNS: usize = 80;
/// Width of tables whose cells are neither wrapped nor cut.
pub const UNLIMITED_WIDTH: usize = usize::MAX;
/// Bounds of a plausible width in columns; others are corrected.
const COLUMN_BOUNDS: (usize, usize) = (20, 1000);

/// Dimensions of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Width of the text in columns.
    pub width: usize,
    /// Width of tables in columns: unlimited in a pipe or a file, unless `COLUMNS` is set.
    pub table_width: usize,
    /// Whether it is a terminal: otherwise nothing is drawn that a program could not parse.
    pub is_terminal: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self::for_file(None)
    }
}

impl Screen {
    /// This process's standard output, with its terminal's width. Without a terminal, `columns` (from `COLUMNS`) is the width.
    pub fn from_stdout(columns: Option<usize>) -> Self {
        match terminal_size_of(std::io::stdout()) {
            Some((Width(width), _)) if width > 0 => Self::new(Some(usize::from(width)), true),
            _ => Self::for_file(columns),
        }
    }

    /// A file or a pipe.
    pub fn for_file(columns: Option<usize>) -> Self {
        Self::new(columns, false)
    }

    /// Limits the width to `COLUMN_BOUNDS`.
    fn new(columns: Option<usize>, is_terminal: bool) -> Self {
        let width = columns.map(|width| width.clamp(COLUMN_BOUNDS.0, COLUMN_BOUNDS.1));
        let (text_width, table_width) =
            (width.unwrap_or(DEFAULT_COLUMNS), width.unwrap_or(UNLIMITED_WIDTH));
        Self { width: text_width, table_width, is_terminal }
    }
}

#[cfg(test)]
mod tests {
    use super::{Screen, UNLIMITED_WIDTH};

    #[test]
    fn width_of_a_pipe_has_a_default_and_a_minimum() {
        assert_eq!(Screen::for_file(None).width, 80);
        assert_eq!(Screen::for_file(Some(132)).width, 132);
        assert_eq!(Screen::for_file(Some(1)).width, 20);
        assert!(!Screen::for_file(Some(132)).is_terminal);
        assert_eq!(Screen::for_file(None).table_width, UNLIMITED_WIDTH);
        assert_eq!(Screen::for_file(Some(132)).table_width, 132);
    }
}
