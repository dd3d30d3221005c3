//! A request: what a caller signs. Not its envelope (see [`crate::sign`]).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Millis;
use crate::encrypted_inputs::EncryptedInputs;
use crate::filter::NodeFilter;
use crate::identity::{Identity, SubjectName};
use crate::limits;
use crate::trace::TraceContext;
use crate::unique::check_unique_keys;

/// The body of a signed request. Unknown fields are refused: an older node must not ignore what narrows a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// UUID version 7; the same for every node that is asked, unique for ever.
    pub id: Uuid,
    /// Who asks: the name in the caller's token, repeated so that it is signed.
    pub caller: Identity,
    /// The collective that is asked.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The nodes that are meant.
    pub target: RequestTarget,
    /// When the caller signed, in milliseconds since the epoch by its own clock.
    pub issued_at: Millis,
    /// How long after `issued_at` a node may still start, in milliseconds.
    pub ttl: Millis,
    /// How long the caller wants the action to take at most, in milliseconds; the action's own deadline when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Whether the caller wants an answer.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub reply: bool,
    /// Whether the reply shall tell how long each stage took at the node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trace: bool,
    /// The trace that the request is part of, for the node's logs and for programs that it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// Whether the caller wants to hear of progress before the reply. Nodes of versions that do not know it refuse the request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream: bool,
    /// That a second person agrees, where a node demands it: a sealed [`crate::approval::ProposalApproval`] in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The action's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// Inputs that only the nodes themselves may read. Their values are not in `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<EncryptedInputs>,
}

/// Which nodes a request means. There is no way to leave it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestTarget {
    /// Exactly these nodes.
    Nodes(BTreeSet<Identity>),
    /// Every node of the collective that this filter matches.
    Filter(NodeFilter),
}

impl RequestTarget {
    /// The named nodes, or `None` when a filter decides.
    pub fn nodes(&self) -> Option<&BTreeSet<Identity>> {
        match self {
            Self::Nodes(nodes) => Some(nodes),
            Self::Filter(_) => None,
        }
    }
}

/// Why a decoded request is not one.
#[derive(Debug, thiserror::Error)]
pub enum RequestDecodeError {
    /// Not JSON of this shape.
    #[error("the request is not valid JSON of a request")]
    Json(#[source] serde_json::Error),
    /// Names more nodes than allowed, or none.
    #[error("the request names {0} nodes; 1 to {max} are allowed", max = limits::MAX_TARGET_NODES)]
    Targets(usize),
    /// Lives longer than allowed, or not at all.
    #[error("the request's ttl is {0} ms; 1 to {max} are allowed", max = limits::MAX_TTL_MILLIS)]
    Ttl(Millis),
    /// Sealed for nodes that it does not name.
    #[error("the request has inputs that are sealed for nodes it does not name")]
    Sealed,
    /// More is sealed than allowed.
    #[error(
        "the request has {0} bytes of sealed inputs; {max} are allowed, and {inputs} inputs for a node",
        max = limits::MAX_ENCRYPTED_INPUT_BYTES,
        inputs = limits::MAX_ENCRYPTED_INPUTS
    )]
    SealedSize(usize),
    /// Not a version 7 UUID.
    #[error("the request's id {0} is not a version 7 UUID")]
    Id(Uuid),
}

impl Request {
    /// Decodes a body and checks what types cannot say. No object in it may hold a key twice.
    pub fn decode(body: &[u8]) -> Result<Self, RequestDecodeError> {
        check_unique_keys(body).map_err(RequestDecodeError::Json)?;
        let request: Self = serde_json::from_slice(body).map_err(RequestDecodeError::Json)?;
        request.check_limits()?;
        Ok(request)
    }

    fn names_node(&self, node: &Identity) -> bool {
        self.target
            .nodes()
            .is_some_and(|nodes| nodes.contains(node))
    }

    fn check_limits(&self) -> Result<(), RequestDecodeError> {
        if let RequestTarget::Nodes(nodes) = &self.target
            && (nodes.is_empty() || nodes.len() > limits::MAX_TARGET_NODES)
        {
            return Err(RequestDecodeError::Targets(nodes.len()));
        }
        if let Some(sealed) = &self.sealed
            && !sealed.recipient_nodes().all(|node| self.names_node(node))
        {
            return Err(RequestDecodeError::Sealed);
        }
        if let Some(sealed) = &self.sealed
            && !sealed.is_within_limits()
        {
            return Err(RequestDecodeError::SealedSize(sealed.text_bytes()));
        }
        if self.ttl == 0 || self.ttl > limits::MAX_TTL_MILLIS {
            return Err(RequestDecodeError::Ttl(self.ttl));
        }
        if self.id.get_version_num() != 7 {
            return Err(RequestDecodeError::Id(self.id));
        }
        Ok(())
    }
}

fn default_true() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !*value
}
