//! Two-person approval: proposals, approvals, and the comparison of a request with what was approved.
//!
//! ```text
//! caller:   Proposal  --signed as muster.proposal.v1-->  a file
//! approver: Approval { that file's bytes }  --signed as muster.approval.v1-->  another file
//! caller:   Request { approval: that file's bytes, ... }  -->  nodes
//! node:     open the approval, open the proposal in it, and compare it with the request
//! ```
//!
//! Both are envelopes of [`crate::sign`], each signed over its bytes under its own domain name, so neither can be used as a
//! request or as the other. They are carried as base64url of the envelope.
//!
//! A proposal lists the nodes by name and the inputs in clear text, so that the approver sees what will run. Secret inputs are
//! named and represented by digests. Not in this module: the approver's permission (see `muster-policy`), and single use of
//! an approval (the node records its id in the replay protection, as for requests).

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

/// A proposed request. Unknown fields are refused: an approver must see everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestProposal {
    /// UUID version 7. Each node runs an approved proposal at most once.
    pub id: Uuid,
    /// The caller that will send the request.
    pub caller: Identity,
    /// The collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The target nodes, by name.
    pub nodes: BTreeSet<Identity>,
    /// The inputs.
    pub inputs: ProposalInputs,
    /// Creation time, by the caller's clock.
    pub issued_at: Millis,
    /// Expiry time.
    pub expires_at: Millis,
}

/// The approval of a proposal by a second person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalApproval {
    /// The signed proposal, in base64url.
    pub proposal: String,
    /// The approver's identity.
    pub approver: Identity,
    /// Approval time, by the approver's clock.
    pub approved_at: Millis,
}

/// Decodes the envelope from such a text.
fn decode_envelope(text: &str) -> Result<Vec<u8>, ApprovalError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| ApprovalError::Shape("not base64url"))
}
