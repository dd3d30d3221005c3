//! What a call puts on the wire: signed messages, and the subjects that each goes to. Sends nothing.
//!
//! Known nodes share a signature in groups: a message names its whole group, so that one signature serves many nodes without
//! every node having to read the whole list. Each node has a reply subject of its own, so that the broker's "nobody listens"
//! names the one who is not there.

use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::request::{Request, Target};
use muster_wire::sealed::{Sealed, Sealer};
use muster_wire::sign::{Kind, SealError, Signer, seal};
use muster_wire::subject::{self, AnswerAddress};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::call::{Aim, Answers, Call};

/// Nodes that share one signature. More would save signatures, and cost every node the reading of longer lists.
const GROUP: usize = 64;

/// Bytes of one message that may be sealed inputs: well below what a request may have.
const SEALED_BYTES: usize = 512 * 1024;

/// One signed message, and everywhere it is published.
#[derive(Debug, Clone)]
pub struct Letter {
    /// What it says.
    pub request: Request,
    /// It, in its envelope, as it is sent.
    pub sealed: Vec<u8>,
    /// Where it goes.
    pub to: Vec<Destination>,
}

/// One publication of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The subject.
    pub subject: String,
    /// Where the answer shall go; `None` when none is wanted.
    pub reply_to: Option<String>,
    /// The node that is asked; `None` for a broadcast.
    pub node: Option<Identity>,
}

/// The messages of a call with this id, each written and signed when it is taken.
pub fn letters<'a>(
    signer: &'a Signer,
    collective: &'a Name,
    call: &'a Call,
    id: Uuid,
    issued_at: Millis,
) -> impl Iterator<Item = Result<Letter, SealError>> + 'a {
    let answers = match &call.answers {
        Answers::Here => Some(AnswerAddress::of_request(&signer.public().to_string(), &id)),
        Answers::Unwanted => None,
        Answers::Elsewhere(address) => Some(address.clone()),
    };
    aims(call).into_iter().map(move |target| {
        let Call { agent, action, .. } = call;
        let to = match &target {
            Target::Filter(_) => vec![Destination {
                subject: subject::broadcast(collective, agent, action),
                reply_to: answers.as_ref().map(AnswerAddress::of_broadcast),
                node: None,
            }],
            Target::Nodes(nodes) => nodes
                .iter()
                .map(|node| Destination {
                    subject: subject::node(collective, agent, action, node),
                    reply_to: answers.as_ref().map(|answers| answers.of_node(node)),
                    node: Some(node.clone()),
                })
                .collect(),
        };
        let (data, sealed) = inputs(call, id, &target)?;
        let request = Request {
            id,
            caller: signer.identity().clone(),
            collective: collective.clone(),
            agent: agent.clone(),
            action: action.clone(),
            target,
            issued_at,
            ttl: millis(call.ttl).max(1),
            timeout: call.timeout.map(millis),
            reply: call.answers != Answers::Unwanted,
            trace: call.trace,
            traceparent: call.traceparent,
            stream: call.stream,
            approval: call.approval.clone(),
            data,
            sealed,
        };
        let sealed = seal(Kind::Request, &request, signer)?;
        Ok(Letter {
            request,
            sealed,
            to,
        })
    })
}

/// Whom each message means.
fn aims(call: &Call) -> Vec<Target> {
    let together = together(call);
    match &call.aim {
        Aim::Filter(filter) => vec![Target::Filter(filter.clone())],
        Aim::Nodes(nodes) => {
            let nodes: Vec<&Identity> = nodes.iter().collect();
            let group = |group: &[&Identity]| {
                Target::Nodes(group.iter().map(|node| (*node).clone()).collect())
            };
            nodes.chunks(together).map(group).collect()
        }
    }
}

/// The inputs in clear, and those that are sealed for each of the nodes.
fn inputs(
    call: &Call,
    id: Uuid,
    target: &Target,
) -> Result<(Map<String, Value>, Option<Sealed>), SealError> {
    let is_secret = |name: &String| call.sensitive.contains(name);
    let Some(nodes) = target.nodes().filter(|_| call.data.keys().any(is_secret)) else {
        return Ok((call.data.clone(), None));
    };
    let inputs = call.data.clone().into_iter();
    let (secret, clear): (Map<_, _>, _) = inputs.partition(|(name, _)| is_secret(name));
    let keys = nodes
        .iter()
        .filter_map(|node| Some((node, call.keys.get(node)?)));
    let sealed = Sealer::new(id)?.seal(keys, &secret)?;
    Ok((clear, Some(sealed)))
}

/// How many nodes share a message: fewer when each has much that is sealed for it alone.
fn together(call: &Call) -> usize {
    let secret = |name: &String| call.data.get(name).map(|value| value.to_string().len());
    let bytes: usize = call.sensitive.iter().filter_map(secret).sum();
    // Base64, and names.
    let each = 2 * bytes + 512;
    (SEALED_BYTES / each).clamp(1, GROUP)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
