//! Copies files to nodes and from nodes, in parts, with the agent `filecopy`. A copy that was interrupted is continued by the next one.
//!
//! ```text
//! to nodes:    begin -> write, part by part, to all nodes that lack it -> finish (verify, rename)
//! from nodes:  inspect -> read, part by part -> verify, rename
//! ```
//!
//! Memory is bounded: few parts are in flight, and few nodes receive them at a time. Shows nothing.

mod fetch;
mod local_file;
mod part_file;
mod push;
mod report;
mod transfers;

pub use fetch::{FetchDestination, FetchRequest};
pub use local_file::{LocalFile, LocalFileError};
pub use push::PushRequest;
pub use report::{CopyReport, NodeCopyOutcome, NodeCopyResult};

use std::time::Duration;

use crate::steps::Step;

/// The agent of all steps.
const COPY_AGENT: &str = "filecopy";
/// Time limit of a step that moves one part.
const PART_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a step that reads a whole file.
const FILE_TIMEOUT: Duration = Duration::from_mins(10);

const BEGIN: Step = Step { action: "begin", limit: FILE_TIMEOUT, is_first: true, repeats: true };
const WRITE: Step = Step { action: "write", limit: PART_TIMEOUT, is_first: false, repeats: true };
/// Not repeated to a silent node, because it may have succeeded.
const FINISH: Step =
    Step { action: "finish", limit: FILE_TIMEOUT, is_first: false, repeats: false };
const ABORT: Step = Step { action: "abort", limit: PART_TIMEOUT, is_first: false, repeats: true };
const INSPECT: Step =
    Step { action: "inspect", limit: FILE_TIMEOUT, is_first: true, repeats: true };
const READ: Step = Step { action: "read", limit: PART_TIMEOUT, is_first: false, repeats: true };
