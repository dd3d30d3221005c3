//! Roles, and what the broker lets each of them do: the subject permissions of the account's scoped signing keys.
//!
//! ```text
//!            may publish                                   may subscribe
//! node       its own entries in the KV buckets NODES      requests to all and to itself, trust, its own inbox
//!            and PERMITS, answers to what it received
//! caller     requests to the agents in its tags            its own inbox
//! service    any request, trust, JetStream, and answers    what a node may
//! ```
//!
//! In the account of newcomers, which is another and shares nothing with the fleet's:
//!
//! ```text
//! newcomer   wishes to be enrolled                         its own inbox
//! service    trust, and answers to what it received        wishes to be enrolled, trust, its own inbox
//! ```
//!
//! Everybody may call itself below its own inbox: what the broker says to that, it says after everything that was handed over before.
//!
//! The broker fills `{{name()}}`, `{{subject()}}` and `{{tag(agent)}}` in from each user's token. This is the first
//! lock; which role signed a token is checked again by every peer, and the node's action policy is the last one.

use std::fmt;
use std::str::FromStr;

use super::claims::{Responses, Subjects, Template};
use crate::identity::Name;
use crate::subject;

/// How often one received message may be answered.
const RESPONSES: u32 = 1024;

/// How long a received message may be answered, in nanoseconds: one hour, longer than the longest action.
const RESPONSE_NANOS: u64 = 60 * 60 * 1_000_000_000;

/// The bucket in which nodes register themselves.
const REGISTRATION: &str = "$KV.NODES.{{name()}}";

/// The bucket of run permits: a node writes what ends in its own name, and reads everything.
const PERMITS: [&str; 6] = [
    "$KV.PERMITS.*.*.{{name()}}",
    "$JS.API.STREAM.INFO.KV_PERMITS",
    "$JS.API.CONSUMER.CREATE.KV_PERMITS",
    "$JS.API.CONSUMER.CREATE.KV_PERMITS.>",
    "$JS.API.CONSUMER.DELETE.KV_PERMITS.>",
    "$JS.FC.KV_PERMITS.>",
];

const OWN_INBOX: &str = "_INBOX.{{subject()}}.>";

/// Where a party calls itself.
const ECHO: &str = "_INBOX.{{subject()}}.echo.*";

/// Subjects as they stand in a scope.
fn only<const N: usize>(subjects: [&str; N]) -> Subjects {
    Subjects {
        allow: subjects.map(str::to_owned).into(),
        deny: Vec::new(),
    }
}

/// What a party is for. The word for it stands in the account's token beside the signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Answers requests.
    Node,
    /// Asks.
    Caller,
    /// Asks and answers: a central plugin.
    Service,
    /// A machine that has no identity yet, in the account of newcomers.
    Newcomer,
}

/// A word that is no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no role; there are node, caller, service and newcomer")]
pub struct UnknownRole(String);

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Node, Self::Caller, Self::Service, Self::Newcomer];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Caller => "caller",
            Self::Service => "service",
            Self::Newcomer => "newcomer",
        }
    }

    /// What the broker allows a user of this role in these collectives of a fleet.
    pub fn template(self, collectives: &[Name]) -> Template {
        let each = |suffixes: &[&str]| -> Vec<String> {
            let of = |c| suffixes.iter().map(move |suffix| format!("{c}.{suffix}"));
            collectives.iter().flat_map(of).collect()
        };
        let mut publish = Subjects::default();
        let mut subscribe = Subjects::default();
        match self {
            Self::Node => {
                publish.allow = vec![REGISTRATION.to_owned()];
                publish.allow.extend(PERMITS.map(str::to_owned));
                subscribe.allow = each(&["*.*.all", "*.*.node.{{name()}}", "trust.account"]);
                subscribe.allow.push(OWN_INBOX.to_owned());
            }
            Self::Caller => {
                publish.allow = each(&["{{tag(agent)}}.>"]);
                subscribe.allow = vec![OWN_INBOX.to_owned()];
            }
            Self::Service => {
                publish.allow = each(&["*.*.>", "trust.account"]);
                let stores = ["$JS.API.>", "$JS.ACK.>", "$KV.>", "$O.>"];
                publish.allow.extend(stores.map(str::to_owned));
                subscribe.allow = each(&["*.*.all", "*.*.node.{{name()}}", "trust.account"]);
                subscribe.allow.push(OWN_INBOX.to_owned());
            }
            Self::Newcomer => return newcomer(),
        }
        publish.allow.push(ECHO.to_owned());
        let answers = !matches!(self, Self::Caller);
        template(publish, subscribe, answers)
    }

    /// What the broker allows a user of this role in the account of newcomers; nothing for nodes and callers, who are not of it.
    pub fn template_among_newcomers(self) -> Option<Template> {
        match self {
            Self::Newcomer => Some(newcomer()),
            Self::Service => Some(template(
                only([subject::NEWCOMERS_TRUST, ECHO]),
                only([subject::ENROL, subject::NEWCOMERS_TRUST, OWN_INBOX]),
                true,
            )),
            Self::Node | Self::Caller => None,
        }
    }
}

/// It may say that it wishes to be enrolled, and hear the answer. It talks to nobody else but itself, newcomers included.
fn newcomer() -> Template {
    template(only([subject::ENROL, ECHO]), only([OWN_INBOX]), false)
}

fn template(publish: Subjects, subscribe: Subjects, answers: bool) -> Template {
    Template {
        publish,
        subscribe,
        resp: answers.then_some(Responses {
            max: RESPONSES,
            ttl: RESPONSE_NANOS,
        }),
        subs: -1,
        data: -1,
        payload: -1,
        rest: serde_json::Map::new(),
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.word() == word)
            .ok_or_else(|| UnknownRole(word.chars().take(24).collect()))
    }
}

/// What a caller may ask, as one of its tags.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Every agent.
    Everything,
    /// Every action of one agent.
    Agent(Name),
    /// One action.
    Action(Name, Name),
}

impl Grant {
    /// The tag that `{{tag(agent)}}` takes its value from.
    pub fn tag(&self) -> String {
        match self {
            Self::Everything => "agent:*".to_owned(),
            Self::Agent(agent) => format!("agent:{agent}"),
            Self::Action(agent, action) => format!("agent:{agent}.{action}"),
        }
    }
}

impl FromStr for Grant {
    type Err = crate::identity::NameError;
    /// Reads `*`, `agent` or `agent.action`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        match text.split_once('.') {
            None => Ok(Self::Agent(Name::parse(text)?)),
            Some((agent, action)) => Ok(Self::Action(Name::parse(agent)?, Name::parse(action)?)),
        }
    }
}
