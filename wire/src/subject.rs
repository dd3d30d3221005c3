//! The subject table: builds and parses every NATS subject of the protocol.
//!
//! ```text
//! <collective>.<agent>.<action>.all               a request to every node of the collective
//! <collective>.<agent>.<action>.node.<identity>   a request to one node; the identity keeps its dots
//! <collective>.<agent>.<action>.ref.<identity>    a reference to a stored request to that node
//! <collective>.<agent>.<action>.any               a request to any one instance of a service's agent; instances form a queue group
//! _R.<caller key>.<request id>.<identity>         the answers of one node; only that caller may subscribe, only that node may publish
//! _T.<caller key>.<tunnel>.<identity>             what a caller sends through a tunnel; only that caller may publish, only that node may subscribe
//! _E.<kind>.<identity>                            an event of a node; only that node may publish, callers subscribe
//! _B.<identity>                                   a heartbeat of a node; only that node may publish, services subscribe
//! _W.<bucket>.<key>                               a change of a key-value bucket, published by the broker
//! _CONFIRM                                        all roles publish, no role subscribes: the broker's "no responders" status is the confirmation
//! _INBOX.<user key>.>                             the broker's own answers; only that user may subscribe
//! ```
//!
//! In the account of bootstrapping nodes:
//!
//! ```text
//! newcomers.enrol                                 enrolment requests
//! newcomers.trust                                 that account's token, after it changed (signed by the operator)
//! _R.<bootstrap key>.<word>.<enroller>            the answer to an enrolment request
//! ```
//!
//! The publish and subscribe permissions are defined in [`crate::token::scope`].

use crate::identity::{Identity, SubjectName};

/// Subject of enrolment requests.
pub const ENROLMENT_SUBJECT: &str = "newcomers.enrol";

/// Subject on which a changed token of the bootstrap account is announced.
pub const NEWCOMERS_TRUST_SUBJECT: &str = "newcomers.trust";

/// The parsed subject of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAddress {
    /// First token.
    pub collective: SubjectName,
    /// Second token.
    pub agent: SubjectName,
    /// Third token.
    pub action: SubjectName,
    /// `None` for `all` and `any`.
    pub node: Option<Identity>,
}

impl RequestAddress {
    /// Parses a request subject; `None` for any other subject.
    pub fn parse(subject: &str) -> Option<Self> {
        let mut tokens = subject.splitn(4, '.');
        let collective = SubjectName::parse(tokens.next()?).ok()?;
        let agent = SubjectName::parse(tokens.next()?).ok()?;
        let action = SubjectName::parse(tokens.next()?).ok()?;
        let node = match tokens.next()? {
            "all" | "any" => None,
            rest => Some(Identity::parse(rest.strip_prefix("node.")?).ok()?),
        };
        Some(Self { collective, agent, action, node })
    }
}

/// The pattern of all events.
pub const ALL_EVENTS: &str = "_E.>";

/// The subject of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventAddress {
    /// What happened.
    pub kind: SubjectName,
    /// The node on which it happened.
    pub node: Identity,
}

impl EventAddress {
    /// Parses the subject of an event; `None` for any other subject.
    pub fn parse(subject: &str) -> Option<Self> {
        let (kind, node) = subject.strip_prefix("_E.")?.split_once('.')?;
        let address =
            Self { kind: SubjectName::parse(kind).ok()?, node: Identity::parse(node).ok()? };
        // Names are parsed regardless of case; subjects are compared as bytes.
        (address.subject() == subject).then_some(address)
    }

    /// The subject.
    pub fn subject(&self) -> String {
        format!("_E.{}.{}", self.kind, self.node)
    }
}

/// The beginning of the subjects of all requests for an action.
pub fn requests_of(collective: &SubjectName, agent: &SubjectName, action: &SubjectName) -> String {
    format!("{collective}.{agent}.{action}.")
}

/// Subject of a request to every node.
pub fn broadcast_request(
    collective: &SubjectName,
    agent: &SubjectName,
    action: &SubjectName,
) -> String {
    format!("{collective}.{agent}.{action}.all")
}

/// Subject of a request to any one instance of a service's agent.
pub fn service_request(
    collective: &SubjectName,
    agent: &SubjectName,
    action: &SubjectName,
) -> String {
    format!("{collective}.{agent}.{action}.any")
}

/// The pattern of requests to any one instance of a service's agent. Its instances subscribe to it in the queue group [`SERVICE_QUEUE_GROUP`].
pub fn service_subscription(collective: &SubjectName, agent: &SubjectName) -> String {
    format!("{collective}.{agent}.*.any")
}

/// The subscription with which an instance receives the requests to it by name: those for this agent only. Several agents of one service have a
/// connection each, and would answer for each other.
pub fn instance_subscription(
    collective: &SubjectName,
    agent: &SubjectName,
    instance: &Identity,
) -> String {
    format!("{collective}.{agent}.*.node.{instance}")
}

/// The queue group of a service's instances: each request is delivered to one of them.
pub const SERVICE_QUEUE_GROUP: &str = "instances";

/// The pattern of all heartbeats.
pub const ALL_HEARTBEATS: &str = "_B.>";

/// The subject of a node's heartbeats.
pub fn heartbeat(node: &str) -> String {
    format!("_B.{node}")
}

/// The node that may publish on a subject of heartbeats; `None` for any other subject.
pub fn heartbeat_sender(subject: &str) -> Option<Identity> {
    let node = Identity::parse(subject.strip_prefix("_B.")?).ok()?;
    // Names are parsed regardless of case; subjects are compared as bytes.
    (heartbeat(node.as_str()) == subject).then_some(node)
}

/// Subject of a request to one node.
pub fn node_request(
    collective: &SubjectName,
    agent: &SubjectName,
    action: &SubjectName,
    node: &Identity,
) -> String {
    format!("{collective}.{agent}.{action}.node.{node}")
}

/// Subject of a reference to a stored request to one node: see [`crate::stored_request`]. Nodes of earlier versions do not subscribe to it, so the
/// broker reports "no responders".
pub fn node_reference(
    collective: &SubjectName,
    agent: &SubjectName,
    action: &SubjectName,
    node: &Identity,
) -> String {
    format!("{collective}.{agent}.{action}.ref.{node}")
}

/// The subject of the stored request to which a message with this subject refers; `None` for any other subject.
pub fn referenced_request(subject: &str) -> Option<String> {
    let mut tokens = subject.splitn(4, '.');
    let (collective, agent, action) = (tokens.next()?, tokens.next()?, tokens.next()?);
    let node = tokens.next()?.strip_prefix("ref.")?;
    Some(format!("{collective}.{agent}.{action}.node.{node}"))
}

/// The subscriptions with which a node receives every request addressed to it.
pub fn node_subscriptions(collective: &SubjectName, node: &Identity) -> [String; 3] {
    ["all".to_owned(), format!("node.{node}"), format!("ref.{node}")]
        .map(|suffix| format!("{collective}.*.*.{suffix}"))
}

/// Prefix of the inbox for the broker's own answers. Only the user with this public key may subscribe below it.
pub fn inbox_prefix(user_key: &str) -> String {
    format!("_INBOX.{user_key}")
}

/// Confirms earlier messages of the same connection when published. No role may subscribe to it, so the broker answers "no responders"
/// to the reply subject, in order.
pub const CONFIRM_SUBJECT: &str = "_CONFIRM";

/// No role may publish here. If an operator tool subscribes to everything, [`CONFIRM_SUBJECT`] gets no "no responders" answer. The connection
/// then publishes here instead: the broker's permission error also arrives in order.
pub const CONFIRM_REFUSED_SUBJECT: &str = "_CONFIRM.refused";

/// Longest token for the request in an answer subject, in bytes: a request id has 32.
const MAX_ANSWER_WORD_BYTES: usize = 64;

/// The subject on which answers to one caller's request arrive.
///
/// The third token is the request id without hyphens, or a name that the caller chose for answers to several requests. Callers subscribe to
/// [`AnswerAddress::subscription_pattern`], nodes publish to [`AnswerAddress::of_node`]. The last part is always the name of the answering
/// node, so a broker permission without wildcards in that part covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerAddress {
    prefix: String,
}

impl AnswerAddress {
    /// The answer address of this request.
    pub fn of_request(caller_key: &str, request: &uuid::Uuid) -> Self {
        Self { prefix: format!("_R.{caller_key}.{}", request.simple()) }
    }

    /// The answer address for a name chosen by the caller; `None` unless it is 1 to 64 of `a-z A-Z 0-9 - _`.
    pub fn of_word(caller_key: &str, word: &str) -> Option<Self> {
        is_answer_word(word).then(|| Self { prefix: format!("_R.{caller_key}.{word}") })
    }

    /// Parses the reply subject of a request of this caller. Only the caller's own address is accepted, and anything after the third
    /// token is ignored, because a reply subject is not signed.
    pub fn from_reply_subject(reply_subject: &str, caller_key: &str) -> Option<Self> {
        let rest = reply_subject.strip_prefix("_R.")?;
        let word = rest.strip_prefix(caller_key)?.strip_prefix('.')?;
        let word = word.split('.').next()?;
        Self::of_word(caller_key, word)
    }

    /// The pattern that the caller subscribes to.
    pub fn subscription_pattern(&self) -> String {
        format!("{}.>", self.prefix)
    }

    /// The subject on which this node publishes its answers; also the reply subject of a request to this node alone.
    pub fn of_node(&self, node: &Identity) -> String {
        format!("{}.{node}", self.prefix)
    }

    /// The reply subject of a broadcast. It uses capital letters, so it cannot collide with an identity.
    pub fn of_broadcast(&self) -> String {
        format!("{}.ALL", self.prefix)
    }

    /// A reply subject for a confirmation in the order of the answers. It uses capital letters, so it cannot collide with an identity.
    pub fn of_confirmation(&self, word: &str) -> String {
        format!("{}.END.{word}", self.prefix)
    }

    /// Whether a reply subject is the one on which this node may publish: the answers of one node, to any caller.
    pub fn is_of_node(reply_subject: &str, node: &Identity) -> bool {
        let mut tokens = reply_subject.splitn(4, '.');
        let is_answer = tokens.next() == Some("_R") && tokens.next().is_some();
        is_answer
            && tokens.next().is_some_and(is_answer_word)
            && tokens.next() == Some(node.as_str())
    }

    /// Whether [`Self::of_confirmation`] made this subject.
    pub fn is_confirmation(&self, subject: &str) -> bool {
        let rest = subject.strip_prefix(&self.prefix);
        rest.is_some_and(|rest| rest.starts_with(".END."))
    }

    /// The address without the node name, for display.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

fn is_answer_word(word: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=MAX_ANSWER_WORD_BYTES).contains(&word.len()) && word.bytes().all(allowed)
}

/// The subjects of one tunnel. What the node sends arrives as an answer: see [`AnswerAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelAddress {
    to_node: String,
    to_caller: String,
}

impl TunnelAddress {
    /// The address of the caller's tunnel to the node; `None` unless its name is 1 to 64 of `a-z A-Z 0-9 - _`.
    pub fn new(caller_key: &str, tunnel: &str, node: &Identity) -> Option<Self> {
        let answers = AnswerAddress::of_word(caller_key, tunnel)?;
        let to_node = format!("_T.{caller_key}.{tunnel}.{node}");
        Some(Self { to_node, to_caller: answers.of_node(node) })
    }

    /// The subject from the caller to the node: only this caller may publish, and only this node may subscribe.
    pub fn to_node(&self) -> &str {
        &self.to_node
    }

    /// The subject from the node to the caller: only this node may publish, and only this caller may subscribe.
    pub fn to_caller(&self) -> &str {
        &self.to_caller
    }
}

/// The subject on which the broker publishes changes of these keys of a bucket; the key may be a pattern.
pub fn bucket_changes(bucket: &str, key: &str) -> String {
    format!("_W.{bucket}.{key}")
}

/// The subject under which the broker's stream stores a key of a bucket; the key may be a pattern.
pub fn bucket_key(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// The request subject for the newest value of a bucket key.
pub fn bucket_get(bucket: &str, key: &str) -> String {
    format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}")
}

/// The request subject for several values of a bucket.
pub fn bucket_list(bucket: &str) -> String {
    format!("$JS.API.DIRECT.GET.KV_{bucket}")
}
