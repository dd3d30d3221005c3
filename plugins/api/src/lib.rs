//! What a plugin author sees: an agent's actions as typed functions, and the context in which they run.
//!
//! ```
//! use muster_api::{ActionError, Agent, AgentAction, CallContext};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct Who { name: String }
//!
//! #[derive(Serialize)]
//! struct Greeting { greeting: String }
//!
//! struct Greet;
//!
//! impl AgentAction for Greet {
//!     const NAME: &'static str = "greet";
//!     type Input = Who;
//!     type Output = Greeting;
//!
//!     async fn run(&self, _cx: &CallContext, who: Who) -> Result<Greeting, ActionError> {
//!         Ok(Greeting { greeting: format!("hello {}", who.name) })
//!     }
//! }
//!
//! # let ddl = r#"{"metadata":{"name":"hello","description":"d","author":"a","license":"x","version":"1.0.0","url":"u","timeout":5},
//! # "actions":[{"action":"greet","description":"d","display":"always","input":{"name":{"prompt":"n","description":"d","type":"string","validation":".","maxlength":20,"optional":false}},
//! # "output":{"greeting":{"description":"g","display_as":"g","type":"string"}}}]}"#;
//! let agent = Agent::builder(ddl)?.with_action(Greet).build()?;
//! assert_eq!(agent.name(), "hello");
//! # Ok::<(), muster_api::AgentError>(())
//! ```
//!
//! The schema (DDL) declares the inputs and outputs of an action; [`testing`] verifies that the Rust types match it.
//! This crate does not find, run or limit plugins; the host does.

#![warn(missing_docs)]

mod action;
mod agent;
mod context;
mod data_source;
mod error;
mod finding;
mod node;
mod plugin;
pub mod progress;
pub mod testing;
mod throttle;

pub use action::{ActionFuture, ActionHandler, AgentAction};
pub use agent::{Agent, AgentBuilder, AgentError};
pub use context::CallContext;
pub use data_source::{DataSource, DataSourceError, ValidatedDataSource};
pub use error::ActionError;
pub use finding::{FindingLevel, HealthFinding};
pub use muster_base as base;
pub use muster_ddl as ddl;
pub use muster_filter as filter;
pub use muster_system as system;
pub use muster_wire as wire;
pub use node::{AgentInfo, AgentProblem, CounterSnapshot, NodeHandle, RunningRequest};
pub use plugin::{DaemonContext, NoOptions, NodePlugin, PluginError};
pub use throttle::LogThrottle;
