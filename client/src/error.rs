//! What can go wrong at the caller's side, before or beside the nodes' own answers.

use std::io;
use std::path::PathBuf;

use muster_bus::BusError;
use muster_secret::SecretFileError;
use muster_wire::identity::NameError;
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::{TokenError, UserCredentialsError};

/// A failure of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A file that the settings name cannot be read.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// What is in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A secret that cannot be read, or that others could read too.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// The credentials are none.
    #[error("the credentials in {} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UserCredentialsError,
    },
    /// The operator's key or the account's token cannot be used.
    #[error("the trust in {} cannot be used", path.display())]
    Trust {
        /// The account token's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// A name of a caller, agent or action that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The broker.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The request cannot be sealed.
    #[error("the request cannot be sent")]
    Seal(#[from] EnvelopeSignError),
    /// The filter does not allow what is added to it.
    #[error("the filter cannot be used")]
    Filter(#[from] muster_wire::filter::FilterError),
    /// The caller's token does not let it ask this agent; the broker would refuse it without a word.
    #[error("your credentials do not let you ask the agent {agent}; they allow {allowed}")]
    NotGranted {
        /// The agent.
        agent: String,
        /// What they allow, as `agent` tags.
        allowed: String,
    },
    /// The task that made the call is gone: the program is ending.
    #[error("the call broke off")]
    Unfinished,
    /// Sensitive inputs can be sealed only for nodes that are known.
    #[error(
        "{inputs} must not be read on the way, so it is sealed for each node, and a broadcast names none; find the nodes first"
    )]
    SecretBroadcast {
        /// The inputs.
        inputs: String,
    },
    /// Answers are wanted where the caller cannot read them.
    #[error(
        "answers cannot go to `{subject}`: use a name of 1 to 64 letters, digits, - and _, or {inbox}"
    )]
    ForeignInbox {
        /// Where they were wanted.
        subject: String,
        /// The form of the caller's own addresses.
        inbox: String,
    },
}
