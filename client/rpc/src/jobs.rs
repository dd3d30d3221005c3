//! Jobs: what was asked of whom, and what they answered, kept on disk so that it can be shown, compared, retried and resumed.
//!
//! A job is a file of JSON lines that only grows. Whoever writes it holds a lock on it, so a job without an end that nobody
//! holds was interrupted. What an action's schema calls sensitive is never in it. Nothing here asks the fleet.

mod entry;
mod error;
mod job;
mod journal;
mod store;

pub use entry::{JOB_LINES_SCHEMA, JobEnd, JobEntry, JobHeader, JobPacing, JobReply};
pub use error::SavedJobError;
pub use job::{JobState, JobWave, SavedJob};
pub use journal::JobJournal;
pub use store::{JobStore, new_job_id};
