//! Finds, runs and limits plugins, so that a plugin that panics, hangs or floods costs one answer and never the daemon.
//!
//! - [`registry`]: which agents there are. [`dispatch`]: one call, from slot to answer. [`limits`]: how much at once.
//! - [`running`]: what is at work, and how it is taken back.
//! - [`external`]: agents that are programs of their own, while they come and go. [`sandbox`]: what such a program may do.
//!
//! Who may call what was decided before a call comes here.

#![warn(missing_docs)]

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
