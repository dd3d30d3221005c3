//! The subject table: every NATS subject of ours is built and parsed here.
//!
//! ```text
//! <collective>.<agent>.<action>.all               a request to every node of the collective
//! <collective>.<agent>.<action>.node.<identity>   a request to one node; the identity keeps its dots
//! <collective>.<agent>.<action>.nobody            nobody listens: the broker's word for that is the end of what it has sent
//! <collective>.trust.account                      the account's token, after it changed (signed by the operator)
//! _INBOX.<user key>.<request id>                  replies; only that user may read below its key
//! ```
//!
//! In the account of newcomers:
//!
//! ```text
//! newcomers.enrol                                 a machine wishes to become a node
//! newcomers.trust                                 that account's token, after it changed (signed by the operator)
//! ```
//!
//! Who may publish and subscribe where is written in the scopes of [`crate::token::scope`].

use crate::identity::{Identity, Name};

/// Where a machine says that it wishes to become a node.
pub const ENROL: &str = "newcomers.enrol";

/// Where the token of the newcomers' account is announced after it changed.
pub const NEWCOMERS_TRUST: &str = "newcomers.trust";

/// Where a request came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// First token.
    pub collective: Name,
    /// Second token.
    pub agent: Name,
    /// Third token.
    pub action: Name,
    /// `None` for `all`.
    pub node: Option<Identity>,
}

impl Address {
    /// Reads a request subject; `None` when it is not one.
    pub fn parse(subject: &str) -> Option<Self> {
        let mut tokens = subject.splitn(4, '.');
        let collective = Name::parse(tokens.next()?).ok()?;
        let agent = Name::parse(tokens.next()?).ok()?;
        let action = Name::parse(tokens.next()?).ok()?;
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
pub fn broadcast(collective: &Name, agent: &Name, action: &Name) -> String {
    format!("{collective}.{agent}.{action}.all")
}

/// Subject of a request to one node.
pub fn node(collective: &Name, agent: &Name, action: &Name, node: &Identity) -> String {
    format!("{collective}.{agent}.{action}.node.{node}")
}

/// Subject of an action on which nobody listens. The broker says so at once to whoever publishes there, and by that, that everything has
/// arrived which it had sent before.
pub fn nobody(collective: &Name, agent: &Name, action: &Name) -> String {
    format!("{collective}.{agent}.{action}.nobody")
}

/// The two subscriptions by which a node hears every request that concerns it.
pub fn node_subscriptions(collective: &Name, node: &Identity) -> [String; 2] {
    [
        format!("{collective}.*.*.all"),
        format!("{collective}.*.*.node.{node}"),
    ]
}

/// Subject on which a changed account token is announced.
pub fn trust(collective: &Name) -> String {
    format!("{collective}.trust.account")
}

/// The prefix below which only the user with this public key may subscribe.
pub fn inbox_prefix(user_key: &str) -> String {
    format!("_INBOX.{user_key}")
}

/// Subject of the replies to one request.
pub fn inbox(user_key: &str, request: &uuid::Uuid) -> String {
    format!("{}.{}", inbox_prefix(user_key), request.simple())
}
