//! The second person: what somebody wants to ask, what another has approved, and whether a request is just that.
//!
//! ```text
//! caller:   Proposal  --sealed as muster.proposal.v1-->  a file
//! approver: Approval { that file's bytes }  --sealed as muster.approval.v1-->  another file
//! caller:   Request { approval: that file's bytes, ... }  -->  nodes
//! node:     open the approval, open the proposal in it, and compare it with the request
//! ```
//!
//! Both are envelopes of [`crate::sign`], signed over their bytes as sent under names of their own: neither can be taken for a
//! request, nor for each other. They are carried as base64url of the envelope.
//!
//! A proposal names the nodes one by one, and the inputs in clear, for the approver to see what will be done. Inputs that are
//! secret are named, and stand as digests. Not here: who may approve (see [`crate::policy`]), and that an approval is used once
//! (the node remembers its id as it remembers requests).

mod inputs;
mod open;

pub use inputs::ProposalInputs;
pub use open::{ApprovalError, ApprovedProposal, OpenProposal, open_approval, open_proposal};

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Millis;
use crate::identity::{Identity, SubjectName};

/// What a caller wants to ask. Unknown fields are refused: an approver must see everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestProposal {
    /// UUID version 7. What is approved under it is done at most once on each node.
    pub id: Uuid,
    /// Who wants to ask.
    pub caller: Identity,
    /// The collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The nodes, each by its name.
    pub nodes: BTreeSet<Identity>,
    /// The inputs.
    pub inputs: ProposalInputs,
    /// When it was made, by the caller's clock.
    pub issued_at: Millis,
    /// After this nobody may ask it any more.
    pub expires_at: Millis,
}

/// That somebody else agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalApproval {
    /// The sealed proposal, in base64url.
    pub proposal: String,
    /// Who agrees.
    pub approver: Identity,
    /// When, by the approver's clock.
    pub approved_at: Millis,
}

/// An envelope as text that can be a field of another message.
pub fn encode_envelope(envelope: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(envelope)
}

/// The envelope in such a text.
fn decode_envelope(text: &str) -> Result<Vec<u8>, ApprovalError> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| ApprovalError::Shape("it is not base64url"))
}
