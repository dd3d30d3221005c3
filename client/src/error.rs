//! Errors of requests to the fleet.

use std::path::PathBuf;
use std::sync::Arc;

use muster_base::is_harmful;
use muster_calls::discovery::flat::NodeListError;
use muster_calls::discovery::inventory::InventoryError;
use muster_calls::discovery::puppetdb::PuppetDbError;
use muster_calls::discovery::{DiscoveryOptionError, UnsupportedCondition};
use muster_calls::{ClientError, DdlStoreError, DirectoryError};
use muster_ddl::InputValidationError;
use muster_filter::FilterError;
use muster_wire::compressed::CompressedJsonError;
use muster_wire::identity::Identity;
use muster_wire::limits::MAX_REQUEST_BYTES;
use muster_wire::sign::MessageRefusal;

use crate::jobs::SavedJobError;

use crate::ddl_fetch::DdlFetchError;
use crate::external::DiscoveryProgramError;
use crate::settings::RpcSettingsError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum FleetRequestError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] Arc<RpcSettingsError>),
    /// An invalid filter.
    #[error("{flag}: {source}\n\n  {}\n  {}", printable_filter(source), caret_line(source))]
    Filter {
        /// The option that has it, as on the command line.
        flag: &'static str,
        /// The error and its position.
        source: FilterError,
    },
    /// The directory gave no answer.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory's record of a node is not the node's own.
    #[error("the record of {node} in the directory is not what this node signed")]
    Record {
        /// The node.
        node: Identity,
        /// Why it is refused.
        source: MessageRefusal,
    },
    /// The content or the history in a record cannot be read.
    #[error("the record of {node} cannot be read")]
    Content {
        /// The node.
        node: Identity,
        /// The error.
        source: CompressedJsonError,
    },
    /// An input that is not `KEY=VALUE`.
    #[error("{0:?} is not KEY=VALUE; write inputs after the action, such as `name=rip`")]
    InvalidInputFormat(String),
    /// No DDL is known for this agent.
    #[error("unknown agent {agent:?}: no DDL for it on this machine")]
    UnknownAgent {
        /// The given name.
        agent: String,
        /// The most similar agent.
        nearest: Option<String>,
        /// The most similar command, if the word was in a command's position.
        command: Option<String>,
        /// The directory for additional DDLs.
        ddls: Option<PathBuf>,
    },
    /// The file with the agent's DDL cannot be used.
    #[error("the DDL of the agent `{agent}` cannot be used: {problem}")]
    UnusableDdl {
        /// The agent.
        agent: String,
        /// The file and the reason.
        problem: String,
    },
    /// An action that the agent does not have.
    #[error("agent `{agent}` has no action {action:?}; its actions: {}", .known.join(", "))]
    UnknownAction {
        /// The agent.
        agent: String,
        /// The given name.
        action: String,
        /// The most similar action.
        nearest: Option<String>,
        /// All actions.
        known: Vec<String>,
    },
    /// `--noop` for an action that cannot report what it would change.
    #[error(
        "`{agent} {action}` cannot report what it would change: it has no input `noop`; nothing was sent"
    )]
    NoNoop {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
    },
    /// No action is given, and the agent has no default action.
    #[error("agent `{agent}` has no default action; specify an action: {}", .known.join(", "))]
    NoAction {
        /// The agent.
        agent: String,
        /// All actions.
        known: Vec<String>,
    },
    /// The action's DDL rejects the inputs.
    #[error("{source}")]
    Input {
        /// The agent.
        agent: String,
        /// The input and the reason.
        source: Box<InputValidationError>,
    },
    /// The inputs do not fit into a request.
    #[error(
        "the inputs have {bytes} bytes, of which `{largest}` has {largest_bytes}; a request holds at most {MAX_REQUEST_BYTES} bytes"
    )]
    InputsTooLarge {
        /// The size of all inputs, in bytes of JSON.
        bytes: usize,
        /// The largest input.
        largest: String,
        /// Its size.
        largest_bytes: usize,
    },
    /// A list of nodes cannot be used. The path is `-` for the standard input.
    #[error("the list of nodes in {} cannot be used", .0.display())]
    NodeList(PathBuf, #[source] NodeListError),
    /// An inventory cannot be used.
    #[error("the inventory in {} cannot be used", .0.display())]
    Inventory(PathBuf, #[source] InventoryError),
    /// A `PuppetDB` error.
    #[error(transparent)]
    PuppetDb(#[from] PuppetDbError),
    /// A discovery program error.
    #[error(transparent)]
    DiscoveryProgram(#[from] DiscoveryProgramError),
    /// An invalid option of a discovery method.
    #[error(transparent)]
    DiscoveryOption(#[from] DiscoveryOptionError),
    /// A condition that the discovery method does not support.
    #[error(transparent)]
    UnsupportedCondition(#[from] UnsupportedCondition),
    /// A request without a filter, which the configuration forbids.
    #[error("no request sent: `{action}` is not read-only, and no filter was given (required by `discovery.require_filter` in {})", file.display())]
    Unfiltered {
        /// The action.
        action: String,
        /// The configuration file.
        file: PathBuf,
    },
    /// DDLs cannot be read.
    #[error(transparent)]
    Schemas(#[from] DdlStoreError),
    /// A DDL could not be fetched.
    #[error(transparent)]
    Fetch(#[from] DdlFetchError),
    /// A client error.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The user interrupted the command before a request was sent.
    #[error("interrupted; nothing was sent")]
    Interrupted,
    /// A job cannot be used.
    #[error(transparent)]
    Job(#[from] SavedJobError),
}

impl FleetRequestError {
    /// Whether no instance of the directory could answer: another may, or the same one after its restart.
    pub fn is_directory_away(&self) -> bool {
        use DirectoryError::{Absent, NotReady, Timeout};
        matches!(self, Self::Directory(Absent | NotReady | Timeout(_)))
    }

    /// Whether the record of one node cannot be used.
    pub fn is_record_unusable(&self) -> bool {
        matches!(self, Self::Record { .. } | Self::Content { .. })
    }
}

/// The filter's text on one line, with one column per character.
fn printable_filter(error: &FilterError) -> String {
    error.text().chars().map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

fn caret_line(error: &FilterError) -> String {
    let before = error.column().saturating_sub(1).min(error.text().chars().count());
    format!("{}^", " ".repeat(before))
}
