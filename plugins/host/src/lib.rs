//! Finds, runs and limits plugins. A plugin that panics, hangs or floods costs one reply, never the daemon.
//!
//! - [`registry`]: the agents of the node. [`dispatch`]: one call, from permit to reply. [`limits`]: concurrency, queue and output limits.
//! - [`running`]: the running requests and their cancellation.
//! - [`external`]: agents that are separate programs, which can be added and removed at run time. [`sandbox`]: the restrictions of such a program.
//!
//! Authorisation is complete before a call reaches this crate.

pub mod dispatch;
pub mod external;
pub mod limits;
pub mod registry;
pub mod running;
pub mod sandbox;

pub use dispatch::{ActionCall, CallOutcome};
pub use limits::CallLimits;
pub use registry::{AgentLoad, AgentRegistry, RegistryError};
pub use running::{RunningGuard, RunningRequests};
