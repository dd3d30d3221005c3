//! How wide the output is, and whether a person watches it. A value: who draws is given it, and asks no system.

use terminal_size::{Width, terminal_size_of};

/// Columns where nothing else is known.
pub const DEFAULT_COLUMNS: usize = 80;
/// Fewer columns than this are not worth drawing for, and more are only taken by mistake.
const COLUMN_BOUNDS: (usize, usize) = (20, 1000);

/// Where data are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Columns that text is made for.
    pub width: usize,
    /// Whether it is a terminal: elsewhere nothing is drawn that a program would stumble over.
    pub is_terminal: bool,
}

impl Default for Screen {
    fn default() -> Self {
        Self::for_file(None)
    }
}

impl Screen {
    /// The standard output of this process: as wide as its terminal. `columns` is what `COLUMNS` says, for all else.
    pub fn from_stdout(columns: Option<usize>) -> Self {
        match terminal_size_of(std::io::stdout()) {
            Some((Width(width), _)) if width > 0 => Self::new(usize::from(width), true),
            _ => Self::for_file(columns),
        }
    }

    /// A file or a pipe.
    pub fn for_file(columns: Option<usize>) -> Self {
        Self::new(columns.unwrap_or(DEFAULT_COLUMNS), false)
    }

    /// A screen of so many columns, or as many as make sense.
    fn new(width: usize, is_terminal: bool) -> Self {
        Self {
            width: width.clamp(COLUMN_BOUNDS.0, COLUMN_BOUNDS.1),
            is_terminal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn a_pipe_is_as_wide_as_somebody_says() {
        assert_eq!(Screen::for_file(None).width, 80);
        assert_eq!(Screen::for_file(Some(132)).width, 132);
        assert_eq!(Screen::for_file(Some(1)).width, 20);
        assert!(!Screen::for_file(Some(132)).is_terminal);
    }
}
