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

pub use fetch::{FetchDestination, FetchRequest, fetch_file};
pub use local_file::{LocalFile, LocalFileError};
pub use push::{PushRequest, push_file};
pub use report::{CopyReport, NodeCopyOutcome, NodeCopyResult};

use std::time::Duration;

use muster_contract::filecopy::{
    FilecopyAbort, FilecopyBegin, FilecopyFinish, FilecopyInspect, FilecopyRead, FilecopyWrite,
};

use crate::steps::Step;

/// Time limit of a step that moves one part.
const PART_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a step that reads a whole file.
const FILE_TIMEOUT: Duration = Duration::from_mins(10);

const BEGIN: Step<FilecopyBegin> = Step::first(FILE_TIMEOUT);
const WRITE: Step<FilecopyWrite> = Step::later(PART_TIMEOUT);
/// Not repeated to a silent node, because it may have succeeded.
const FINISH: Step<FilecopyFinish> = Step::once(FILE_TIMEOUT);
const ABORT: Step<FilecopyAbort> = Step::later(PART_TIMEOUT);
const INSPECT: Step<FilecopyInspect> = Step::first(FILE_TIMEOUT);
const READ: Step<FilecopyRead> = Step::later(PART_TIMEOUT);
