//! Why the scheduler cannot do something.

use muster_bus::BucketError;
use muster_directory::QueryError;
use muster_schedule::ScheduleError;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::schedule_grant::GrantError;

use crate::store::MAX_SCHEDULES;

/// Why a schedule cannot be added, changed or executed.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The bucket of schedules cannot be read or written.
    #[error(
        "cannot use the bucket of schedules; run `rpc org push` if this fleet is older than schedules"
    )]
    Store(#[from] BucketError),
    /// The signed schedule is refused.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The schedule is not valid.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The schedule cannot be read.
    #[error("the schedule cannot be read")]
    Json(#[from] serde_json::Error),
    /// The filter cannot be answered from records.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The requester is not the author.
    #[error("{author} signed the schedule, and {caller} sent it; each author adds their own")]
    ForeignAuthor {
        /// The author.
        author: Identity,
        /// The requester.
        caller: Identity,
    },
    /// The service does not serve the collective.
    #[error("this scheduler is not in the collective {0}")]
    Collective(SubjectName),
    /// There is one of this name.
    #[error(
        "there is a schedule {name} by {author}; replace it with --replace, or use another name"
    )]
    Exists {
        /// The name.
        name: SubjectName,
        /// Its author.
        author: String,
    },
    /// There are too many.
    #[error("there are {MAX_SCHEDULES} schedules already; remove one, or give one a wider filter")]
    TooMany,
    /// There is none of this name.
    #[error("there is no schedule {0}; `rpc schedule list` shows all")]
    Unknown(SubjectName),
    /// Others change it at the same time.
    #[error("the schedule {0} is being changed by others; try again")]
    Busy(SubjectName),
    /// Neither or both of a name and all.
    #[error("give the name of a schedule, or `all`")]
    Selection,
    /// The service has no connection yet.
    #[error("this scheduler is not connected to the broker yet; try again")]
    NotConnected,
}
