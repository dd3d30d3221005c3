//! Why the scheduler cannot do something.

use muster_bus::BucketError;
use muster_directory::QueryError;
use muster_schedule::ScheduleError;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::schedule_grant::GrantError;

use crate::store::MAX_SCHEDULES;

#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error(
        "cannot use the bucket of schedules; run `rpc org push` if this fleet is older than schedules"
    )]
    Store(#[from] BucketError),
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error("the schedule cannot be read")]
    Json(#[from] serde_json::Error),
    /// The filter cannot be answered from records.
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{author} signed the schedule, and {caller} sent it; each author adds their own")]
    ForeignAuthor { author: Identity, caller: Identity },
    #[error("this scheduler is not in the collective {0}")]
    Collective(SubjectName),
    #[error(
        "there is a schedule {name} by {author}; replace it with --replace, or use another name"
    )]
    Exists { name: SubjectName, author: String },
    #[error("there are {MAX_SCHEDULES} schedules already; remove one, or give one a wider filter")]
    TooMany,
    #[error("there is no schedule {0}; `rpc schedule list` shows all")]
    Unknown(SubjectName),
    #[error("the schedule {0} is being changed by others; try again")]
    Busy(SubjectName),
    /// Neither or both of a name and all.
    #[error("give the name of a schedule, or `all`")]
    Selection,
    #[error("this scheduler is not connected to the broker yet; try again")]
    NotConnected,
}
