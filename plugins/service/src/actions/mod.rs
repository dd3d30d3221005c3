//! The actions of `service`, one module each.

mod restart;
mod start;
mod status;
mod stop;

pub(crate) use restart::ServiceRestartAction;
pub(crate) use start::ServiceStartAction;
pub(crate) use status::ServiceStatusAction;
pub(crate) use stop::ServiceStopAction;
