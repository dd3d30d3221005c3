//! Token claims: of operators, accounts and users, in the layout of NATS JWT version 2.
//!
//! Unknown fields are kept for accounts (so that re-issuing a token made by `nsc` loses nothing) and ignored for operators and
//! users. Claims are unverified: see [`super::decode`] and [`super::AccountTrust`].

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::broker_record::BrokerRecord;
use super::nkey::{KeyKind, PublicKey};
use super::program::ApprovedProgram;
use super::scope::UserRole;
use crate::Seconds;
use crate::identity::Identity;
use crate::stores::{self, StoreUse};

/// The only algorithm of NATS tokens.
pub(super) const TOKEN_ALGORITHM: &str = "ed25519-nkey";
/// The version of NATS claims that is written and read.
pub const CLAIMS_VERSION: u8 = 2;

/// One token's claims; `N` is the NATS part for the kind of subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenClaims<N> {
    /// Base32 of SHA-512/256 of the claims without this field: the token's id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// Issue time.
    pub iat: Seconds,
    /// The key of the issuer.
    pub iss: PublicKey,
    /// Display name; for users, the identity.
    #[serde(default)]
    pub name: String,
    /// The key of the subject.
    pub sub: PublicKey,
    /// Expiry time; zero and absent mean never.
    #[serde(default, skip_serializing_if = "crate::progress::is_zero")]
    pub exp: Seconds,
    /// Start of validity.
    #[serde(default, skip_serializing_if = "crate::progress::is_zero")]
    pub nbf: Seconds,
    /// The NATS part.
    pub nats: N,
}

/// The NATS part of a token's claims.
pub trait NatsClaims: Serialize + for<'de> Deserialize<'de> {
    /// The value of `type`.
    const TYPE: &'static str;
    /// The kind of the subject's key.
    const SUBJECT: KeyKind;
    /// The kind of the issuer's key.
    const ISSUER: KeyKind;
    /// The type and version in the claims. Valid if they equal [`Self::TYPE`] and [`CLAIMS_VERSION`].
    fn type_and_version(&self) -> (&str, u8);
}

macro_rules! impl_nats_claims {
    ($type:ident, $word:literal, $subject:ident, $issuer:ident) => {
        impl NatsClaims for $type {
            const TYPE: &'static str = $word;
            const SUBJECT: KeyKind = KeyKind::$subject;
            const ISSUER: KeyKind = KeyKind::$issuer;
            fn type_and_version(&self) -> (&str, u8) {
                (&self.kind, self.version)
            }
        }
    };
}

impl_nats_claims!(OperatorClaims, "operator", Operator, Operator);
impl_nats_claims!(AccountClaims, "account", Account, Operator);
impl_nats_claims!(UserClaims, "user", User, Account);

/// Claims of an operator: an organisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorClaims {
    /// The system account: the broker's own events and monitoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_account: Option<PublicKey>,
    /// Other keys whose account tokens the broker accepts: the next operator, while the present one is replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<PublicKey>,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
}

impl OperatorClaims {
    /// Creates claims of an operator with this system account.
    pub fn new(system_account: Option<PublicKey>) -> Self {
        Self {
            system_account,
            signing_keys: Vec::new(),
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
        }
    }
}

/// Claims of an account: a fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountClaims {
    /// Resource limits; the broker refuses a token without them.
    #[serde(default)]
    pub limits: AccountLimits,
    /// Keys that may sign users: plain keys, or roles with their permissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<SigningKeyEntry>,
    /// Per user key, or `*`: tokens issued up to this instant are revoked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revocations: BTreeMap<String, Seconds>,
    /// Statements by which each operator names the next one, oldest first; see [`super::succession`]. Brokers ignore them.
    #[serde(default, rename = "muster_successions", skip_serializing_if = "Vec::is_empty")]
    pub successions: Vec<String>,
    /// Keys that sign SSH user certificates, the present one first; two while one replaces the other. Brokers ignore them.
    #[serde(default, rename = "muster_ssh_authorities", skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorities: Vec<PublicKey>,
    /// For each right, the services that have it. Callers ask one of them by name, so that each gets its share of the queries. Brokers ignore them.
    #[serde(default, rename = "muster_services", skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, BTreeSet<Identity>>,
    /// Where the brokers are. Nodes and callers follow it. Brokers ignore it.
    #[serde(default, rename = "muster_broker", skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerRecord>,
    /// The programs to which daemons may be upgraded. Brokers ignore them.
    #[serde(default, rename = "muster_programs", skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ApprovedProgram>,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
    /// Other NATS fields: exports, imports, mappings.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl AccountClaims {
    /// Creates claims with these limits and signing keys.
    pub fn new(limits: AccountLimits, signing_keys: Vec<SigningKeyEntry>) -> Self {
        Self {
            limits,
            signing_keys,
            revocations: BTreeMap::new(),
            successions: Vec::new(),
            ssh_authorities: Vec::new(),
            services: BTreeMap::new(),
            broker: None,
            programs: Vec::new(),
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
            rest: Map::new(),
        }
    }

    /// Revokes every token of this user that was issued up to `until`. The latest revocation of a user applies.
    pub fn revoke_user(&mut self, user: &PublicKey, until: Seconds) {
        let entry = self.revocations.entry(user.to_string()).or_insert(until);
        *entry = until.max(*entry);
    }
}

/// Limits of an account; -1 is unlimited. `JetStream` is disabled unless its limits are given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountLimits {
    /// Subscriptions.
    pub subs: i64,
    /// Total bytes.
    pub data: i64,
    /// Bytes per message.
    pub payload: i64,
    /// Imported subjects.
    pub imports: i64,
    /// Exported subjects.
    pub exports: i64,
    /// Whether exports may use wildcards.
    pub wildcards: bool,
    /// Connections.
    pub conn: i64,
    /// Leaf node connections.
    pub leaf: i64,
    /// `JetStream` bytes in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_storage: Option<i64>,
    /// `JetStream` bytes on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_storage: Option<i64>,
    /// `JetStream` streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<i64>,
    /// `JetStream` consumers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<i64>,
    /// Other NATS limits.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self {
            subs: -1,
            data: -1,
            payload: -1,
            imports: -1,
            exports: -1,
            wildcards: true,
            conn: -1,
            leaf: -1,
            mem_storage: None,
            disk_storage: None,
            streams: None,
            consumer: None,
            rest: Map::new(),
        }
    }
}

impl AccountLimits {
    /// Limits for a fleet's account: `JetStream` storage for the fleet's buckets at their limits with three replicas each, no memory streams, and few
    /// streams and consumers. A broker with less disk space than the limit offers the account no `JetStream` at all.
    pub fn with_jetstream(uses: &[StoreUse]) -> Self {
        Self {
            mem_storage: Some(0),
            disk_storage: Some(stores::account_storage_bytes(uses).cast_signed()),
            streams: Some(16),
            consumer: Some(16),
            ..Self::default()
        }
    }
}

/// One of an account's signing keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SigningKeyEntry {
    /// May sign users with any permissions. Represents no role.
    Plain(PublicKey),
    /// May sign users with the permissions of its template.
    Scoped(Box<ScopedKey>),
}

/// A signing key with a permission template for all users it signs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScopedKey {
    /// `user_scope`.
    pub kind: String,
    /// The signing key.
    pub key: PublicKey,
    /// The role's name; see [`UserRole`].
    #[serde(default)]
    pub role: String,
    /// The permissions.
    pub template: PermissionTemplate,
}

impl ScopedKey {
    /// Creates a key that signs users of this role.
    pub fn new(key: PublicKey, role: UserRole, template: PermissionTemplate) -> Self {
        Self::with_role_name(key, role.as_str(), template)
    }

    /// Creates a key with another role than those of [`UserRole`]. Nodes and callers accept no messages of its users.
    pub fn with_role_name(key: PublicKey, role: &str, template: PermissionTemplate) -> Self {
        Self { kind: "user_scope".to_owned(), key, role: role.to_owned(), template }
    }
}

/// Permissions with the placeholders `{{name()}}`, `{{subject()}}` and `{{tag(..)}}`, which the broker expands from the user's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionTemplate {
    /// Publish permissions.
    #[serde(default, rename = "pub")]
    pub publish: SubjectPermissions,
    /// Subscribe permissions.
    #[serde(default, rename = "sub")]
    pub subscribe: SubjectPermissions,
    /// Response permissions on subjects without publish permission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resp: Option<ResponsePermission>,
    /// Subscriptions per connection; -1 is unlimited.
    pub subs: i64,
    /// Bytes per connection.
    pub data: i64,
    /// Bytes per message.
    pub payload: i64,
    /// Other NATS fields: times of day, source networks, connection types.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Subjects that are allowed and denied. NATS takes an empty `allow` for "everything".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectPermissions {
    /// Allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied, even if allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Limits of responses to a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponsePermission {
    /// Responses per message.
    pub max: u32,
    /// Time limit in nanoseconds.
    pub ttl: u64,
}

/// Claims of a user: node, caller or service. Permissions come from the role; only an administrator has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserClaims {
    /// The account; set because a signing key issued the token rather than the account key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_account: Option<PublicKey>,
    /// `key:value` in lower case; the values of `{{tag(key)}}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Publish permissions, if the account's own key signed.
    #[serde(default, rename = "pub", skip_serializing_if = "Option::is_none")]
    pub publish: Option<SubjectPermissions>,
    /// Subscribe permissions, if the account's own key signed.
    #[serde(default, rename = "sub", skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<SubjectPermissions>,
    /// Limit of subscriptions, if the account's own key signed; -1 is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subs: Option<i64>,
    /// Limit of bytes, if the account's own key signed; -1 is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<i64>,
    /// Limit of one message, if the account's own key signed; -1 is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<i64>,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
}

impl UserClaims {
    /// Creates claims of a user of this account.
    pub fn new(account: PublicKey, tags: Vec<String>) -> Self {
        Self {
            issuer_account: Some(account),
            tags,
            publish: None,
            subscribe: None,
            subs: None,
            data: None,
            payload: None,
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
        }
    }

    /// Creates claims of a user with its own permissions, signed by the account key. It has no role, so no node or caller accepts it.
    pub fn new_administrator(publish: SubjectPermissions, subscribe: SubjectPermissions) -> Self {
        Self {
            issuer_account: None,
            tags: Vec::new(),
            publish: Some(publish),
            subscribe: Some(subscribe),
            subs: Some(-1),
            data: Some(-1),
            payload: Some(-1),
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
        }
    }
}
