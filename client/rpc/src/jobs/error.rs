//! What can be wrong with jobs.

use std::io;
use std::path::{Path, PathBuf};

use crate::exit::CommandExitCode;

/// Why a job cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedJobError {
    /// Nobody says where state belongs.
    #[error("jobs cannot be kept: neither XDG_STATE_HOME nor HOME is set")]
    Homeless,
    /// The system refuses.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// There is no such job.
    #[error("there is no job {0:?}")]
    Unknown(String),
    /// The beginning of an id that several jobs share.
    #[error("{given:?} may be any of {}", found.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// What it may mean.
        found: Vec<String>,
    },
    /// The file does not begin as a job does.
    #[error("{} is no job: its first line cannot be read", .0.display())]
    Foreign(PathBuf),
    /// Somebody is still at it.
    #[error("the job {0} is still running")]
    Running(String),
    /// There is nobody left to ask.
    #[error("the job {id} has no node that {what}")]
    NothingLeft {
        /// The job.
        id: String,
        /// What such a node would have done.
        what: &'static str,
    },
    /// A job says itself which nodes it has asked.
    #[error("the job {0} says itself which nodes were asked; leave the filters out")]
    Filtered(String),
    /// Nodes are asked for runs of their own, which another command looks after.
    #[error("the job {0} is a rollout of Puppet runs")]
    Runs(String),
    /// The job is no rollout of runs.
    #[error("the job {0} is no rollout of Puppet runs")]
    NoRuns(String),
    /// The job has only a digest of an input.
    #[error("the job {id} kept only a digest of the input `{input}`; give it again: {input}=...")]
    Digested {
        /// The job.
        id: String,
        /// The input.
        input: String,
    },
    /// The job asked something else.
    #[error("the job {id} asked for {was}, not for {given}")]
    OtherRequest {
        /// The job.
        id: String,
        /// Agent and action of it.
        was: String,
        /// Agent and action that were given.
        given: String,
    },
}

impl SavedJobError {
    /// Makes the error of an action on a file.
    pub(super) fn file_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path: path.clone(),
            source,
        }
    }

    /// Next steps, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => {
                vec!["`rpc job list` shows the jobs that are kept".to_owned()]
            }
            Self::Runs(id) => vec![format!("`rpc puppet runall --resume {id}` goes on with it")],
            Self::NoRuns(id) => vec![format!("`rpc do --resume {id}` goes on with it")],
            Self::NothingLeft { id, .. } => vec![format!("`rpc job show {id}` shows how it went")],
            _ => Vec::new(),
        }
    }

    /// How the command ends.
    pub fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::OtherRequest { .. }
            | Self::Digested { .. }
            | Self::Filtered(_)
            | Self::Runs(_)
            | Self::NoRuns(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
