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
//! Read in this order: [`seal`], [`Envelope`], [`verify_many`], [`open_request`] and [`open_reply`].

mod batch;
mod envelope;
mod open;
mod refusal;
mod seal;

pub use batch::verify_many;
pub use envelope::{Envelope, Opened};
pub use open::{
    Expected, OpenReply, OpenRequest, REPLIERS, REQUESTERS, open_replies, open_reply, open_request,
};
pub use refusal::Refusal;
pub use seal::{SealError, Signer, seal};

use crate::limits;

/// What an envelope holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A [`crate::request::Request`].
    Request,
    /// A [`crate::reply::Reply`].
    Reply,
}

impl Kind {
    /// The name in `protocol`, and the domain of the signature.
    pub fn protocol(self) -> &'static str {
        match self {
            Self::Request => "muster.request.v1",
            Self::Reply => "muster.reply.v1",
        }
    }

    /// The largest envelope, in bytes.
    pub fn limit(self) -> usize {
        match self {
            Self::Request => limits::REQUEST_BYTES,
            Self::Reply => limits::REPLY_BYTES,
        }
    }

    /// The bytes before the body in what is signed.
    fn domain(self) -> Vec<u8> {
        let mut domain = self.protocol().as_bytes().to_vec();
        domain.push(0);
        domain
    }

    /// What is signed for this body.
    fn signed(self, body: &[u8]) -> Vec<u8> {
        let mut signed = self.domain();
        signed.extend_from_slice(body);
        signed
    }
}
