//! Requests to the fleet: from words and options to a [`RequestReport`].
//!
//! ```text
//! words -> plan (schema, coercion, validation) -> fleet (connect, discover) -> rollout (call after call) -> collect
//! ```
//!
//! The request is validated completely before the broker is contacted. Nothing here prints: what happens meanwhile are [`RequestEvent`]s for a
//! [`RequestObserver`].

#![warn(missing_docs)]

#[cfg(test)]
extern crate self as muster_client;

mod approval;
mod batches;
mod cache_file;
mod caller_summary;
mod collect;
mod comparison;
mod confirm;
mod context_selection;
mod contexts;
mod ddl_cache;
mod ddl_fetch;
mod directory;
mod directory_seen;
pub mod documents;
mod error;
mod events;
mod external;
mod fleet;
mod input_source;
mod interrupt;
pub mod jobs;
mod last_seen;
mod listen;
mod locate;
mod located;
mod node_reply;
mod node_row;
mod observer;
mod offline;
mod ping;
mod plan;
mod puppet_rollout;
mod puppet_runs;
mod recorder;
mod reply_filter;
mod report;
mod rollout;
mod run_log;
mod settings;
mod store_survey;
mod target;
#[cfg(test)]
mod testing;
mod token_cache;
mod words;

pub use crate::jobs::RequestOutcome;
pub use approval::{
    ApprovalFileError, LoadedApproval, load_approval, load_offline_signer, read_approval_file,
    write_approval_file,
};
pub use batches::{BatchPace, BatchProgress, run_batches};
pub use cache_file::{read_cache_file, replace_cache_file};
pub use caller_summary::{CallerSummary, CallerSummaryError, fleet_name};
pub use comparison::{DiscoveryAnswers, DiscoveryDifferences, ask_both};
pub use confirm::{ConfirmContext, ConfirmDecision, ConfirmMode};
pub use context_selection::{ConfigSelection, SelectedConfig};
pub use contexts::{ClientContext, ContextError, ContextName, ContextStore, DEFAULT_CONTEXT};
pub use ddl_cache::DdlCache;
pub use ddl_fetch::{DdlFetchError, FetchedDdl};
pub use directory::{
    NodeListOptions, RegisteredNodeList, RegisteredUpdate, RegisteredWatch, count_registered,
    find_registered_prefix, forget_registered, is_record_authentic, list_documents,
    list_registered, list_values, read_content, read_history, show_registered, watch_registered,
};
pub use error::FleetRequestError;
pub use events::{EventSelection, EventStart, EventSummary, follow_events};
pub use external::{DiscoveryProgramError, read_capped};
pub use fleet::FleetConnection;
pub use input_source::InputSource;
pub use interrupt::{InterruptListener, wait_for_ctrl_c, was_interrupted};
pub use last_seen::LastSeenNodes;
pub use listen::{ListenRequest, listen_for_replies};
pub use locate::locate_offline;
pub use located::Located;
pub use node_reply::{NodeReply, NodeTrace};
pub use node_row::NodeRow;
pub use observer::{RequestEvent, RequestObserver};
pub use offline::Offline;
pub use ping::{
    PingRequest, RollCall, find_answering, list_answering, ping_nodes, reply_skew, roll_call,
};
pub use plan::{AgentSchemas, RequestPlan, request_noop};
pub use puppet_rollout::run_puppet_rollout;
pub use puppet_runs::{EndedRun, PuppetRunsReport};
pub use recorder::JobRecorder;
pub use reply_filter::{ReplyFilter, ReplyFilterError};
pub use report::{RequestReport, RequestStats, ResultGap};
pub use rollout::FleetRequest;
pub use run_log::RunLogLine;
pub use settings::{IcingaSettings, RpcSettings, RpcSettingsError, SettingsSyntaxError};
pub use store_survey::{StoreSurvey, survey_stores};
pub use target::{TargetOptions, TargetSelection};
pub use words::RequestWords;
