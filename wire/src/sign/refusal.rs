//! Why a message is refused.

use uuid::Uuid;

use crate::identity::Identity;
use crate::progress::ProgressDecodeError;
use crate::reply::ReplyDecodeError;
use crate::request::RequestDecodeError;
use crate::token::{TokenError, UserRole};

/// Why a message is refused. [`MessageRefusal::reason_code`] is what counters and the audit log call it.
#[derive(Debug, thiserror::Error)]
pub enum MessageRefusal {
    /// Larger than the limit; not even looked at.
    #[error("the message is {length} bytes long, more than {limit}")]
    Oversized {
        /// Bytes given.
        length: usize,
        /// Bytes accepted.
        limit: usize,
    },
    /// Not an envelope.
    #[error("the message is not a signed envelope")]
    Malformed(#[source] serde_json::Error),
    /// An envelope of another protocol, or of another version.
    #[error("the message is of protocol `{found}`, but `{expected}` is needed")]
    Protocol {
        /// What is needed.
        expected: &'static str,
        /// What was found, shortened.
        found: String,
    },
    /// The sender's token is not believed.
    #[error("the sender's token is refused")]
    Token(#[from] TokenError),
    /// The signature is not the sender's, or the body was changed.
    #[error("the message's signature does not verify against the key in the sender's token")]
    Signature,
    /// The sender is authentic, but may not say such a thing.
    #[error("{sender} has the role {role}, which may not send this")]
    WrongRole {
        /// Who sent it.
        sender: Identity,
        /// Its role.
        role: UserRole,
    },
    /// The sender signed a request that is none.
    #[error("{sender} signed a request that is not valid")]
    Request {
        /// Who signed it.
        sender: Identity,
        /// What is wrong with it.
        #[source]
        source: RequestDecodeError,
    },
    /// The sender signed a reply that is none.
    #[error("{sender} signed a reply that is not valid")]
    Reply {
        /// Who signed it.
        sender: Identity,
        /// What is wrong with it.
        #[source]
        source: ReplyDecodeError,
    },
    /// The sender signed a progress message that is none.
    #[error("{sender} signed a progress message that is not valid")]
    Progress {
        /// Who signed it.
        sender: Identity,
        /// What is wrong with it.
        #[source]
        source: ProgressDecodeError,
    },
    /// The body names another sender than the token.
    #[error("the message says it is from {claimed}, but it was signed by {sender}")]
    WrongSender {
        /// Who signed it.
        sender: Identity,
        /// Whom the body names.
        claimed: Identity,
    },
    /// Subject and body disagree: somebody else moved the message.
    #[error("{sender} signed a request whose {field} is not the one in its subject")]
    SubjectMismatch {
        /// Who signed it.
        sender: Identity,
        /// `collective`, `agent`, `action` or `node`.
        field: &'static str,
    },
    /// The answer to something else.
    #[error("{sender} answers request {found}, agent or action other than was asked")]
    OtherRequest {
        /// Who signed it.
        sender: Identity,
        /// Which request it answers.
        found: Uuid,
    },
}

impl MessageRefusal {
    /// A stable word for counters and audit.
    pub fn reason_code(&self) -> &'static str {
        match self {
            Self::Oversized { .. } => "oversized",
            Self::Malformed(_) => "malformed",
            Self::Protocol { .. } => "unknown_protocol",
            Self::Token(token) => token.reason_code(),
            Self::Signature => "bad_signature",
            Self::WrongRole { .. } => "wrong_role",
            Self::Request { .. } => "invalid_request",
            Self::Reply { .. } => "invalid_reply",
            Self::Progress { .. } => "invalid_progress",
            Self::WrongSender { .. } => "wrong_sender",
            Self::SubjectMismatch { .. } => "subject_mismatch",
            Self::OtherRequest { .. } => "other_request",
        }
    }

    /// Who is to blame, when the message's signature was verified. `None`: anybody could have sent it.
    pub fn sender(&self) -> Option<&Identity> {
        match self {
            Self::WrongRole { sender, .. }
            | Self::Request { sender, .. }
            | Self::Reply { sender, .. }
            | Self::Progress { sender, .. }
            | Self::WrongSender { sender, .. }
            | Self::SubjectMismatch { sender, .. }
            | Self::OtherRequest { sender, .. } => Some(sender),
            _ => None,
        }
    }
}
