//! Signed envelopes: the sender's token, the signature, and the body of every message.
//!
//! ```text
//! {"protocol":"muster.request.v1","token":"<user token>","signature":"<base64url>","body":{...}}
//!
//! signature = ed25519( "muster.request.v1" NUL <the bytes of body exactly as sent> )
//! ```
//!
//! The protocol name is part of the signed bytes, so a reply cannot be used as a request. The body is parsed only after its
//! signature was verified, and is never re-encoded.
//!
//! Read in this order: [`sign_envelope`], [`Envelope`], [`verify_envelopes`], [`open_request`], [`open_reply`] and [`open_progress`].

mod batch;
mod batch_verification;
mod envelope;
mod kind;
mod open;
mod refusal;
mod signer;

pub use batch::verify_envelopes;
pub use envelope::{Envelope, OpenEnvelope, encode_envelope};
pub use kind::EnvelopeKind;
pub use open::{
    ExpectedAnswer, OpenRecord, OpenReply, OpenRequest, REPLIER_ROLES, REQUESTER_ROLES, open_event,
    open_heartbeat, open_history, open_progress, open_record, open_replies, open_reply,
    open_request,
};
pub use refusal::MessageRefusal;
pub use signer::{EnvelopeSignError, Signer, SignerRenewError, sign_envelope};
