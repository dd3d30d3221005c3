//! Copies files to nodes and from nodes, in parts, with the agent `filecopy`. A copy that was interrupted is continued by the next one.
//!
//! ```text
//! to nodes:    begin -> write, part by part, to all nodes that lack it -> finish (verify, rename)
//! from nodes:  inspect -> read, part by part -> verify, rename
//! ```
//!
//! Memory is bounded: few parts are in flight, and few nodes receive them at a time. Shows nothing.

mod channel;
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
