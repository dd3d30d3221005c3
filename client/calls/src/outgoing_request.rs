//! Builds the signed messages of a call and the subjects to which each is published. Sends nothing.
//!
//! Known nodes share a signature in groups: a message names its whole group, so one signature serves many nodes, and no node has to read the whole
//! list. Each node has a reply subject of its own, so that a "no responders" status of the broker identifies the absent node.

use std::cmp::Reverse;

use muster_base::duration_millis;
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::encrypted_inputs::{EncryptedInputs, InputEncryptor};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, Signer, sign_envelope};
use muster_wire::subject::{self, AnswerAddress};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::{CallTarget, ReplyDelivery, RpcCall};

/// Maximum nodes per signature. A larger group would save signatures, but every node would have to read a longer list.
const MAX_NODES_PER_SIGNATURE: usize = 64;

/// Maximum bytes of sealed inputs per message: well below the size limit of a request.
const MAX_SEALED_BYTES: usize = 512 * 1024;

/// One signed message, and all its publications.
#[derive(Debug, Clone)]
pub struct OutgoingRequest {
    /// The request.
    pub request: Request,
    /// The request in its signed envelope, as sent.
    pub sealed: Vec<u8>,
    /// The publications of this message.
    pub to: Vec<RequestPublication>,
}

/// One publication of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPublication {
    /// The subject.
    pub subject: String,
    /// The reply subject; `None` when no reply is wanted.
    pub reply_to: Option<String>,
    /// The target node; `None` for a broadcast.
    pub node: Option<Identity>,
}

/// Builds the messages of one call.
#[derive(Debug, Clone)]
pub(crate) struct RequestBuilder<'a> {
    signer: &'a Signer,
    collective: &'a SubjectName,
    call: &'a RpcCall,
    id: Uuid,
    /// `None` when no reply is wanted.
    reply_address: Option<AnswerAddress>,
}

impl<'a> RequestBuilder<'a> {
    pub(crate) fn new(
        signer: &'a Signer,
        collective: &'a SubjectName,
        call: &'a RpcCall,
        id: Uuid,
    ) -> Self {
        let reply_address = match &call.reply_delivery {
            ReplyDelivery::Here => {
                Some(AnswerAddress::of_request(&signer.public_key().to_string(), &id))
            }
            ReplyDelivery::Unwanted => None,
            ReplyDelivery::Elsewhere(address) => Some(address.clone()),
        };
        Self { signer, collective, call, id, reply_address }
    }

    /// Encodes and signs the message for this target. Its time to live begins at `issued_at`.
    pub(crate) fn sign_request(
        &self,
        target: RequestTarget,
        issued_at: Millis,
    ) -> Result<OutgoingRequest, EnvelopeSignError> {
        let RpcCall { agent, action, .. } = self.call;
        let to = self.publications(&target);
        let (data, sealed) = split_inputs(self.call, self.id, &target)?;
        let request = Request {
            id: self.id,
            caller: self.signer.identity().clone(),
            collective: self.collective.clone(),
            agent: agent.clone(),
            action: action.clone(),
            filter: self.node_filter(&target),
            target,
            issued_at,
            ttl: duration_millis(self.call.ttl).max(1),
            timeout: self.call.timeout.map(duration_millis),
            reply: self.call.reply_delivery != ReplyDelivery::Unwanted,
            trace: self.call.trace,
            traceparent: self.call.traceparent,
            stream: self.call.stream,
            approval: self.call.approval.clone(),
            grant: self.call.grant.clone(),
            data,
            sealed,
        };
        let sealed = sign_envelope(EnvelopeKind::Request, &request, self.signer)?;
        Ok(OutgoingRequest { request, sealed, to })
    }

    /// The condition beside a list of nodes.
    fn node_filter(&self, target: &RequestTarget) -> NodeFilter {
        match target {
            RequestTarget::Nodes(_) => self.call.filter.clone(),
            RequestTarget::Filter(_) => NodeFilter::default(),
        }
    }

    fn publications(&self, target: &RequestTarget) -> Vec<RequestPublication> {
        let (collective, RpcCall { agent, action, .. }) = (self.collective, self.call);
        let reply_address = self.reply_address.as_ref();
        match target {
            RequestTarget::Filter(_) => vec![RequestPublication {
                subject: match self.call.target {
                    CallTarget::AnyInstance => subject::service_request(collective, agent, action),
                    _ => subject::broadcast_request(collective, agent, action),
                },
                reply_to: reply_address.map(AnswerAddress::of_broadcast),
                node: None,
            }],
            RequestTarget::Nodes(nodes) => nodes
                .iter()
                .map(|node| RequestPublication {
                    subject: subject::node_request(collective, agent, action, node),
                    reply_to: reply_address.map(|address| address.of_node(node)),
                    node: Some(node.clone()),
                })
                .collect(),
        }
    }
}

/// The messages of the call with this id. Each is encoded and signed lazily, when the iterator yields it, and is valid from then on by `clock`.
pub fn outgoing_requests<'a>(
    signer: &'a Signer,
    collective: &'a SubjectName,
    call: &'a RpcCall,
    id: Uuid,
    clock: impl Fn() -> Millis + 'a,
) -> impl Iterator<Item = Result<OutgoingRequest, EnvelopeSignError>> + 'a {
    let builder = RequestBuilder::new(signer, collective, call, id);
    request_targets(call).into_iter().map(move |target| builder.sign_request(target, clock()))
}

/// The size in bytes of the largest message of a call, which names as many of the longest names of nodes as a message can. Sealed inputs are estimated,
/// because the keys of nodes may still be unknown.
pub(crate) fn largest_message(
    signer: &Signer,
    collective: &SubjectName,
    call: &RpcCall,
) -> Result<usize, EnvelopeSignError> {
    let CallTarget::Nodes(nodes) = &call.target else {
        return Ok(0);
    };
    let mut names: Vec<&Identity> = nodes.iter().collect();
    names.sort_by_key(|name| Reverse(name.as_str().len()));
    names.truncate(nodes_per_request(call));
    let (mut sample, count) = (call.clone(), names.len());
    sample.target = CallTarget::Nodes(names.into_iter().cloned().collect());
    sample.data.retain(|name, _| !call.sensitive.contains(name));
    let sizes = outgoing_requests(signer, collective, &sample, Uuid::nil(), || 0)
        .map(|message| message.map(|message| message.sealed.len()));
    let largest = sizes.collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(0);
    Ok(largest + count * sealed_bytes_per_node(call))
}

/// The targets of each message.
fn request_targets(call: &RpcCall) -> Vec<RequestTarget> {
    match &call.target {
        CallTarget::Filter(filter) => vec![RequestTarget::Filter(filter.clone())],
        CallTarget::AnyInstance => vec![RequestTarget::Filter(NodeFilter::default())],
        CallTarget::Nodes(nodes) => {
            let nodes: Vec<&Identity> = nodes.iter().collect();
            let to_set = |group: &[&Identity]| group.iter().map(|&node| node.clone()).collect();
            let groups = nodes.chunks(nodes_per_request(call)).map(to_set);
            groups.map(RequestTarget::Nodes).collect()
        }
    }
}

/// Splits the inputs into plain ones and those that are sealed for each node.
fn split_inputs(
    call: &RpcCall,
    id: Uuid,
    target: &RequestTarget,
) -> Result<(Map<String, Value>, Option<EncryptedInputs>), EnvelopeSignError> {
    let is_secret = |name: &String| call.sensitive.contains(name);
    let Some(nodes) = target.nodes().filter(|_| call.data.keys().any(is_secret)) else {
        return Ok((call.data.clone(), None));
    };
    let inputs = call.data.clone().into_iter();
    let (secret, plain): (Map<_, _>, _) = inputs.partition(|(name, _)| is_secret(name));
    let keys = nodes.iter().filter_map(|node| Some((node, call.keys.get(node)?)));
    let sealed = InputEncryptor::new(id)?.encrypt_inputs(keys, &secret)?;
    Ok((plain, Some(sealed)))
}

/// Number of nodes per message: fewer when each node has large sealed inputs of its own.
pub(crate) fn nodes_per_request(call: &RpcCall) -> usize {
    // Twice the bytes for the base64 expansion, and names.
    let bytes_per_node = 2 * sensitive_bytes(call) + 512;
    (MAX_SEALED_BYTES / bytes_per_node).clamp(1, MAX_NODES_PER_SIGNATURE)
}

/// Bytes of the sensitive inputs, as JSON.
fn sensitive_bytes(call: &RpcCall) -> usize {
    let value_length = |name: &String| call.data.get(name).map(|value| value.to_string().len());
    call.sensitive.iter().filter_map(value_length).sum()
}

/// Estimated bytes of the sealed inputs for one node: base64, a nonce and a key.
fn sealed_bytes_per_node(call: &RpcCall) -> usize {
    let bytes = sensitive_bytes(call);
    if bytes == 0 { 0 } else { bytes * 4 / 3 + 128 }
}
