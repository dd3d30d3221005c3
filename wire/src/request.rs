//! A request: what a caller signs. Not its envelope (see [`crate::sign`]).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Millis;
use crate::filter::Filter;
use crate::identity::{Identity, Name};
use crate::limits;
use crate::sealed::Sealed;
use crate::trace::Traceparent;
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
    pub collective: Name,
    /// The agent.
    pub agent: Name,
    /// The action.
    pub action: Name,
    /// The nodes that are meant.
    pub target: Target,
    /// When the caller signed, in milliseconds since the epoch by its own clock.
    pub issued_at: Millis,
    /// How long after `issued_at` a node may still start, in milliseconds.
    pub ttl: Millis,
    /// How long the caller wants the action to take at most, in milliseconds; the action's own deadline when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Whether the caller wants an answer.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub reply: bool,
    /// Whether the reply shall tell how long each stage took at the node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trace: bool,
    /// The trace that the request is part of, for the node's logs and for programs that it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Traceparent>,
    /// Whether the caller wants to hear of progress before the reply. Nodes of versions that do not know it refuse the request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream: bool,
    /// That a second person agrees, where a node demands it: a sealed [`crate::approval::Approval`] in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The action's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// Inputs that only the nodes themselves may read. Their values are not in `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// Which nodes a request means. There is no way to leave it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// Exactly these nodes.
    Nodes(BTreeSet<Identity>),
    /// Every node of the collective that this filter matches.
    Filter(Filter),
}

impl Target {
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
pub enum RequestError {
    /// Not JSON of this shape.
    #[error("the request is not valid JSON of a request")]
    Json(#[source] serde_json::Error),
    /// Names more nodes than allowed, or none.
    #[error("the request names {0} nodes; 1 to {max} are allowed", max = limits::TARGETS)]
    Targets(usize),
    /// Lives longer than allowed, or not at all.
    #[error("the request's ttl is {0} ms; 1 to {max} are allowed", max = limits::TTL_MILLIS)]
    Ttl(Millis),
    /// Sealed for nodes that it does not name.
    #[error("the request has inputs that are sealed for nodes it does not name")]
    Sealed,
    /// More is sealed than allowed.
    #[error(
        "the request has {0} bytes of sealed inputs; {max} are allowed, and {inputs} inputs for a node",
        max = limits::SEALED_BYTES,
        inputs = limits::SEALED_INPUTS
    )]
    SealedSize(usize),
    /// Not a version 7 UUID.
    #[error("the request's id {0} is not a version 7 UUID")]
    Id(Uuid),
}

impl Request {
    /// Decodes a body and checks what types cannot say. No object in it may hold a key twice.
    pub fn decode(body: &[u8]) -> Result<Self, RequestError> {
        check_unique_keys(body).map_err(RequestError::Json)?;
        let request: Self = serde_json::from_slice(body).map_err(RequestError::Json)?;
        request.check()?;
        Ok(request)
    }

    fn names(&self, node: &Identity) -> bool {
        self.target
            .nodes()
            .is_some_and(|nodes| nodes.contains(node))
    }

    fn check(&self) -> Result<(), RequestError> {
        if let Target::Nodes(nodes) = &self.target
            && (nodes.is_empty() || nodes.len() > limits::TARGETS)
        {
            return Err(RequestError::Targets(nodes.len()));
        }
        if let Some(sealed) = &self.sealed
            && !sealed.nodes().all(|node| self.names(node))
        {
            return Err(RequestError::Sealed);
        }
        if let Some(sealed) = &self.sealed
            && !sealed.fits()
        {
            return Err(RequestError::SealedSize(sealed.bytes()));
        }
        if self.ttl == 0 || self.ttl > limits::TTL_MILLIS {
            return Err(RequestError::Ttl(self.ttl));
        }
        if self.id.get_version_num() != 7 {
            return Err(RequestError::Id(self.id));
        }
        Ok(())
    }
}

fn yes() -> bool {
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
