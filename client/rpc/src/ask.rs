//! Sends requests to the fleet: from command-line words to a [`crate::report::RequestReport`].
//!
//! ```text
//! words -> plan (schema, coercion, validation) -> fleet (connect, discover) -> rollout (call after call) -> gather
//! ```
//!
//! The request is validated completely before the broker is contacted. Nothing here renders results.

mod campaign;
mod confirm;
mod error;
mod external;
mod fetched;
mod fleet;
mod gather;
mod interrupt;
mod kept;
mod listen;
mod locate;
mod nearest;
mod plan;
mod progress;
mod recorder;
mod roll_call;
mod rollout;
mod secret;
mod target;
mod vouched;
mod words;

pub use campaign::PuppetRolloutNotice;
pub use confirm::{ConfirmContext, ConfirmDecision, ConfirmMode, ask_confirmation, is_terminal};
pub use error::FleetRequestError;
pub use fetched::FetchedDdl;
pub use fleet::{DiscoveredNodes, FleetConnection, PingRequest};
pub use kept::DdlCache;
pub use listen::ListenRequest;
pub use locate::locate_nodes;
pub use nearest::nearest_name;
pub use plan::{AgentSchemas, RequestPlan};
pub use progress::ProgressReporter;
pub use recorder::JobRecorder;
pub use roll_call::RollCall;
pub use rollout::{FleetRequest, FleetRequestUpdate};
pub use secret::read_secrets;
pub use target::TargetSelection;
pub use words::RequestWords;
