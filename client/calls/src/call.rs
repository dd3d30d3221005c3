//! The parameters of a call: agent, action, inputs, target nodes and time limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_contract::given_inputs;
use muster_ddl::{Action, AgentContract as _};
use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::request::RequestGrant;
use muster_wire::sign::ExpectedAnswer;
use muster_wire::subject::AnswerAddress;
use muster_wire::token::PublicKey;
use muster_wire::trace::TraceContext;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Target of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallTarget {
    /// These nodes. The call ends when all of them have replied.
    Nodes(BTreeSet<Identity>),
    /// All nodes that match. Their number is unknown: a sliding window ends the call, unless [`RpcCall::expect`] is set.
    Filter(NodeFilter),
    /// Any one instance of a service's agent. Set [`RpcCall::expect`] to 1.
    AnyInstance,
}

/// Where replies are delivered, if at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReplyDelivery {
    /// To the call's own inbox.
    #[default]
    Here,
    /// Nowhere: nodes send no reply, and the call ends when the broker has accepted the request.
    Unwanted,
    /// To this address of the same caller, where another process listens. The call ends when the broker has accepted the request.
    Elsewhere(AnswerAddress),
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcCall {
    /// The agent.
    pub agent: SubjectName,
    /// The action.
    pub action: SubjectName,
    /// The inputs, already validated against the DDL if the caller has it.
    pub data: Map<String, Value>,
    /// The target nodes.
    pub target: CallTarget,
    /// What each of [`CallTarget::Nodes`] must match when it gets the request; a node that does not match refuses it.
    pub filter: NodeFilter,
    /// Time limit for the action on a node; the action's own deadline when absent.
    pub timeout: Option<Duration>,
    /// Maximum time to wait for replies. Should exceed `timeout`. If the number of nodes is unknown, it limits the wait for the first reply; while
    /// replies keep arriving, the wait lasts at least [`crate::DiscoveryWindow::max_wait`].
    pub wait: Duration,
    /// Maximum time until a node starts the action.
    pub ttl: Duration,
    /// Whether nodes send progress before they reply. Node versions without progress support reject the call.
    pub stream: bool,
    /// End the call after this many replies, even if more nodes could reply.
    pub expect: Option<usize>,
    /// The size of a reply in bytes, if it is known: how many known nodes are asked at once at the start depends on it. Later, the size of the
    /// received replies counts.
    pub expected_reply_bytes: Option<usize>,
    /// Where replies are delivered.
    pub reply_delivery: ReplyDelivery,
    /// Whether nodes report the duration of each of their stages.
    pub trace: bool,
    /// The trace context that the call belongs to.
    pub traceparent: Option<TraceContext>,
    /// Approval by a second user, for nodes that require it: see [`crate::OfflineSigner::read_approval`].
    pub approval: Option<String>,
    /// The schedule that the call is made for, for schedulers.
    pub grant: Option<RequestGrant>,
    /// The id of the request; a new one if absent. For a request that several services may send and that a node executes once.
    pub id: Option<Uuid>,
    /// Names of inputs in `data` that are encrypted for each node. Needs [`CallTarget::Nodes`].
    pub sensitive: BTreeSet<String>,
    /// Public keys of nodes, for encryption of sensitive inputs; the client requests missing keys itself.
    pub keys: BTreeMap<Identity, PublicKey>,
}

impl RpcCall {
    /// Returns a call of an action with these inputs. Inputs without a value are not given.
    pub fn of_action<A: Action>(input: &A::Input, target: CallTarget) -> Result<Self, NameError> {
        Ok(Self { data: given_inputs(input), ..Self::new(A::Agent::NAME, A::NAME, target)? })
    }

    /// Returns a call with a ttl of 60 s and a wait of 30 s.
    pub fn new(agent: &str, action: &str, target: CallTarget) -> Result<Self, NameError> {
        Ok(Self {
            agent: SubjectName::parse(agent)?,
            action: SubjectName::parse(action)?,
            data: Map::new(),
            target,
            filter: NodeFilter::default(),
            timeout: None,
            wait: Duration::from_secs(30),
            ttl: Duration::from_mins(1),
            stream: false,
            expect: None,
            expected_reply_bytes: None,
            reply_delivery: ReplyDelivery::Here,
            trace: false,
            traceparent: None,
            approval: None,
            grant: None,
            id: None,
            sensitive: BTreeSet::new(),
            keys: BTreeMap::new(),
        })
    }
}

/// Selects the replies to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplySelector {
    /// The agent of the request.
    pub agent: SubjectName,
    /// The action of the request.
    pub action: SubjectName,
    /// The id of the request; any when absent.
    pub request: Option<Uuid>,
}

impl ReplySelector {
    pub(crate) fn as_expected(&self) -> ExpectedAnswer<'_> {
        ExpectedAnswer { request: self.request, agent: &self.agent, action: &self.action }
    }
}
