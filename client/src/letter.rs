//! What a call puts on the wire: signed messages, and the subjects that each goes to. Sends nothing.
//!
//! Known nodes share a signature in groups: a message names its whole group, so that one signature serves many nodes without
//! every node having to read the whole list. Each node has a reply subject of its own, so that the broker's "nobody listens"
//! names the one who is not there.

use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::{Identity, Name};
use muster_wire::request::{Request, Target};
use muster_wire::sign::{Kind, SealError, Signer, seal};
use muster_wire::subject;
use uuid::Uuid;

use crate::call::{Aim, Answers, Call};

/// Nodes that share one signature. More would save signatures, and cost every node the reading of longer lists.
const GROUP: usize = 64;

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
    let inbox = subject::inbox(&signer.public().to_string(), &id);
    let reply_to = move |which: &dyn std::fmt::Display| match &call.answers {
        Answers::Here => Some(format!("{inbox}.{which}")),
        Answers::Unwanted => None,
        Answers::Elsewhere(subject) => Some(subject.clone()),
    };
    aims(&call.aim).into_iter().map(move |(first, target)| {
        let Call { agent, action, .. } = call;
        let to = match &target {
            Target::Filter(_) => vec![Destination {
                subject: subject::broadcast(collective, agent, action),
                reply_to: reply_to(&"all"),
                node: None,
            }],
            Target::Nodes(nodes) => (first..)
                .zip(nodes)
                .map(|(number, node)| Destination {
                    subject: subject::node(collective, agent, action, node),
                    reply_to: reply_to(&number),
                    node: Some(node.clone()),
                })
                .collect(),
        };
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
            data: call.data.clone(),
        };
        let sealed = seal(Kind::Request, &request, signer)?;
        Ok(Letter {
            request,
            sealed,
            to,
        })
    })
}

/// Whom each message means, and the number of the first node in it.
fn aims(aim: &Aim) -> Vec<(usize, Target)> {
    match aim {
        Aim::Filter(filter) => vec![(0, Target::Filter(filter.clone()))],
        Aim::Nodes(nodes) => {
            let nodes: Vec<&Identity> = nodes.iter().collect();
            let groups = nodes.chunks(GROUP).enumerate();
            let group = |(number, group): (usize, &[&Identity])| {
                let names = group.iter().map(|node| (*node).clone()).collect();
                (number * GROUP, Target::Nodes(names))
            };
            groups.map(group).collect()
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
