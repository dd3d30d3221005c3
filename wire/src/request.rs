//! Requests, signed by a caller. The envelope is in [`crate::sign`].

use std::collections::BTreeSet;
use std::time::Duration;

use muster_base::format_millis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::Millis;
use crate::encrypted_inputs::EncryptedInputs;
use crate::identity::{Identity, SubjectName};
use crate::limits;
use crate::trace::TraceContext;
use crate::unique::check_unique_keys;
pub use muster_filter::NodeFilter;

/// How long after the time limit of an action its node may still reply, so that the action gets the whole time: programs are stopped, and their output
/// is collected. Callers wait for this time in addition.
pub const REPLY_GRACE: Duration = Duration::from_secs(3);

/// Separates the ids of work from other digests.
const WORK_ID_DOMAIN: &[u8] = b"muster work\0";

/// The id under which a node keeps the work of a request. Senders choose the ids of their requests, and can learn those of others; this id depends on the
/// sender's key besides, so that no request replaces the entries or files of another sender's request. `sender_key` is the key's text.
pub fn work_id(sender_key: &str, request: Uuid) -> Uuid {
    let mut digest = Sha256::new();
    for part in [WORK_ID_DOMAIN, request.as_bytes(), sender_key.as_bytes()] {
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    let (bytes, _) = digest.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    uuid::Builder::from_custom_bytes(*bytes).into_uuid()
}

/// The body of a signed request. Unknown fields are refused: an older node must not ignore a field that restricts a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// UUID version 7: globally unique, and the same for all target nodes.
    pub id: Uuid,
    /// The name in the caller's token, repeated here because the body is signed.
    pub caller: Identity,
    /// The target collective.
    pub collective: SubjectName,
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The target nodes.
    pub target: RequestTarget,
    /// What each listed node must match besides: the condition for which it was chosen. The node evaluates it itself and refuses the request if it does not
    /// match, so that a discovery source cannot add other nodes. Empty if the target is a filter. Nodes of versions without this field refuse the
    /// request.
    #[serde(default, skip_serializing_if = "NodeFilter::is_empty")]
    pub filter: NodeFilter,
    /// The caller's clock at signing, in milliseconds since the epoch.
    pub issued_at: Millis,
    /// How long after `issued_at` a node may still start the action, in milliseconds.
    pub ttl: Millis,
    /// Longest run time that the caller allows, in milliseconds; if absent, the action's own timeout applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// Whether nodes send a reply.
    #[serde(default = "default_true", skip_serializing_if = "is_true")]
    pub reply: bool,
    /// Whether the reply includes the duration of each pipeline stage on the node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
    /// The trace context of the request, for the node's logs and for programs that the action starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceContext>,
    /// Whether nodes send progress messages before the reply. Nodes of versions without this field refuse the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// The second person's approval, if the node's policy requires one: a signed [`crate::approval::ProposalApproval`] in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The schedule that the request is sent for, if its sender is a scheduler. The request is then decided as one of the schedule's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<RequestGrant>,
    /// The action's inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// Encrypted inputs that only the target nodes can decrypt. Their values are not in `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<EncryptedInputs>,
}

/// Selects the target nodes of a request. It is mandatory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestTarget {
    /// Exactly these nodes.
    Nodes(BTreeSet<Identity>),
    /// Every node of the collective that this filter matches.
    Filter(NodeFilter),
}

impl RequestTarget {
    /// The listed nodes, or `None` for a filter.
    pub fn nodes(&self) -> Option<&BTreeSet<Identity>> {
        match self {
            Self::Nodes(nodes) => Some(nodes),
            Self::Filter(_) => None,
        }
    }
}

/// Decode errors of requests.
#[derive(Debug, thiserror::Error)]
pub enum RequestDecodeError {
    /// The body is not valid JSON of this type.
    #[error("the body is not the JSON of a request")]
    Json(#[source] serde_json::Error),
    /// Lists no nodes, or more than allowed.
    #[error("the request lists {0} nodes; 1 to {max} are allowed", max = limits::MAX_TARGET_NODES)]
    Targets(usize),
    /// The time to live is zero or above the limit.
    #[error("the request's ttl is {}; 1 ms to {} are allowed", format_millis(*.0), format_millis(limits::MAX_TTL_MILLIS))]
    Ttl(Millis),
    /// Has encrypted inputs for nodes that it does not list.
    #[error("the request has inputs encrypted for nodes that it does not list")]
    EncryptedInputNodes,
    /// The encrypted inputs exceed the limits.
    #[error(
        "the request has {0} bytes of encrypted inputs; at most {max} bytes, and {inputs} inputs per node, are allowed",
        max = limits::MAX_ENCRYPTED_INPUT_BYTES,
        inputs = limits::MAX_ENCRYPTED_INPUTS
    )]
    EncryptedInputsSize(usize),
    /// Both the target and the condition are filters.
    #[error("the request has two filters: the target, and the one that belongs to a list of nodes")]
    TwoFilters,
    /// Not a version 7 UUID.
    #[error("the request's id {0} is not a version 7 UUID")]
    Id(Uuid),
}

/// The grant in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestGrant {
    /// The signed [`ScheduleGrant`](crate::schedule_grant::ScheduleGrant), in base64url.
    pub text: String,
    /// The time in the schedule that the request is for.
    pub slot: Millis,
}

impl Request {
    /// Decodes and validates a body. Duplicate keys in any object are refused.
    pub fn decode(body: &[u8]) -> Result<Self, RequestDecodeError> {
        check_unique_keys(body).map_err(RequestDecodeError::Json)?;
        let request: Self = serde_json::from_slice(body).map_err(RequestDecodeError::Json)?;
        request.check_limits()?;
        Ok(request)
    }

    /// What a node must match: the target, or the condition beside the list of nodes.
    pub fn node_filter(&self) -> &NodeFilter {
        match &self.target {
            RequestTarget::Nodes(_) => &self.filter,
            RequestTarget::Filter(filter) => filter,
        }
    }

    fn names_node(&self, node: &Identity) -> bool {
        self.target.nodes().is_some_and(|nodes| nodes.contains(node))
    }

    fn check_limits(&self) -> Result<(), RequestDecodeError> {
        if let RequestTarget::Nodes(nodes) = &self.target
            && (nodes.is_empty() || nodes.len() > limits::MAX_TARGET_NODES)
        {
            return Err(RequestDecodeError::Targets(nodes.len()));
        }
        if matches!(self.target, RequestTarget::Filter(_)) && !self.filter.is_empty() {
            return Err(RequestDecodeError::TwoFilters);
        }
        if let Some(sealed) = &self.sealed
            && !sealed.recipient_nodes().all(|node| self.names_node(node))
        {
            return Err(RequestDecodeError::EncryptedInputNodes);
        }
        if let Some(sealed) = &self.sealed
            && !sealed.is_within_limits()
        {
            return Err(RequestDecodeError::EncryptedInputsSize(sealed.text_bytes()));
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_true(value: &bool) -> bool {
    *value
}
