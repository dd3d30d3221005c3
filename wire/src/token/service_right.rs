//! What the token of a service permits it to serve, as tags of the token.

use std::fmt;
use std::str::FromStr;

use crate::stores;

/// Prefix of the tags that limit a compiler to environments.
const ENVIRONMENT_TAG: &str = "environment:";

/// A central service. The key of a service serves what its token names, and nothing else: the broker permits only the subjects of these rights, and a
/// caller accepts an answer for a service only from a token with the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceRight {
    /// Answers for the agent `directory`, reads the records of nodes, and notes which of them it forgets.
    Directory,
    /// Answers for the agent `schedule`, keeps schedules, and requests their actions.
    Schedule,
    /// Provisions nodes: keeps their state, the register of names and renewed tokens of nodes, and sends requests to nodes.
    Provision,
    /// Answers for the agent `compiler`, reads the records of nodes, and signs and stores catalogs and their files.
    Compile,
    /// Answers for the agent `history`, and reads what nodes report of requests and runs.
    History,
    /// Reads catalogs and their files for agents of Puppet.
    Gateway,
}

/// The text is not the right of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a service; use directory, schedule, provision, compiler, history or gateway")]
pub struct UnknownServiceRight(String);

impl ServiceRight {
    /// All rights.
    pub const ALL: [Self; 6] = [
        Self::Directory,
        Self::Schedule,
        Self::Provision,
        Self::Compile,
        Self::History,
        Self::Gateway,
    ];

    /// The right's identifier: the name of the agent, if the service has one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Schedule => "schedule",
            Self::Provision => "provision",
            Self::Compile => "compiler",
            Self::History => "history",
            Self::Gateway => "gateway",
        }
    }

    /// The service, in messages.
    pub fn title(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Schedule => "scheduling service",
            Self::Provision => "provisioner",
            Self::Compile => "compiler",
            Self::History => "history",
            Self::Gateway => "gateway",
        }
    }

    /// The right to answer for this agent; `None` for an agent that no service has.
    pub fn of_agent(agent: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == agent)
    }

    /// Whether a token with these tags has the right.
    pub fn is_in(self, tags: &[String]) -> bool {
        tags.contains(&self.service_tag())
    }

    /// The tags of a token with these rights, sorted. They are the values of the placeholders in the scope of services:
    ///
    /// - `service`: agents for which it answers;
    /// - `read`: buckets that it may list and watch;
    /// - the right's own name, with the value `>`: keys that it may write;
    /// - `agent`: requests that it may send, as for a caller.
    pub fn tags(rights: &[Self]) -> Vec<String> {
        let mut tags: Vec<String> = rights.iter().flat_map(|right| right.own_tags()).collect();
        tags.sort();
        tags.dedup();
        tags
    }

    /// The tag that limits a compiler to an environment. A token without such tags is for any.
    pub fn environment_tag(environment: &str) -> String {
        format!("{ENVIRONMENT_TAG}{environment}")
    }

    /// Whether the token of a compiler with these tags is for this environment.
    pub fn is_for_environment(tags: &[String], environment: &str) -> bool {
        let mut named = tags.iter().filter_map(|tag| tag.strip_prefix(ENVIRONMENT_TAG)).peekable();
        named.peek().is_none() || named.any(|name| name == environment)
    }

    fn service_tag(self) -> String {
        format!("service:{self}")
    }

    fn own_tags(self) -> Vec<String> {
        let nodes = stores::NODES_BUCKET;
        let (buckets, requests) = match self {
            // A further run of Puppet waits for other nodes until a directory tells it that they match.
            Self::Directory => (vec![nodes, stores::FORGOTTEN_BUCKET], Some("agent:again")),
            Self::Schedule => {
                (vec![nodes, stores::FORGOTTEN_BUCKET, stores::SCHEDULES_BUCKET], Some("agent:*"))
            }
            Self::Provision => {
                (vec![nodes, stores::PROVISION_BUCKET, stores::TOKENS_BUCKET], Some("agent:*"))
            }
            Self::Compile => {
                let own =
                    [stores::CATALOGS_BUCKET, stores::CONTENT_BUCKET, stores::COMPILES_BUCKET];
                ([vec![nodes, stores::FORGOTTEN_BUCKET], own.into()].concat(), None)
            }
            Self::History => (vec![nodes, stores::FORGOTTEN_BUCKET, stores::HISTORY_BUCKET], None),
            Self::Gateway => (vec![stores::CATALOGS_BUCKET, stores::CONTENT_BUCKET], None),
        };
        let mut tags = vec![self.service_tag(), format!("{self}:>")];
        tags.extend(requests.map(str::to_owned));
        tags.extend(buckets.iter().map(|bucket| format!("read:{}", bucket.name)));
        tags
    }
}

impl fmt::Display for ServiceRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ServiceRight {
    type Err = UnknownServiceRight;
    fn from_str(word: &str) -> Result<Self, UnknownServiceRight> {
        Self::of_agent(word).ok_or_else(|| UnknownServiceRight(word.chars().take(24).collect()))
    }
}
