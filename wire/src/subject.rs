//! The subject table: every NATS subject of ours is built and parsed here.
//!
//! ```text
//! <collective>.<agent>.<action>.all               a request to every node of the collective
//! <collective>.<agent>.<action>.node.<identity>   a request to one node; the identity keeps its dots
//! _R.<caller key>.<request id>.<identity>         the answers of one node; only that caller may subscribe, only that node may publish
//! _W.<bucket>.<key>                               a change of a key-value bucket, published by the broker
//! _CONFIRM                                        published by everybody, subscribed by nobody: the broker's "no responders" is a confirmation
//! _INBOX.<user key>.>                             the broker's own answers; only that user may subscribe
//! ```
//!
//! In the account of newcomers:
//!
//! ```text
//! newcomers.enrol                                 a machine wishes to become a node
//! newcomers.trust                                 that account's token, after it changed (signed by the operator)
//! _R.<bootstrap key>.<word>.<enroller>            the answer to an enrolment request
//! ```
//!
//! Who may publish and subscribe where is written in the scopes of [`crate::token::scope`].

use crate::identity::{Identity, SubjectName};

/// Where a machine says that it wishes to become a node.
pub const ENROLMENT_SUBJECT: &str = "newcomers.enrol";

/// Where the token of the newcomers' account is announced after it changed.
pub const NEWCOMERS_TRUST_SUBJECT: &str = "newcomers.trust";

/// Where a request came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAddress {
    /// First token.
    pub collective: SubjectName,
    /// Second token.
    pub agent: SubjectName,
    /// Third token.
    pub action: SubjectName,
    /// `None` for `all`.
    pub node: Option<Identity>,
}

impl RequestAddress {
    /// Reads a request subject; `None` when it is not one.
    pub fn parse(subject: &str) -> Option<Self> {
        let mut tokens = subject.splitn(4, '.');
        let collective = SubjectName::parse(tokens.next()?).ok()?;
        let agent = SubjectName::parse(tokens.next()?).ok()?;
        let action = SubjectName::parse(tokens.next()?).ok()?;
        let node = match tokens.next()? {
            "all" => None,
            rest => Some(Identity::parse(rest.strip_prefix("node.")?).ok()?),
        };
        Some(Self {
            collective,
            agent,
            action,
            node,
        })
    }
}

/// Subject of a request to every node.
pub fn broadcast_request(
    collective: &SubjectName,
    agent: &SubjectName,
    action: &SubjectName,
) -> String {
    format!("{collective}.{agent}.{action}.all")
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

/// The two subscriptions by which a node hears every request that concerns it.
pub fn node_subscriptions(collective: &SubjectName, node: &Identity) -> [String; 2] {
    [
        format!("{collective}.*.*.all"),
        format!("{collective}.*.*.node.{node}"),
    ]
}

/// Subject on which a changed account token is announced.
pub fn account_announcement(collective: &SubjectName) -> String {
    format!("{collective}.trust.account")
}

/// The prefix of the broker's own answers, below which only the user with this public key may subscribe.
pub fn inbox_prefix(user_key: &str) -> String {
    format!("_INBOX.{user_key}")
}

/// Published to confirm what was sent before on the same connection. No role may subscribe to it, so the broker answers "no responders"
/// to the reply subject, in order.
pub const CONFIRM_SUBJECT: &str = "_CONFIRM";

/// No role may publish here. A connection that gets no answer to [`CONFIRM_SUBJECT`], because a tool of the operator subscribes to everything,
/// publishes here: the broker's refusal arrives in order too.
pub const CONFIRM_REFUSED_SUBJECT: &str = "_CONFIRM.refused";

/// Longest word that may stand for the request in an answer subject, in bytes: a request id has 32.
const MAX_ANSWER_WORD_BYTES: usize = 64;

/// Where the answers to one request of one caller arrive.
///
/// The word is the request's id without hyphens, or a name that the caller chose for answers to several requests. Subscribed with
/// [`AnswerAddress::subscription_pattern`], published with [`AnswerAddress::of_node`]: the last part is always the name of the node that answers,
/// so that a broker permission without wildcards in that part covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerAddress {
    prefix: String,
}

impl AnswerAddress {
    /// The address of the answers to this request.
    pub fn of_request(caller_key: &str, request: &uuid::Uuid) -> Self {
        Self {
            prefix: format!("_R.{caller_key}.{}", request.simple()),
        }
    }

    /// The address under a word of the caller's choice; `None` unless it is 1 to 64 of `a-z A-Z 0-9 - _`.
    pub fn of_word(caller_key: &str, word: &str) -> Option<Self> {
        is_answer_word(word).then(|| Self {
            prefix: format!("_R.{caller_key}.{word}"),
        })
    }

    /// Reads the reply subject of a request of this caller. Only the caller's own address is accepted, and what follows the word is
    /// ignored: a reply subject is not signed.
    pub fn from_reply_subject(reply_subject: &str, caller_key: &str) -> Option<Self> {
        let rest = reply_subject.strip_prefix("_R.")?;
        let word = rest.strip_prefix(caller_key)?.strip_prefix('.')?;
        let word = word.split('.').next()?;
        Self::of_word(caller_key, word)
    }

    /// What the caller subscribes to.
    pub fn subscription_pattern(&self) -> String {
        format!("{}.>", self.prefix)
    }

    /// Where this node publishes its answers; also the reply subject of a request to this node alone.
    pub fn of_node(&self, node: &Identity) -> String {
        format!("{}.{node}", self.prefix)
    }

    /// The reply subject of a broadcast. No identity has capital letters.
    pub fn of_broadcast(&self) -> String {
        format!("{}.ALL", self.prefix)
    }

    /// A reply subject for a confirmation in the order of the answers. No identity has capital letters.
    pub fn of_confirmation(&self, word: &str) -> String {
        format!("{}.END.{word}", self.prefix)
    }

    /// Whether a subject was made by [`Self::of_confirmation`].
    pub fn is_confirmation(&self, subject: &str) -> bool {
        let rest = subject.strip_prefix(&self.prefix);
        rest.is_some_and(|rest| rest.starts_with(".END."))
    }

    /// The address without the name of a node: what people see.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

fn is_answer_word(word: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=MAX_ANSWER_WORD_BYTES).contains(&word.len()) && word.bytes().all(allowed)
}

/// Where the broker publishes the changes of these keys of a bucket; the key may be a pattern.
pub fn bucket_changes(bucket: &str, key: &str) -> String {
    format!("_W.{bucket}.{key}")
}

/// The subject of a key of a bucket, as the broker's stream stores it; the key may be a pattern.
pub fn bucket_key(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// Where the newest value of a key of a bucket is asked for.
pub fn bucket_get(bucket: &str, key: &str) -> String {
    format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}")
}

/// Where several values of a bucket are asked for.
pub fn bucket_list(bucket: &str) -> String {
    format!("$JS.API.DIRECT.GET.KV_{bucket}")
}
