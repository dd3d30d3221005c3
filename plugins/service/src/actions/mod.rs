//! One file per action.

mod restart;
mod start;
mod status;
mod stop;

pub(crate) use restart::Restart;
pub(crate) use start::Start;
pub(crate) use status::Status;
pub(crate) use stop::Stop;
