//! Renders results as text and documents: pure functions of values, one file per kind of result. Nothing here prints.
//!
//! Text from nodes is escaped by pages, tables and the printer, so that no node can send terminal sequences: see [`printable`].

pub mod again;
pub mod agent_help;
pub mod audit;
pub mod check;
pub mod checks;
pub mod collectives;
pub mod columns;
pub mod command_output;
pub mod config;
pub mod copy;
pub mod ddl_check;
pub mod doctor;
pub mod duration;
pub mod evaluation_limit;
pub mod events;
pub mod explain;
pub mod fact_names;
pub mod facts;
pub mod filter;
pub mod grid;
pub mod group;
pub mod inventory;
pub mod job;
pub mod jq;
pub mod json;
pub mod json_path;
pub mod jsonl;
pub mod node_history;
pub mod nodes;
pub mod page;
pub mod permit;
pub mod ping;
pub mod plan;
pub mod plugins;
pub mod policy;
pub mod printable;
pub mod progress;
pub mod prompt;
pub mod proposal;
pub mod provision;
pub mod puppet;
pub mod ranges;
pub mod registered;
pub mod request;
pub mod runs;
pub mod schedule;
pub mod schedule_load;
mod shown_value;
pub mod spark;
pub mod stats;
pub mod status;
pub mod template;
pub mod template_values;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod trace;
pub mod value;
pub mod whoami;
pub mod yaml;

pub use page::TextPage;
pub use plan::{count_text, list_first_nodes, node_count_text};
pub use printable::{escape_to_line, shell_word};

/// Width in tests, in columns.
#[cfg(test)]
pub const WIDTH: usize = crate::screen::DEFAULT_COLUMNS;

#[cfg(test)]
pub(crate) fn is_within_width(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= WIDTH)
}

#[cfg(test)]
pub(crate) use testing as fixtures;
