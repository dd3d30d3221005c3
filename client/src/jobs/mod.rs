//! Jobs: requests and replies saved on disk, so that they can be shown, compared, retried and resumed.
//!
//! A job is an append-only file of JSON lines. Its writer holds a lock, so an unlocked job without an end entry was interrupted. Inputs and outputs
//! that are declared sensitive are never written. Sends no requests.

mod entry;
mod error;
mod job;
mod journal;
mod store;

pub use entry::{JOB_LINES_SCHEMA, JobEnd, JobEntry, JobFleet, JobHeader, JobPacing, JobReply};
pub use error::SavedJobError;
pub use job::{JobState, JobWave, RequestOutcome, SavedJob};
pub use journal::JobJournal;
pub use store::{JobStore, new_job_id};
