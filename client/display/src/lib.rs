//! Turns values into text and JSON, and prints it. Only [`printer`] prints; everything else is pure functions of values.
//!
//! Text from nodes is escaped by pages, tables and the printer, so that no node can send terminal sequences: see [`printable`].

#![warn(missing_docs)]

#[cfg(test)]
extern crate self as muster_display;

pub mod columns;
pub mod duration;
pub mod evaluation_limit;
pub mod jq;
pub mod json;
pub mod json_path;
pub mod node_names;
pub mod page;
pub mod printable;
pub mod printer;
pub mod ranges;
pub mod screen;
pub mod spark;
pub mod table;
pub mod template;
#[cfg(test)]
mod testing;
pub mod time;
pub mod value;
pub mod yaml;

pub use muster_base::count_text;
pub use node_names::{list_first_nodes, list_sample_nodes, node_count_text};
pub use page::TextPage;
pub use printable::{escape_to_line, shell_word};
