//! Shows what came back: progress, replies, and documents of requests.

pub mod check_rows;
pub mod command_output;
pub mod command_output_printer;
pub mod documents;
pub mod group;
pub mod history_rows;
pub mod job_request;
pub mod jsonl;
pub mod list_form;
pub mod passive_sink;
pub mod progress;
pub mod progress_lines;
pub mod request;
pub mod request_form;
pub mod request_output;
pub mod rollout_preview;
pub mod shown_value;
pub mod sink_failure;
pub mod status;
pub mod store_changes;
pub mod template_values;
#[cfg(test)]
pub(crate) mod testing;
pub mod trace;
