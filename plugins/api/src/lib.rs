//! What a plugin author sees: an agent's actions as typed functions, and the context in which they run.
//!
//! ```
//! use std::sync::Arc;
//!
//! use muster_api::{ActionError, Agent, BlockingContext, CallContext};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct GreetInput { name: String }
//!
//! #[derive(Serialize)]
//! struct GreetOutput { greeting: String }
//!
//! /// What the actions share. It is cloned for each call.
//! #[derive(Clone)]
//! struct Salutation(Arc<str>);
//!
//! /// May wait, until the deadline of the call.
//! async fn greet(with: Salutation, cx: CallContext, input: GreetInput) -> Result<GreetOutput, ActionError> {
//!     tokio::select! {
//!         () = tokio::task::yield_now() => Ok(GreetOutput { greeting: format!("{} {}", with.0, input.name) }),
//!         () = cx.cancel.cancelled() => Err(ActionError::cancelled()),
//!     }
//! }
//!
//! /// Reads a file, so it runs on the pool for blocking work.
//! fn greet_from_file(_: &Salutation, cx: &BlockingContext, input: GreetInput) -> Result<GreetOutput, ActionError> {
//!     let text = cx.system.read_file(input.name.as_ref(), 1024)?;
//!     Ok(GreetOutput { greeting: String::from_utf8_lossy(&text).into_owned() })
//! }
//!
//! /// Knows the reply, so it runs where the request is received.
//! fn greet_at_once(with: &Salutation, _: &CallContext, _: GreetInput) -> GreetOutput {
//!     GreetOutput { greeting: with.0.to_string() }
//! }
//!
//! # let action = |name: &str| format!(r#"{{"action":"{name}","description":"d","display":"always",
//! # "input":{{"name":{{"prompt":"n","description":"d","type":"string","validation":".","maxlength":20,"optional":false}}}},
//! # "output":{{"greeting":{{"description":"g","display_as":"g","type":"string"}}}}}}"#);
//! # let ddl = format!(r#"{{"metadata":{{"name":"hello","description":"d","author":"a","license":"x","version":"1.0.0","url":"u","timeout":5}},
//! # "actions":[{},{},{}]}}"#, action("greet"), action("greet_from_file"), action("greet_at_once"));
//! let salutation = Salutation("hello".into());
//! let agent = Agent::builder(&ddl)?
//!     .action("greet", &salutation, greet)
//!     .blocking_action("greet_from_file", &salutation, greet_from_file)
//!     .immediate_action("greet_at_once", &salutation, greet_at_once)
//!     .build()?;
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
mod history;
mod node;
mod plugin;
pub mod progress;
pub mod state;
pub mod testing;
mod throttle;
mod typed_agent;

pub use action::{ActionFuture, ActionHandler, NoState};
pub use agent::{Agent, AgentBuilder, AgentError};
pub use context::{BlockingContext, CallContext, CallSender, WorkEnd};
pub use data_source::{DataSourceError, ValidatedDataSource};
pub use error::ActionError;
pub use finding::{FindingLevel, HealthFinding};
pub use history::{HistoryRecorder, HistorySink};
pub use muster_base as base;
pub use muster_ddl as ddl;
pub use muster_ddl::EmptyInput;
pub use muster_filter as filter;
pub use muster_system as system;
pub use muster_wire as wire;
pub use node::{
    AgentProblem, CallerVerdict, CancelScope, CounterSnapshot, NodeHandle, RequestOwner,
    RunningRequest,
};
pub use plugin::{
    DaemonContext, NoOptions, NodePlugin, PluginError, PluginResult, StatelessPlugin,
};
pub use state::{StateChanges, StateSource};
pub use throttle::LogThrottle;
pub use typed_agent::TypedAgentBuilder;
