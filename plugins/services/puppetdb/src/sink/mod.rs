//! Sends a `PuppetDB` the facts of nodes, their released catalogs with what the compile read, and the reports of runs.
//!
//! Nothing is queued: facts are in the directory, catalogs in the broker, reports in the index of the history, and [`SinkState`] is how far each was sent. A
//! command is repeated until it is answered. One that is refused goes to the [`DeadLetters`](muster_sinks::DeadLetters). Every command carries the time of what it is about, and `PuppetDB`
//! ignores earlier ones, so commands that are sent again, or by another instance, change nothing.

mod catalogs;
mod command;
mod counts;
mod facts;
mod options;
mod reports;
mod sender;
mod service;
mod state;

pub use command::{CommandKind, PuppetdbCommand};
pub use counts::{KindCounts, SinkCounts};
pub use options::{PuppetdbOptions, SinkOptionsError};
pub use service::{CatalogSource, PuppetdbSink, SinkError, SinkSources};
pub use state::{SinkState, StateFile};
