//! Sends requests to the fleet: from command-line words to a [`crate::report::RequestReport`].
//!
//! ```text
//! words -> plan (schema, coercion, validation) -> fleet (connect, discover) -> rollout (call after call) -> gather
//! ```
//!
//! The request is validated completely before the broker is contacted. Nothing here renders results.

mod collect;
mod confirm;
mod ddl_cache;
mod ddl_fetch;
mod error;
mod external;
mod fleet;
mod interrupt;
mod listen;
mod locate;
mod ping;
mod plan;
mod progress;
mod puppet_rollout;
mod recorder;
mod request_words;
mod rollout;
mod secret;
mod target;
mod token_cache;

pub use confirm::{ConfirmContext, ConfirmDecision, ConfirmMode, ask_confirmation, is_terminal};
pub use ddl_cache::DdlCache;
pub use ddl_fetch::FetchedDdl;
pub use error::FleetRequestError;
pub use fleet::{DiscoveredNodes, FleetConnection, PingRequest};
pub use listen::ListenRequest;
pub use locate::locate_nodes;
pub use ping::RollCall;
pub use plan::{AgentSchemas, RequestPlan};
pub use progress::ProgressReporter;
pub use puppet_rollout::PuppetRolloutNotice;
pub use recorder::JobRecorder;
pub use request_words::RequestWords;
pub use rollout::{FleetRequest, FleetRequestUpdate};
pub use secret::read_secrets;
pub use target::TargetSelection;
