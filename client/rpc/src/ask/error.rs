//! Errors of requests to the fleet, with hints.

use std::io;
use std::path::PathBuf;

use muster_client::discovery::{DiscoveryOptionError, UnsupportedCondition};
use muster_client::{ClientError, DdlStoreError};
use muster_ddl::InputValidationError;
use muster_filter::FilterError;

use super::ddl_fetch::DdlFetchError;
use super::locate::LocateError;
use crate::error::CommandError;
use crate::exit::CommandExitCode;
use muster_jobs::SavedJobError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum FleetRequestError {
    /// An invalid filter.
    #[error("{flag}: {source}\n\n  {}\n  {}", printable_filter(source), caret_line(source))]
    Filter {
        /// The flag.
        flag: &'static str,
        /// The error and its position.
        source: FilterError,
    },
    /// An input that is not `KEY=VALUE`.
    #[error("{word:?} is not KEY=VALUE; write inputs after the action, such as `name=rip`")]
    InvalidInputFormat {
        /// The given text.
        word: String,
    },
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
    /// A secret cannot be read from the standard input.
    #[error("cannot read the input `{input}` from the standard input")]
    Secret {
        /// The input.
        input: String,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// Discovery without the fleet failed.
    #[error(transparent)]
    Locate(#[from] LocateError),
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
    /// The standard input can be used only once.
    #[error(
        "cannot read both the nodes and the input `{input}` from the standard input; write the nodes to a file"
    )]
    StdinConflict {
        /// The secret input.
        input: String,
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
    /// The user declined the confirmation.
    #[error("not confirmed; nothing was sent")]
    Declined,
    /// Confirmation is required, and there is no terminal.
    #[error(
        "the configuration requires confirmation of changes (`confirm = \"always\"`), and there is no terminal; nothing was sent"
    )]
    Unconfirmed,
    /// Work that holds permits would be stopped, and there is no terminal to confirm it.
    #[error(
        "{} {} a permit of {pool} for a run in progress, which the release would stop; there is no terminal for the confirmation, and nothing was sent",
        nodes.join(", "), if nodes.len() == 1 { "holds" } else { "hold" }
    )]
    LiveHolders {
        /// The pool.
        pool: String,
        /// The nodes that hold permits.
        nodes: Vec<String>,
    },
    /// A job cannot be used.
    #[error(transparent)]
    Job(#[from] SavedJobError),
    /// The output file cannot be written.
    #[error("cannot write to {}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A document that cannot be written as JSON.
    #[error("cannot encode the result as JSON")]
    Json(#[from] serde_json::Error),
}

impl CommandError for FleetRequestError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Filter { flag, .. } => vec![filter_example(flag).to_owned()],
            Self::UnknownAgent {
                nearest,
                command,
                ddls,
                ..
            } => {
                let command = command
                    .iter()
                    .map(|command| format!("did you mean the command `rpc {command}`?"));
                let nearest = nearest
                    .iter()
                    .map(|agent| format!("did you mean the agent `{agent}`?"));
                let list = "run `rpc plugin list` to list the known agents".to_owned();
                let fetch = ddls.as_ref().map(|_| {
                    "run `rpc plugin fetch AGENT` to get the DDL from the nodes".to_owned()
                });
                let add = ddls
                    .iter()
                    .map(|path| format!("put DDLs of other agents into {}", path.display()));
                command
                    .chain(nearest)
                    .chain([list])
                    .chain(fetch)
                    .chain(add)
                    .collect()
            }
            Self::UnknownAction { agent, nearest, .. } => {
                let nearest = nearest
                    .iter()
                    .map(|action| format!("did you mean `rpc do {agent} {action}`?"));
                nearest.chain([documentation_hint(agent)]).collect()
            }
            Self::Unfiltered { .. } => vec![
                "specify the nodes, for example with `-W country=uk`, `-C apache` or `--nodes FILE`; `-I /./` selects every node".to_owned(),
            ],
            Self::Job(error) => error.hints(),
            Self::Unconfirmed | Self::LiveHolders { .. } => vec!["pass `--yes` to confirm in advance".to_owned()],
            Self::NoAction { agent, .. } | Self::Input { agent, .. } => vec![documentation_hint(agent)],
            Self::Fetch(error) => error.hint().map(str::to_owned).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Filter { .. }
            | Self::InvalidInputFormat { .. }
            | Self::UnknownAgent { .. }
            | Self::UnknownAction { .. }
            | Self::NoAction { .. }
            | Self::DiscoveryOption(_)
            | Self::UnsupportedCondition(_)
            | Self::Unfiltered { .. }
            | Self::StdinConflict { .. }
            | Self::Client(ClientError::ForeignInbox { .. })
            | Self::Unconfirmed
            | Self::LiveHolders { .. }
            | Self::Input { .. } => CommandExitCode::Usage,
            Self::Job(error) => error.exit_code(),
            Self::Secret { .. }
            | Self::Locate(_)
            | Self::Schemas(_)
            | Self::Fetch(_)
            | Self::Client(_)
            | Self::Interrupted
            | Self::Declined
            | Self::Output { .. }
            | Self::Json(_) => CommandExitCode::Local,
        }
    }
}

fn documentation_hint(agent: &str) -> String {
    format!("run `rpc plugin doc {agent}` for the actions and their inputs")
}

fn filter_example(flag: &str) -> &'static str {
    match flag {
        "--with-fact" => {
            "write it like `-F customer=acme`, `-F os.family=Debian`, `-F processors>=4` or `-F role=/^web/`"
        }
        "--with-class" => "write it like `-C mysql::master` or `-C /^role::/`",
        "--with-agent" => "write it like `-A puppetral` or `-A /^pup/`",
        "--with-identity" => "write it like `-I db1.acme.net` or `-I /^web/`",
        "--select" => "write it like `-S '(country=uk or customer=acme) and not apache'`",
        _ => "write it like `-W \"environment=development mysql::master\"`",
    }
}

/// The filter's text on one line, with one column per character.
fn printable_filter(error: &FilterError) -> String {
    error
        .text()
        .chars()
        .map(|c| if crate::render::printable::is_harmful(c) { '?' } else { c })
        .collect()
}

fn caret_line(error: &FilterError) -> String {
    let before = error.column().saturating_sub(1).min(error.text().chars().count());
    format!("{}^", " ".repeat(before))
}
