//! Functions that every crate may use: time, file replacement, and the texts of errors and suggestions.

#![warn(missing_docs)]

mod file;
mod text;
mod time;

pub use file::{replace_file, sync_parent_directory};
pub use text::{
    compare_natural, encode_hex, error_chain, is_harmful, join_causes, nearest_name, with_causes,
};
pub use time::{
    duration_millis, format_duration, format_millis, format_rfc3339, format_utc, since_epoch,
    unix_millis, unix_millis_now,
};
