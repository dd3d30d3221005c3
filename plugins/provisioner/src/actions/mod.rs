//! The actions of the agent `provisioner`.

mod ask;
mod status;

pub(crate) use ask::{Pause, Resume, Retire, Retry};
pub(crate) use status::Status;
