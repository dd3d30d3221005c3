//! Roles, and the subject permissions that the broker enforces for each: the templates of the account's scoped signing keys.
//!
//! ```text
//!            may publish                                  may subscribe
//! node       its answers, events and heartbeats, its own  requests to all and to itself, its own inbox and heartbeats,
//!            keys of NODES, PERMITS and HISTORY; reads     data of tunnels to itself, changes of PERMITS and TRUST
//!            them, PERMITS, TRUST, REQUESTS, its token,
//!            its catalogs, CONTENT, PROGRAMS
//! caller     requests to the agents in its tags; data of  answers to its requests, its own inbox, events, changes
//!            its tunnels; writes REQUESTS; reads TRUST     of TRUST
//! service    what a node may, and requests to the agents   what a node and a caller may without tunnels, heartbeats,
//!            in its tags; what its rights name: see        and what its rights name: requests to the service, changes
//!            [`ServiceRight`](super::ServiceRight)         of buckets
//! ```
//!
//! The tags of a service's token name its rights, and each right has its own subjects: a directory writes FORGOTTEN, a scheduler SCHEDULES, a
//! provisioner PROVISION and TOKENS, a compiler CATALOGS, CONTENT and COMPILES; a history reads HISTORY. A service without a right has none of them.
//!
//! In the account of bootstrapping nodes, which shares nothing with the fleet's:
//!
//! ```text
//! newcomer   enrolment requests                           answers to its requests, its own inbox
//! service    its answers, trust                           enrolment requests, trust, its own inbox
//! ```
//!
//! Every role may publish [`subject::CONFIRM_SUBJECT`], and none may subscribe to it.
//!
//! Rules for all roles, which a test derives from these templates:
//!
//! - *No response permissions* (`resp`). With them a client can publish to itself with an arbitrary reply subject, and the broker then
//!   permits it to publish there: on any subject of the account, including `JetStream`'s API. Answers have subjects of their own instead
//!   ([`subject::AnswerAddress`]), which end in the name of the answering node.
//! - *Only reads from the `JetStream` API.* Only [`administrator_permissions`] include creating streams and consumers, because a stream can
//!   store every subject of the account, and a consumer can deliver to every subject of it.
//! - *A fixed number of keys.* Keys that a node writes end in its own name and have no other variable part, so that one node cannot fill
//!   a bucket. A caller can fill REQUESTS for its two minutes; other callers then send requests whole.
//!
//! The broker expands `{{name()}}`, `{{subject()}}` and `{{tag(agent)}}` from each user's token. This is the first of three checks: every
//! receiver also checks which role signed a token, and the node's action policy decides last.

use std::fmt;
use std::str::FromStr;

use super::claims::{PermissionTemplate, SubjectPermissions};
use crate::identity::SubjectName;
use crate::stores;
use crate::subject;

/// The placeholder that the broker replaces with the name in a user's token.
pub(super) const USER_NAME_PLACEHOLDER: &str = "{{name()}}";

/// The placeholder that the broker replaces with the public key of a user.
pub(super) const USER_KEY_PLACEHOLDER: &str = "{{subject()}}";

/// The placeholder that the broker replaces with each bucket that a service's rights name.
const READ_BUCKET_PLACEHOLDER: &str = "{{tag(read)}}";

/// Subscription limit per connection of a role: several times the actual use. Each subscription costs the broker memory.
const MAX_NODE_SUBSCRIPTIONS: i64 = 256;
const MAX_CALLER_SUBSCRIPTIONS: i64 = 4096;
const MAX_SERVICE_SUBSCRIPTIONS: i64 = 8192;
const MAX_NEWCOMER_SUBSCRIPTIONS: i64 = 16;

/// The role of a user. Its identifier is in the account token, beside the signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UserRole {
    /// Answers requests.
    Node,
    /// Sends requests.
    Caller,
    /// Sends and answers requests: a central plugin.
    Service,
    /// A bootstrapping node without an identity, in the bootstrap account.
    Newcomer,
}

/// The text is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role; use node, caller, service or newcomer")]
pub struct UnknownRole(String);

impl UserRole {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Node, Self::Caller, Self::Service, Self::Newcomer];

    /// The role's identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Caller => "caller",
            Self::Service => "service",
            Self::Newcomer => "newcomer",
        }
    }

    /// The broker permissions of this role in these collectives of a fleet.
    pub fn permission_template(self, collectives: &[SubjectName]) -> PermissionTemplate {
        let in_each_collective = |suffixes: &[&str]| -> Vec<String> {
            let with_suffixes = |c| suffixes.iter().map(move |suffix| format!("{c}.{suffix}"));
            collectives.iter().flat_map(with_suffixes).collect()
        };
        let (publish, subscribe, subscriptions) = match self {
            Self::Node => (
                node_publish_subjects(),
                [
                    in_each_collective(&NODE_REQUEST_SUFFIXES),
                    vec![node_tunnel_subjects(), subject::heartbeat(USER_NAME_PLACEHOLDER)],
                    node_subscribe_subjects(),
                ]
                .concat(),
                MAX_NODE_SUBSCRIPTIONS,
            ),
            Self::Caller => (
                [
                    in_each_collective(&["{{tag(agent)}}.>"]),
                    vec![caller_tunnel_subjects(), request_storage_subject()],
                    trust_read_subjects(),
                ]
                .concat(),
                [
                    own_answer_subjects(),
                    vec![subject::ALL_EVENTS.to_owned()],
                    trust_change_subjects(),
                ]
                .concat(),
                MAX_CALLER_SUBSCRIPTIONS,
            ),
            Self::Service => (
                [
                    in_each_collective(&["{{tag(agent)}}.>"]),
                    vec![request_storage_subject()],
                    node_publish_subjects(),
                    service_publish_subjects(),
                ]
                .concat(),
                [
                    in_each_collective(&NODE_REQUEST_SUFFIXES),
                    in_each_collective(&["{{tag(service)}}.*.any"]),
                    node_subscribe_subjects(),
                    own_answer_subjects(),
                    vec![
                        subject::ALL_HEARTBEATS.to_owned(),
                        subject::bucket_changes(READ_BUCKET_PLACEHOLDER, ">"),
                    ],
                ]
                .concat(),
                MAX_SERVICE_SUBSCRIPTIONS,
            ),
            Self::Newcomer => return newcomer_template(),
        };
        build_template(publish, subscribe, subscriptions)
    }

    /// The broker permissions of this role in the bootstrap account; `None` for nodes and callers, which have no users there.
    pub fn newcomers_account_template(self) -> Option<PermissionTemplate> {
        match self {
            Self::Newcomer => Some(newcomer_template()),
            Self::Service => Some(build_template(
                vec![
                    subject::NEWCOMERS_TRUST_SUBJECT.to_owned(),
                    format!("_R.*.*.{USER_NAME_PLACEHOLDER}"),
                ],
                vec![
                    subject::ENROLMENT_SUBJECT.to_owned(),
                    subject::NEWCOMERS_TRUST_SUBJECT.to_owned(),
                ],
                MAX_SERVICE_SUBSCRIPTIONS,
            )),
            Self::Node | Self::Caller => None,
        }
    }
}

/// The collectives in which this scope permits requests, in the order of the scope. Empty for a scope that is written otherwise.
pub fn request_collectives(template: &PermissionTemplate) -> Vec<&str> {
    let suffixes = ["{{tag(agent)}}.>"];
    let lines = template.publish.allow.iter();
    lines
        .filter_map(|line| line.split_once('.'))
        .filter(|(_, suffix)| suffixes.contains(suffix))
        .map(|(collective, _)| collective)
        .collect()
}

/// Whether nodes with this scope may receive the heartbeats of their own name.
pub fn permits_own_heartbeats(template: &PermissionTemplate) -> bool {
    template.subscribe.allow.contains(&subject::heartbeat(USER_NAME_PLACEHOLDER))
}

/// Requests to all nodes, to the node of this name, and references to stored ones.
const NODE_REQUEST_SUFFIXES: [&str; 3] = ["*.*.all", "*.*.node.{{name()}}", "*.*.ref.{{name()}}"];

/// Publish permissions of a node: answers under its own name, its own keys, and reads of permits and trust data.
fn node_publish_subjects() -> Vec<String> {
    let mut subjects = vec![
        format!("_R.*.*.{USER_NAME_PLACEHOLDER}"),
        format!("_E.*.{USER_NAME_PLACEHOLDER}"),
        subject::heartbeat(USER_NAME_PLACEHOLDER),
        subject::bucket_key(stores::NODES_BUCKET.name, USER_NAME_PLACEHOLDER),
        subject::bucket_get(stores::NODES_BUCKET.name, USER_NAME_PLACEHOLDER),
        subject::bucket_key(stores::HISTORY_BUCKET.name, USER_NAME_PLACEHOLDER),
    ];
    let permits = stores::PERMITS_BUCKET.name;
    subjects.extend(
        stores::permit_keys(USER_NAME_PLACEHOLDER)
            .iter()
            .map(|key| subject::bucket_key(permits, key)),
    );
    subjects.push(subject::bucket_list(permits));
    subjects.extend(trust_read_subjects());
    subjects.push(subject::bucket_get(stores::TOKENS_BUCKET.name, USER_NAME_PLACEHOLDER));
    subjects.push(subject::bucket_get(stores::REQUESTS_BUCKET.name, "*"));
    let own_catalogs = format!("catalog.{USER_NAME_PLACEHOLDER}.*");
    let own_release = format!("released.{USER_NAME_PLACEHOLDER}");
    for key in [own_catalogs, own_release] {
        subjects.push(subject::bucket_get(stores::CATALOGS_BUCKET.name, &key));
    }
    for bucket in [stores::CONTENT_BUCKET, stores::PROGRAMS_BUCKET] {
        subjects.push(subject::bucket_get(bucket.name, "*.*"));
    }
    subjects
}

/// Writes a request for many nodes.
fn request_storage_subject() -> String {
    subject::bucket_key(stores::REQUESTS_BUCKET.name, "*")
}

/// Data of tunnels from this caller to any node.
fn caller_tunnel_subjects() -> String {
    format!("_T.{USER_KEY_PLACEHOLDER}.>")
}

/// Data of tunnels from any caller to this node.
fn node_tunnel_subjects() -> String {
    format!("_T.*.*.{USER_NAME_PLACEHOLDER}")
}

fn node_subscribe_subjects() -> Vec<String> {
    let mut subjects = trust_change_subjects();
    subjects.push(subject::bucket_changes(stores::PERMITS_BUCKET.name, ">"));
    subjects
}

/// Publish permissions of a service beyond a node's: reads and writes of the buckets that its rights name.
fn service_publish_subjects() -> Vec<String> {
    let writes = [
        (stores::FORGOTTEN_BUCKET, "{{tag(directory)}}"),
        (stores::SCHEDULES_BUCKET, "{{tag(schedule)}}"),
        (stores::PROVISION_BUCKET, "{{tag(provision)}}"),
        (stores::TOKENS_BUCKET, "{{tag(provision)}}"),
        (stores::CATALOGS_BUCKET, "{{tag(compiler)}}"),
        (stores::CONTENT_BUCKET, "{{tag(compiler)}}"),
        (stores::COMPILES_BUCKET, "{{tag(compiler)}}"),
    ];
    let mut subjects: Vec<String> =
        writes.map(|(bucket, right)| subject::bucket_key(bucket.name, right)).into();
    subjects.push(subject::bucket_list(READ_BUCKET_PLACEHOLDER));
    subjects.push(subject::bucket_get(READ_BUCKET_PLACEHOLDER, ">"));
    subjects
}

fn own_answer_subjects() -> Vec<String> {
    vec![format!("_R.{USER_KEY_PLACEHOLDER}.>")]
}

/// The keys of the trust bucket that every role reads.
fn trust_read_subjects() -> Vec<String> {
    let get = |key| subject::bucket_get(stores::TRUST_BUCKET.name, key);
    stores::TRUST_READER_KEYS.map(get).into()
}

fn trust_change_subjects() -> Vec<String> {
    let changes = |key| subject::bucket_changes(stores::TRUST_BUCKET.name, key);
    stores::TRUST_READER_KEYS.map(changes).into()
}

/// Permits enrolment requests and reading the answers. No other user is reachable, including other bootstrapping nodes.
fn newcomer_template() -> PermissionTemplate {
    build_template(
        vec![subject::ENROLMENT_SUBJECT.to_owned()],
        own_answer_subjects(),
        MAX_NEWCOMER_SUBSCRIPTIONS,
    )
}

/// Adds the permissions of every role: confirmation, and its own inbox.
fn build_template(
    mut publish: Vec<String>,
    mut subscribe: Vec<String>,
    subscriptions: i64,
) -> PermissionTemplate {
    publish.push(subject::CONFIRM_SUBJECT.to_owned());
    subscribe.push(format!("_INBOX.{USER_KEY_PLACEHOLDER}.>"));
    PermissionTemplate {
        publish: allow_only(publish),
        subscribe: allow_only(subscribe),
        resp: None,
        subs: subscriptions,
        data: -1,
        payload: -1,
        rest: serde_json::Map::new(),
    }
}

/// Permissions of the organisation's own commands, for their short connections: create and repair buckets, write trust data and issued
/// names, and remove permits of revoked nodes. Signed with the account's own key, so the user has no role and no node or caller accepts it.
pub fn administrator_permissions(user_key: &str) -> (SubjectPermissions, SubjectPermissions) {
    let mut publish = vec![subject::CONFIRM_SUBJECT.to_owned()];
    for store in &stores::ALL_BUCKETS {
        let stream = stores::stream_name(store.name);
        publish.extend(
            ["CREATE", "UPDATE", "INFO", "DELETE"]
                .map(|verb| format!("$JS.API.STREAM.{verb}.{stream}")),
        );
        publish.push(subject::bucket_list(store.name));
        publish.push(subject::bucket_get(store.name, ">"));
        publish.push(subject::bucket_key(store.name, ">"));
    }
    publish.push("$JS.API.INFO".to_owned());
    let inbox = format!("{}.>", subject::inbox_prefix(user_key));
    (allow_only(publish), allow_only(vec![inbox]))
}

/// Name of the administrators' signing key in the fleet's account token. It is no [`UserRole`], so nodes and callers accept no message of theirs.
pub const ADMINISTRATOR_ROLE: &str = "admin";

/// The broker permissions of the users that the administrators' signing key signs.
pub fn administrator_template() -> PermissionTemplate {
    let (publish, subscribe) = administrator_permissions(USER_KEY_PLACEHOLDER);
    PermissionTemplate {
        publish,
        subscribe,
        resp: None,
        subs: -1,
        data: -1,
        payload: -1,
        rest: serde_json::Map::new(),
    }
}

pub(super) fn allow_only(allow: Vec<String>) -> SubjectPermissions {
    SubjectPermissions { allow, deny: Vec::new() }
}

impl fmt::Display for UserRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for UserRole {
    type Err = UnknownRole;
    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == word)
            .ok_or_else(|| UnknownRole(word.chars().take(24).collect()))
    }
}

/// A caller's permission for requests, stored as one of its tags.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerGrant {
    /// Every agent.
    Everything,
    /// Every action of one agent.
    Agent(SubjectName),
    /// One action.
    Action(SubjectName, SubjectName),
}

impl CallerGrant {
    /// The value of the tag in `{{tag(agent)}}`.
    pub fn to_tag(&self) -> String {
        match self {
            Self::Everything => "agent:*".to_owned(),
            Self::Agent(agent) => format!("agent:{agent}"),
            Self::Action(agent, action) => format!("agent:{agent}.{action}"),
        }
    }
}

impl FromStr for CallerGrant {
    type Err = crate::identity::NameError;
    /// Parses `*`, `agent` or `agent.action`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        match text.split_once('.') {
            None => Ok(Self::Agent(SubjectName::parse(text)?)),
            Some((agent, action)) => {
                Ok(Self::Action(SubjectName::parse(agent)?, SubjectName::parse(action)?))
            }
        }
    }
}
