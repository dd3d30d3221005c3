//! Functions that every crate may use: time, file replacement, changes of files, and the texts of nodes, errors, suggestions and exit codes.

#![warn(missing_docs)]

mod exit;
mod file;
mod file_stamp;
mod node_text;
mod text;
mod time;

pub use exit::{describe_exit, signal_of_exit_code};
pub use file::{StagedFile, replace_file, sync_parent_directory};
pub use file_stamp::FileStamp;
pub use node_text::{NodeText, escape_to_line, escape_unprintable};
pub use text::{
    compare_natural, count_text, encode_hex, error_chain, is_harmful, join_causes, nearest_name,
    with_causes,
};
pub use time::{
    duration_millis, format_duration, format_millis, format_rfc3339, format_utc, round_limit,
    since_epoch, unix_millis, unix_millis_now,
};
