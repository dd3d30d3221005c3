//! Reasons to refuse a message.

use uuid::Uuid;

use crate::event::EventDecodeError;
use crate::identity::Identity;
use crate::progress::ProgressDecodeError;
use crate::reply::ReplyDecodeError;
use crate::request::RequestDecodeError;
use crate::token::{TokenError, UserRole};

/// A result of opening a message.
pub(crate) type Result<T, E = MessageRefusal> = std::result::Result<T, E>;

/// Why a message is refused. [`MessageRefusal::reason_code`] is the name in counters and in the audit log.
#[derive(Debug, thiserror::Error)]
pub enum MessageRefusal {
    /// The message exceeds the size limit; it was not parsed.
    #[error("the message has {length} bytes; at most {limit} are allowed")]
    Oversized {
        /// Size in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Not an envelope.
    #[error("the message is not a signed envelope")]
    Malformed(#[source] serde_json::Error),
    /// An envelope of another protocol or version.
    #[error("the message has the protocol `{found}`; expected `{expected}`")]
    Protocol {
        /// The expected protocol.
        expected: &'static str,
        /// The received protocol, truncated.
        found: String,
    },
    /// The sender's token failed verification.
    #[error("the sender's token is refused")]
    Token(#[from] TokenError),
    /// The signature is invalid, or the body was modified.
    #[error("the message's signature does not verify against the key in the sender's token")]
    Signature,
    /// The sender's role does not permit this kind of message.
    #[error("{sender} has the role {role}, which does not permit messages of this kind")]
    WrongRole {
        /// The sender.
        sender: Identity,
        /// The sender's role.
        role: UserRole,
    },
    /// The signed request is invalid.
    #[error("{sender} signed an invalid request")]
    Request {
        /// The signer.
        sender: Identity,
        /// The decode error.
        #[source]
        source: RequestDecodeError,
    },
    /// The signed reply is invalid.
    #[error("{sender} signed an invalid reply")]
    Reply {
        /// The signer.
        sender: Identity,
        /// The decode error.
        #[source]
        source: ReplyDecodeError,
    },
    /// The signed progress message is invalid.
    #[error("{sender} signed an invalid progress message")]
    Progress {
        /// The signer.
        sender: Identity,
        /// The decode error.
        #[source]
        source: ProgressDecodeError,
    },
    /// The signed event is invalid.
    #[error("{sender} signed an invalid event")]
    Event {
        /// The signer.
        sender: Identity,
        /// The decode error.
        #[source]
        source: EventDecodeError,
    },
    /// The body names another sender than the token.
    #[error("the message specifies the sender {claimed}, but {sender} signed it")]
    WrongSender {
        /// The signer.
        sender: Identity,
        /// The sender in the body.
        claimed: Identity,
    },
    /// Subject and body differ: the message was republished on another subject.
    #[error("{sender} signed a request whose {field} differs from the one in its subject")]
    SubjectMismatch {
        /// The signer.
        sender: Identity,
        /// `collective`, `agent`, `action` or `node`.
        field: &'static str,
    },
    /// The reply belongs to another request.
    #[error("{sender} replied to another request, agent or action (request {found})")]
    OtherRequest {
        /// The signer.
        sender: Identity,
        /// The request id in the reply.
        found: Uuid,
    },
}

impl MessageRefusal {
    /// A stable identifier for counters and audit.
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
            Self::Event { .. } => "invalid_event",
            Self::WrongSender { .. } => "wrong_sender",
            Self::SubjectMismatch { .. } => "subject_mismatch",
            Self::OtherRequest { .. } => "other_request",
        }
    }

    /// The sender, if the message's signature was verified. `None`: the origin is unknown.
    pub fn sender(&self) -> Option<&Identity> {
        match self {
            Self::WrongRole { sender, .. }
            | Self::Request { sender, .. }
            | Self::Reply { sender, .. }
            | Self::Progress { sender, .. }
            | Self::Event { sender, .. }
            | Self::WrongSender { sender, .. }
            | Self::SubjectMismatch { sender, .. }
            | Self::OtherRequest { sender, .. } => Some(sender),
            _ => None,
        }
    }
}
