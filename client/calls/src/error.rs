//! Errors of the client itself, as opposed to errors in replies of nodes.

use std::io;
use std::path::PathBuf;

use muster_bus::BusError;
use muster_files::SecretFileError;
use muster_wire::identity::NameError;
use muster_wire::limits::MAX_REQUEST_BYTES;
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::{TokenError, UserCredentialsError};

/// A result of the client.
pub(crate) type Result<T, E = ClientError> = std::result::Result<T, E>;

/// A client error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A file that the settings name cannot be read.
    #[error("cannot read {content} from {}", path.display())]
    Read {
        /// Description of the content.
        content: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A secret file that cannot be read, or that other users could read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// The credentials file is invalid.
    #[error("the credentials in {} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: UserCredentialsError,
    },
    /// The operator's key or the account's token is invalid.
    #[error("the account token in {} cannot be used", path.display())]
    Trust {
        /// The account token's file.
        path: PathBuf,
        /// The token error.
        #[source]
        source: TokenError,
    },
    /// An invalid name of a caller, agent or action.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A broker error.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The request cannot be signed.
    #[error("the message cannot be signed")]
    Seal(#[from] EnvelopeSignError),
    /// The request would exceed the limit of the broker or of the nodes.
    #[error("the request would have {bytes} bytes; {} at most {limit}", limit_owner(*limit))]
    RequestTooLarge {
        /// The size of the largest message, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The filter does not allow the added condition.
    #[error("the filter cannot be used")]
    Filter(#[from] muster_filter::FilterError),
    /// The caller's token does not grant this action; the broker would reject the request without a reply.
    #[error("your credentials do not permit `{agent} {action}`; they permit {allowed}")]
    NotGranted {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
        /// The granted agents, from `agent` tags.
        allowed: String,
    },
    /// A collective in which the caller may not send requests; the broker would drop them without a reply.
    #[error("collective `{collective}` does not exist for you; yours {} {}", if known.len() == 1 { "is" } else { "are" }, known.join(", "))]
    UnknownCollective {
        /// The collective.
        collective: String,
        /// The caller's collectives.
        known: Vec<String>,
    },
    /// The task of the call is gone because the program is ending.
    #[error("the call was aborted")]
    Unfinished,
    /// Sensitive inputs can be encrypted only for known nodes.
    #[error(
        "{0} must be encrypted for each node, but the nodes of a broadcast are unknown; discover the nodes first"
    )]
    SecretBroadcast(String),
    /// A reply address that the caller cannot read.
    #[error(
        "replies cannot be sent to `{subject}`: use a name of 1 to 64 letters, digits, - and _, or {inbox}"
    )]
    ForeignInbox {
        /// The requested subject.
        subject: String,
        /// Form of the caller's own addresses.
        inbox: String,
    },
}

fn limit_owner(limit: usize) -> &'static str {
    if limit < MAX_REQUEST_BYTES { "the broker accepts messages of" } else { "nodes accept" }
}
