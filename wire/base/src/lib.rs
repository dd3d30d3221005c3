//! Functions that every crate may use: time, and the texts of nodes, errors, suggestions and exit codes. No input or output.

#![warn(missing_docs)]

mod exit;
mod node_text;
mod text;
mod time;

pub use exit::{describe_exit, signal_of_exit_code};
pub use node_text::{NodeText, escape_to_line, escape_unprintable};
pub use text::{
    compare_natural, count_text, encode_hex, error_chain, is_harmful, join_causes, nearest_name,
    with_causes,
};
pub use time::{
    duration_millis, format_duration, format_millis, format_rfc3339, format_utc, round_limit,
    since_epoch, unix_millis, unix_millis_now,
};
