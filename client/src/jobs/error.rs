//! Errors of saved jobs.

use std::path::PathBuf;

use muster_files::files::FileAccessError;
use muster_wire::identity::SubjectName;

use crate::jobs::entry::JobFleet;

/// Why a job cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedJobError {
    /// No state directory is known.
    #[error("cannot save jobs: neither XDG_STATE_HOME nor HOME is set")]
    NoStateDirectory,
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// No job has this id.
    #[error("there is no job {0:?}")]
    Unknown(String),
    /// An id prefix that matches several jobs.
    #[error("{given:?} matches several jobs: {}", found.join(", "))]
    Ambiguous {
        /// The given prefix.
        given: String,
        /// The matching jobs.
        found: Vec<String>,
    },
    /// The file does not begin with a job's first line.
    #[error("{} is not a job: its first line cannot be parsed", .0.display())]
    NotAJob(PathBuf),
    /// Another process is running the job.
    #[error("the job {0} is still running")]
    Running(String),
    /// No nodes are left for the operation.
    #[error("the job {id} has no node that {condition}")]
    NothingLeft {
        /// The job.
        id: String,
        /// The state that such nodes would have.
        condition: &'static str,
    },
    /// The action of the job cannot be undone.
    #[error("the job {id} cannot be undone: `{agent} {action}` has no input `undo`")]
    NotUndoable {
        /// The job.
        id: String,
        /// Its agent.
        agent: String,
        /// Its action.
        action: String,
    },
    /// Filters are not allowed: the job determines its nodes.
    #[error("the job {0} specifies its nodes; remove the filters")]
    Filtered(String),
    /// The job is a rollout of Puppet runs, which another command handles.
    #[error("the job {0} is a rollout of Puppet runs")]
    Runs(String),
    /// The job is not a rollout of Puppet runs.
    #[error("the job {0} is not a rollout of Puppet runs")]
    NoRuns(String),
    /// The job has only a digest of an input.
    #[error("the job {id} has only a digest of the input `{input}`; pass it again: {input}=...")]
    Digested {
        /// The job.
        id: String,
        /// The input.
        input: String,
    },
    /// The job belongs to another fleet, or to another collective of it.
    #[error(
        "the job {id} belongs to the fleet {} (account {}, collective {}), but the configuration is of the fleet {} (account {}, collective {})",
        saved.0.name, saved.0.account, saved.1, given.0.name, given.0.account, given.1
    )]
    OtherFleet {
        /// The job.
        id: String,
        /// Fleet and collective of the job.
        saved: Box<(JobFleet, SubjectName)>,
        /// Fleet and collective of the configuration.
        given: Box<(JobFleet, SubjectName)>,
    },
    /// The job was written by a version that did not record the fleet.
    #[error(
        "the job {0} does not record its fleet, because an earlier version wrote it; send the request again"
    )]
    NoFleet(String),
    /// The job has another request.
    #[error("the request of the job {id} is {saved}, not {given}")]
    OtherRequest {
        /// The job.
        id: String,
        /// Agent and action of the job.
        saved: String,
        /// The given agent and action.
        given: String,
    },
}
