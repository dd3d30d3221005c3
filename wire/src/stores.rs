//! The buckets that a fleet keeps in its broker, and their keys. What a value in them means is its owner's business; who may write which
//! key is the broker's, by [`Role::template`](crate::token::UserRole::permission_template).
//!
//! A bucket is a `JetStream` stream over `$KV.<bucket>.>` that keeps the last value of each key. The broker publishes each change on
//! `_W.<bucket>.<key>`, and answers reads directly, so that no reader needs a consumer.

use std::time::Duration;

/// One bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketDefinition {
    /// Its name, as in `$KV.NAME.key`.
    pub name: &'static str,
    /// For people.
    pub description: &'static str,
    /// Values that were not written for this long go away by themselves.
    pub max_age: Option<Duration>,
    /// Largest value with its headers, in bytes.
    pub max_value_bytes: u32,
    /// Largest size of the whole bucket, in bytes; the broker refuses writes beyond it.
    pub max_bytes: u64,
}

/// Run permits: who waits and who runs. Each node writes keys that end in its own name. What a node that is gone for good left behind
/// goes away by itself. The size is that of 4,000 nodes that use all their keys at once, or 50,000 that use one.
pub const PERMITS_BUCKET: BucketDefinition = BucketDefinition {
    name: "PERMITS",
    description: "Run permits: who waits, who runs",
    max_age: Some(Duration::from_hours(48)),
    max_value_bytes: 1024,
    max_bytes: 64 * MIB,
};

/// What is known of instances that become nodes, and who leads. Services write it, and nobody else reads it.
pub const PROVISION_BUCKET: BucketDefinition = BucketDefinition {
    name: "PROVISION",
    description: "Instances that become nodes",
    max_age: None,
    max_value_bytes: 512 * 1024,
    max_bytes: 256 * MIB,
};

/// What the fleet trusts: the newest account token, and renewed tokens of nodes. Nothing in it is secret, and readers verify each
/// signature up to the operator.
pub const TRUST_BUCKET: BucketDefinition = BucketDefinition {
    name: "TRUST",
    description: "The account's newest token, renewed tokens of nodes",
    max_age: None,
    max_value_bytes: 1024 * 1024,
    max_bytes: 96 * MIB,
};

/// Every bucket.
pub const ALL_BUCKETS: [BucketDefinition; 3] = [PERMITS_BUCKET, PROVISION_BUCKET, TRUST_BUCKET];

/// Pools of permits in which one node may take part at a time.
pub const MAX_PERMIT_SLOTS: u8 = 4;

/// What a node writes into one slot of the bucket of permits.
pub const PERMIT_KEY_PREFIXES: [&str; 3] = ["wait", "claim", "beat"];

/// In [`TRUST_BUCKET`]: the account's newest token.
pub const TRUST_ACCOUNT_KEY: &str = "account";

/// In [`TRUST_BUCKET`]: serial number and digest of the newest token, so that only readers of an older one fetch it.
pub const TRUST_HEAD_KEY: &str = "head";

/// The keys of [`TRUST_BUCKET`] that nodes and callers read.
pub const TRUST_READER_KEYS: [&str; 2] = [TRUST_ACCOUNT_KEY, TRUST_HEAD_KEY];

const MIB: u64 = 1024 * 1024;

/// The key of a run permit: `SIGN.SLOT.NODE`.
///
/// The pool is in the value, and the slot is a small number, so that the broker's permission lists all keys of a node: one stolen node
/// key cannot fill the bucket.
pub fn permit_key(sign: &str, slot: u8, node: &str) -> String {
    format!("{sign}.{slot}.{node}")
}

/// Every key of [`PERMITS_BUCKET`] that a node may write.
pub fn permit_keys(node: &str) -> Vec<String> {
    let signs = PERMIT_KEY_PREFIXES.into_iter();
    signs
        .flat_map(|sign| (1..=MAX_PERMIT_SLOTS).map(move |slot| permit_key(sign, slot, node)))
        .collect()
}

/// In [`TRUST_BUCKET`]: the renewed token of a node.
pub fn renewed_token_key(node: &str) -> String {
    format!("token.{node}")
}
