//! The envelope around requests and replies: who says it, and the proof.
//!
//! ```text
//! {"protocol":"muster.request.v1","token":"<user token>","signature":"<base64url>","body":{...}}
//!
//! signature = ed25519( "muster.request.v1" NUL <the bytes of body exactly as sent> )
//! ```
//!
//! The protocol's name is part of what is signed, so a reply can never be taken for a request. The body is never
//! parsed before its signature holds, and never encoded again.
//!
//! Read in this order: [`seal`], [`Envelope`], [`verify_many`], [`open_request`], [`open_reply`] and [`open_progress`].

mod batch;
mod envelope;
mod judge;
mod open;
mod refusal;
mod seal;

pub use batch::verify_many;
pub use envelope::{Envelope, Opened};
pub use open::{
    Expected, OpenReply, OpenRequest, REPLIERS, REQUESTERS, open_progress, open_replies,
    open_reply, open_request,
};
pub use refusal::Refusal;
pub use seal::{RenewError, SealError, Signer, seal};

use crate::limits;

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A [`crate::request::Request`].
    Request,
    /// A [`crate::reply::Reply`].
    Reply,
    /// A [`crate::progress::Progress`].
    Progress,
    /// A [`crate::approval::Proposal`].
    Proposal,
    /// A [`crate::approval::Approval`].
    Approval,
    /// A [`crate::bundle::Manifest`].
    Bundle,
    /// A [`crate::enrol::Hello`] with its proof.
    Hello,
    /// A [`crate::enrol::Answer`].
    Welcome,
}

impl Kind {
    /// The name in `protocol`, and the domain of the signature.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::Request => "muster.request.v1",
            Self::Reply => "muster.reply.v1",
            Self::Progress => "muster.progress.v1",
            Self::Proposal => "muster.proposal.v1",
            Self::Approval => "muster.approval.v1",
            Self::Bundle => "muster.bundle.v1",
            Self::Hello => "muster.hello.v1",
            Self::Welcome => "muster.welcome.v1",
        }
    }

    /// The largest envelope, in bytes.
    pub fn limit(self) -> usize {
        match self {
            Self::Request => limits::REQUEST_BYTES,
            Self::Reply => limits::REPLY_BYTES,
            Self::Progress => limits::PROGRESS_BYTES,
            Self::Proposal => limits::PROPOSAL_BYTES,
            Self::Approval => limits::APPROVAL_BYTES,
            Self::Bundle => limits::BUNDLE_MANIFEST_BYTES,
            Self::Hello => limits::HELLO_BYTES,
            Self::Welcome => limits::WELCOME_BYTES,
        }
    }

    /// What comes into an inbox: progress, or, when it does not say so in its first field, a reply. Nothing is believed yet;
    /// whoever opens it as the one or the other finds out.
    pub fn of_answer(bytes: &[u8]) -> Self {
        let head = [
            br#"{"protocol":""#.as_slice(),
            Self::Progress.protocol().as_bytes(),
            b"\"",
        ]
        .concat();
        if bytes.starts_with(&head) {
            Self::Progress
        } else {
            Self::Reply
        }
    }

    /// The bytes before the body in what is signed, with room for a body of this size.
    fn domain(self, body: usize) -> Vec<u8> {
        let protocol = self.protocol().as_bytes();
        let mut domain = Vec::with_capacity(protocol.len() + 1 + body);
        domain.extend_from_slice(protocol);
        domain.push(0);
        domain
    }

    /// What is signed for this body.
    pub fn signed(self, body: &[u8]) -> Vec<u8> {
        let mut signed = self.domain(body.len());
        signed.extend_from_slice(body);
        signed
    }
}
