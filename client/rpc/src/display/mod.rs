//! Turns values into text and JSON, and prints it. Only [`printer`] and [`diagnostics`] print; everything else is pure functions of values.
//!
//! Text from nodes is escaped by pages, tables and the printer, so that no node can send terminal sequences: see [`printable`].

pub mod columns;
pub mod diagnostics;
pub mod duration;
pub mod evaluation_limit;
pub mod jq;
pub mod json;
pub mod json_path;
pub mod page;
pub mod plan;
pub mod printable;
pub mod printer;
pub mod ranges;
pub mod screen;
pub mod spark;
pub mod table;
pub mod template;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod value;
pub mod yaml;

pub use page::TextPage;
pub use plan::{count_text, list_first_nodes, node_count_text};
pub use printable::{escape_to_line, shell_word};

/// Width in tests, in columns.
#[cfg(test)]
pub const WIDTH: usize = screen::DEFAULT_COLUMNS;

#[cfg(test)]
pub(crate) fn is_within_width(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= WIDTH)
}

#[cfg(test)]
pub(crate) use testing as fixtures;
