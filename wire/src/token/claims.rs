//! What tokens say: the claims of operators, accounts and users, in the layout of NATS' JWT version 2.
//!
//! Fields that we do not use are kept for accounts (so that re-issuing one that `nsc` made loses nothing) and ignored
//! for operators and users. Nothing here is believed yet: see [`super::decode`] and [`super::AccountTrust`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::nkey::{KeyKind, PublicKey};
use super::{Seconds, UserRole};

/// The version of NATS' claims that is written and read.
pub const CLAIMS_VERSION: u8 = 2;

/// One token's claims; `N` is what NATS adds for the kind of subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenClaims<N> {
    /// Base32 of SHA-512/256 of the claims without this field: a name for the token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jti: String,
    /// When it was issued.
    pub iat: Seconds,
    /// Whose key signed it.
    pub iss: PublicKey,
    /// For people; for users, the identity.
    #[serde(default)]
    pub name: String,
    /// Whose token it is.
    pub sub: PublicKey,
    /// After this it is void; zero and absent mean never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exp: Seconds,
    /// Before this it is void.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nbf: Seconds,
    /// What NATS adds.
    pub nats: N,
}

/// The NATS part of a token's claims.
pub trait NatsClaims: Serialize + for<'de> Deserialize<'de> {
    /// The word in `type`.
    const TYPE: &'static str;
    /// The kind of key that the token is about.
    const SUBJECT: KeyKind;
    /// The kind of key that signs such tokens.
    const ISSUER: KeyKind;
    /// What it says that it is, and of which version: [`Self::TYPE`] and [`CLAIMS_VERSION`], if it is.
    fn type_and_version(&self) -> (&str, u8);
}

macro_rules! part {
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

part!(OperatorClaims, "operator", Operator, Operator);
part!(AccountClaims, "account", Account, Operator);
part!(UserClaims, "user", User, Account);

/// An organisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorClaims {
    /// The account of the broker's own events and monitoring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_account: Option<PublicKey>,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
}

impl OperatorClaims {
    /// An operator with this system account.
    pub fn new(system_account: Option<PublicKey>) -> Self {
        Self {
            system_account,
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
        }
    }
}

/// A fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountClaims {
    /// How much it may use; the broker refuses a token without.
    #[serde(default)]
    pub limits: AccountLimits,
    /// Who may sign users: plain keys, or roles with their permissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signing_keys: Vec<SigningKeyEntry>,
    /// User key, or `*`, to the instant up to which its tokens are void.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revocations: BTreeMap<String, Seconds>,
    /// [`NatsClaims::TYPE`].
    #[serde(rename = "type")]
    pub kind: String,
    /// [`CLAIMS_VERSION`].
    pub version: u8,
    /// What else NATS knows: exports, imports, mappings.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl AccountClaims {
    /// An account with these signing keys and no limits of its own.
    pub fn new(limits: AccountLimits, signing_keys: Vec<SigningKeyEntry>) -> Self {
        Self {
            limits,
            signing_keys,
            revocations: BTreeMap::new(),
            kind: Self::TYPE.to_owned(),
            version: CLAIMS_VERSION,
            rest: Map::new(),
        }
    }

    /// Voids every token of this user that was issued up to `until`. A later revocation stands over an earlier one.
    pub fn revoke_user(&mut self, user: &PublicKey, until: Seconds) {
        let entry = self.revocations.entry(user.to_string()).or_insert(until);
        *entry = until.max(*entry);
    }
}

/// Limits of an account; -1 is unlimited. `JetStream` is off unless its limits are given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountLimits {
    /// Subscriptions.
    pub subs: i64,
    /// Bytes in total.
    pub data: i64,
    /// Bytes of one message.
    pub payload: i64,
    /// Imported subjects.
    pub imports: i64,
    /// Exported subjects.
    pub exports: i64,
    /// Whether exports may have wildcards.
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
    /// What else NATS limits.
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
    /// `JetStream` with room for the fleet's buckets in three copies each, no streams in memory, and few streams and consumers: what a
    /// fleet's account needs. A broker whose disk has less room than the limit offers the account no `JetStream` at all.
    pub fn with_jetstream() -> Self {
        Self {
            mem_storage: Some(0),
            disk_storage: Some(1536 * 1024 * 1024),
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
    /// May sign users with any permissions. Stands for no role of ours.
    Plain(PublicKey),
    /// May sign users whose permissions are the template's.
    Scoped(Box<ScopedKey>),
}

/// A signing key with the permissions of everybody it signs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScopedKey {
    /// `user_scope`.
    pub kind: String,
    /// The key that signs.
    pub key: PublicKey,
    /// The role's name; ours are those of [`UserRole`].
    #[serde(default)]
    pub role: String,
    /// The permissions.
    pub template: PermissionTemplate,
}

impl ScopedKey {
    /// A key that signs users of this role.
    pub fn new(key: PublicKey, role: UserRole, template: PermissionTemplate) -> Self {
        Self {
            kind: "user_scope".to_owned(),
            key,
            role: role.as_str().to_owned(),
            template,
        }
    }
}

/// Permissions with `{{name()}}`, `{{subject()}}` and `{{tag(..)}}`, which the broker fills in from the user's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionTemplate {
    /// Where to publish.
    #[serde(default, rename = "pub")]
    pub publish: SubjectPermissions,
    /// Where to subscribe.
    #[serde(default, rename = "sub")]
    pub subscribe: SubjectPermissions,
    /// Whether and how long answering is allowed where publishing is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resp: Option<ResponsePermission>,
    /// Subscriptions of one connection; -1 is unlimited.
    pub subs: i64,
    /// Bytes of one connection.
    pub data: i64,
    /// Bytes of one message.
    pub payload: i64,
    /// What else NATS knows: times of day, source networks, connection types.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Subjects that are allowed and denied. NATS takes an empty `allow` for "everything".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectPermissions {
    /// Allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied, even if allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// How often and how long a received message may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponsePermission {
    /// Answers to one message.
    pub max: u32,
    /// For how long, in nanoseconds.
    pub ttl: u64,
}

/// A party: node, caller or service. Its permissions are its role's, so it has none of its own; only an administrator has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserClaims {
    /// The account, because a signing key and not the account itself signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_account: Option<PublicKey>,
    /// `key:value` in lower case; what `{{tag(key)}}` stands for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Where to publish, if the account's own key signed.
    #[serde(default, rename = "pub", skip_serializing_if = "Option::is_none")]
    pub publish: Option<SubjectPermissions>,
    /// Where to subscribe, if the account's own key signed.
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
    /// A user of this account.
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

    /// A user with permissions of its own, signed by the account's own key. It has no role, so that no node or caller believes it.
    pub fn new_administrator(
        (publish, subscribe): (SubjectPermissions, SubjectPermissions),
    ) -> Self {
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(value: &Seconds) -> bool {
    *value == 0
}
