//! What is asked, of whom, and for how long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_wire::filter::NodeFilter;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::subject::AnswerAddress;
use muster_wire::token::PublicKey;
use muster_wire::trace::TraceContext;
use serde_json::{Map, Value};

/// Whom a call means.
#[derive(Debug, Clone, PartialEq)]
pub enum CallTarget {
    /// These nodes. The call ends when all of them have answered.
    Nodes(BTreeSet<Identity>),
    /// Whoever matches. Nobody knows how many that are: a sliding window ends the call, unless [`RpcCall::expect`] is set.
    Filter(NodeFilter),
}

/// Whether answers are wanted, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReplyDelivery {
    /// Here, on the call's own inbox.
    #[default]
    Here,
    /// Nobody wants any: nodes are told not to answer, and the call ends when the broker has taken the question.
    Unwanted,
    /// At this address of the caller's own, where another process of the same caller listens. The call ends when the broker has taken
    /// the question.
    Elsewhere(AnswerAddress),
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcCall {
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The inputs, validated against the DDL by whoever has it.
    pub data: Map<String, Value>,
    /// Whom it means.
    pub aim: CallTarget,
    /// How long the action may take on a node; the action's own deadline when absent.
    pub timeout: Option<Duration>,
    /// How long to wait for answers at most. Should exceed `timeout`. Where nobody knows how many there are: for the first; while they
    /// keep coming, waiting goes on as long as [`Window::most`](crate::DiscoveryWindow::most) at least.
    pub wait: Duration,
    /// How long a node may take until it begins.
    pub ttl: Duration,
    /// Whether nodes are to tell of progress before they answer. Nodes of versions that do not know it refuse the call.
    pub stream: bool,
    /// End after this many answers, whoever else could answer.
    pub expect: Option<usize>,
    /// Whether answers are wanted, and where.
    pub answers: ReplyDelivery,
    /// Whether nodes shall tell how long each of their stages took.
    pub trace: bool,
    /// The trace that the call is part of.
    pub traceparent: Option<TraceContext>,
    /// That a second person agrees, for nodes that demand it: see [`crate::OfflineSigner::read_approval`].
    pub approval: Option<String>,
    /// Names of inputs in `data` that only the nodes may read: they travel sealed for each node. Needs [`CallTarget::Nodes`].
    pub sensitive: BTreeSet<String>,
    /// Keys of nodes, to seal for them; those that a client does not know it finds out by itself.
    pub keys: BTreeMap<Identity, PublicKey>,
}

impl RpcCall {
    /// A call with a ttl of 60 s that waits 30 s.
    pub fn new(agent: &str, action: &str, aim: CallTarget) -> Result<Self, NameError> {
        Ok(Self {
            agent: SubjectName::parse(agent)?,
            action: SubjectName::parse(action)?,
            data: Map::new(),
            aim,
            timeout: None,
            wait: Duration::from_secs(30),
            ttl: Duration::from_mins(1),
            stream: false,
            expect: None,
            answers: ReplyDelivery::Here,
            trace: false,
            traceparent: None,
            approval: None,
            sensitive: BTreeSet::new(),
            keys: BTreeMap::new(),
        })
    }
}
