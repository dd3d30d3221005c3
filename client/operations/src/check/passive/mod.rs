//! Passive results: states of checks that another program has found, for a monitoring system.
//!
//! ```text
//! check or events -> result -> queue -> sink: nagios_pipe (the command pipe of Nagios)
//!                                             icinga_message, icinga_api (the HTTP API of Icinga 2)
//! ```

mod icinga_api;
mod icinga_message;
mod nagios_pipe;
mod queue;
mod result;
mod sink;
#[cfg(test)]
mod testing;

pub use icinga_api::{IcingaApi, IcingaApiError};
pub use nagios_pipe::{NagiosPipe, NagiosPipeError};
pub use queue::{PassiveQueue, PassiveWork};
pub use result::PassiveResult;
pub use sink::{DeliveryReport, PassiveSink, PassiveSinkError, RefusedResult, describe_refused};
