//! The key-value buckets of a fleet in its broker, and their keys. The owning module defines the meaning of the values. The broker
//! enforces write permissions per key, from [`UserRole::permission_template`](crate::token::UserRole::permission_template).
//!
//! A bucket is a `JetStream` stream over `$KV.<bucket>.>` that keeps the last value of each key. The broker republishes each change on
//! `_W.<bucket>.<key>` and serves direct gets, so readers need no consumer.

use std::time::Duration;

use crate::token::service_right::ServiceRight;

/// The definition of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketDefinition {
    /// Bucket name, as in `$KV.NAME.key`.
    pub name: &'static str,
    /// Description in plain text.
    pub description: &'static str,
    /// Values not written for this long are removed by the broker.
    pub max_age: Option<Duration>,
    /// Largest value with its headers, in bytes.
    pub max_value_bytes: u32,
    /// Largest size of the bucket, in bytes. The broker refuses writes beyond it, and reserves the space for each replica, so that a full bucket takes no
    /// space from others.
    pub max_bytes: u64,
    /// The size in earlier versions, which is lowered; any other size that an operator raised stays.
    pub former_max_bytes: Option<u64>,
    /// Values of a key that are kept: the last ones. A bucket with more than one takes the place of the oldest values when it is full.
    pub values_per_key: u16,
    /// What a fleet has the bucket for; `None` for those that every fleet has.
    pub needed_for: Option<StoreUse>,
}

/// What needs buckets that not every fleet has: some reserve as much space as all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreUse {
    /// The service with this right.
    Service(ServiceRight),
    /// Upgrades of daemons to the programs that the account token lists.
    Upgrades,
}

impl StoreUse {
    /// All uses of buckets.
    pub const ALL: [Self; 3] = [
        Self::Service(ServiceRight::Compile),
        Self::Service(ServiceRight::History),
        Self::Upgrades,
    ];
}

/// What most buckets have.
const COMMON: BucketDefinition = BucketDefinition {
    name: "",
    description: "",
    max_age: None,
    max_value_bytes: 1024,
    max_bytes: 0,
    former_max_bytes: None,
    values_per_key: 1,
    needed_for: None,
};

/// Run permits: waiting and running nodes. Each node writes keys that end in its own name. Entries of removed nodes expire
/// through `max_age`. The size fits 4,000 nodes that use all their keys at once, or 50,000 that use one.
pub const PERMITS_BUCKET: BucketDefinition = BucketDefinition {
    name: "PERMITS",
    description: "Run permits: waiting and running nodes",
    max_age: Some(Duration::from_hours(48)),
    max_bytes: 64 * MIB,
    ..COMMON
};

/// State of instances being provisioned, and the leader lease. Only services read and write it.
pub const PROVISION_BUCKET: BucketDefinition = BucketDefinition {
    name: "PROVISION",
    description: "State of instances being provisioned",
    max_value_bytes: 512 * 1024,
    max_bytes: 128 * MIB,
    former_max_bytes: Some(256 * MIB),
    ..COMMON
};

/// The newest account token, with all revocations. Only the organisation's own commands write it, so no stolen key can fill it or remove a revocation.
/// Readers verify the signature of the operator.
pub const TRUST_BUCKET: BucketDefinition = BucketDefinition {
    name: "TRUST",
    description: "The account's newest token",
    max_value_bytes: 1024 * 1024,
    max_bytes: 8 * MIB,
    former_max_bytes: Some(96 * MIB),
    ..COMMON
};

/// The renewed token of each node, under its name. Services that provision nodes write it. It holds no secrets, and readers verify each signature up to the
/// operator.
pub const TOKENS_BUCKET: BucketDefinition = BucketDefinition {
    name: "TOKENS",
    description: "Renewed tokens of nodes",
    // A token has at most 16 KiB; the rest is for headers.
    max_value_bytes: 17 * 1024,
    max_bytes: 64 * MIB,
    ..COMMON
};

/// Requests that a caller on a slow link sends once for many nodes, encrypted: see [`crate::stored_request`]. If it is full, callers send each node
/// the request itself.
pub const REQUESTS_BUCKET: BucketDefinition = BucketDefinition {
    name: "REQUESTS",
    description: "Encrypted requests to many nodes",
    max_age: Some(Duration::from_mins(2)),
    // Encryption adds 16 bytes; the rest is for headers.
    max_value_bytes: 1024 * 1024 + 1024,
    max_bytes: 48 * MIB,
    former_max_bytes: Some(64 * MIB),
    ..COMMON
};

/// The newest signed record of each node, under its name: see [`crate::node_record`]. Values do not expire, because a mass expiry would look like a mass
/// failure. Each node writes one key, and no other role writes. The size fits 50,000 records of 5.8 KiB.
pub const NODES_BUCKET: BucketDefinition = BucketDefinition {
    name: "NODES",
    description: "Signed records of nodes: facts, classes, agents",
    max_value_bytes: 64 * 1024 + 1024,
    max_bytes: 288 * MIB,
    ..COMMON
};

/// Under the name of a node: a note of a directory that it leaves out the node's record of this or an earlier revision. The size fits 60,000 notes.
pub const FORGOTTEN_BUCKET: BucketDefinition = BucketDefinition {
    name: "FORGOTTEN",
    description: "Nodes that the directory leaves out",
    max_bytes: 8 * MIB,
    ..COMMON
};

/// Schedules, signed by their authors, what they did last on each node, and the leader lease. Only schedulers read and write it.
pub const SCHEDULES_BUCKET: BucketDefinition = BucketDefinition {
    name: "SCHEDULES",
    description: "Signed schedules, and their last turns",
    max_value_bytes: 512 * 1024,
    max_bytes: 32 * MIB,
    ..COMMON
};

/// Catalogs that were compiled ahead: `catalog.NODE.ADDRESS`, signed by their compiler; `newest.NODE`, the last compile of each
/// node with what it read; `code.ENVIRONMENT`, the commit to compile; `release.NAME`, signed by its author; `released.NODE`, a promotion, signed by its author.
/// Compilers write; a node reads its own catalogs and its own promotion. The size fits
/// 25,000 nodes with two catalogs each of 7.6 KiB.
pub const CATALOGS_BUCKET: BucketDefinition = BucketDefinition {
    name: "CATALOGS",
    description: "Compiled catalogs, and what they read",
    max_value_bytes: 1024 * 1024 + 1024,
    max_bytes: 384 * MIB,
    needed_for: Some(StoreUse::Service(ServiceRight::Compile)),
    ..COMMON
};

/// The files that catalogs name, by their SHA-256: `file.HASH` and `chunk.HASH`, written once by compilers. Every node can read every file.
pub const CONTENT_BUCKET: BucketDefinition = BucketDefinition {
    name: "CONTENT",
    description: "Files of catalogs, by hash",
    max_value_bytes: 512 * 1024 + 1024,
    max_bytes: 768 * MIB,
    needed_for: Some(StoreUse::Service(ServiceRight::Compile)),
    ..COMMON
};

/// Nodes that wait for a compile, under `want.NODE`, at most one entry each. Compilers read and write it.
pub const COMPILES_BUCKET: BucketDefinition = BucketDefinition {
    name: "COMPILES",
    description: "Nodes that wait for a compile",
    max_value_bytes: 4 * 1024,
    max_bytes: 24 * MIB,
    needed_for: Some(StoreUse::Service(ServiceRight::Compile)),
    ..COMMON
};

/// What happened on each node, under its name: see [`crate::history`]. Nodes write, and the history reads: its index keeps what the bucket
/// no longer has. A node takes 6 MiB at most.
pub const HISTORY_BUCKET: BucketDefinition = BucketDefinition {
    name: "HISTORY",
    description: "Audit records and runs of nodes",
    max_age: Some(Duration::from_hours(7 * 24)),
    max_value_bytes: 48 * 1024 + 1024,
    max_bytes: 160 * MIB,
    values_per_key: 128,
    needed_for: Some(StoreUse::Service(ServiceRight::History)),
    ..COMMON
};

/// Programs of the daemon, compressed, by hash as in [`CONTENT_BUCKET`]. Only commands of `rpc org` write, and every node can read. A node runs only those that the
/// account token lists. The size fits four programs.
pub const PROGRAMS_BUCKET: BucketDefinition = BucketDefinition {
    name: "PROGRAMS",
    description: "Programs of the daemon, for upgrades",
    max_value_bytes: 512 * 1024 + 1024,
    max_bytes: 64 * MIB,
    needed_for: Some(StoreUse::Upgrades),
    ..COMMON
};

/// All buckets.
pub const ALL_BUCKETS: [BucketDefinition; 13] = [
    TRUST_BUCKET,
    PERMITS_BUCKET,
    PROVISION_BUCKET,
    TOKENS_BUCKET,
    REQUESTS_BUCKET,
    NODES_BUCKET,
    FORGOTTEN_BUCKET,
    SCHEDULES_BUCKET,
    CATALOGS_BUCKET,
    CONTENT_BUCKET,
    COMPILES_BUCKET,
    HISTORY_BUCKET,
    PROGRAMS_BUCKET,
];

/// Whether the broker removes the notes of deletions in this bucket by itself, as the writer of a deletion asks. Notes of
/// hashes and old releases are never needed, and there is no end of hashes; those of nodes that no longer wait are needed only after a disconnection.
pub fn forgets_deletions(bucket: &str) -> bool {
    let is_forgetful = |one: &BucketDefinition| {
        let compile = StoreUse::Service(ServiceRight::Compile);
        [Some(compile), Some(StoreUse::Upgrades)].contains(&one.needed_for)
    };
    ALL_BUCKETS.iter().any(|one| one.name == bucket && is_forgetful(one))
}

/// Most servers that store a bucket.
pub const MAX_BUCKET_REPLICAS: u64 = 3;

/// The buckets of a fleet with these uses.
pub fn fleet_buckets(uses: &[StoreUse]) -> impl Iterator<Item = &'static BucketDefinition> {
    ALL_BUCKETS.iter().filter(|bucket| bucket.needed_for.is_none_or(|one| uses.contains(&one)))
}

/// The storage of a fleet's account: its buckets at their limits, on as many servers as store them.
pub fn account_storage_bytes(uses: &[StoreUse]) -> u64 {
    let sizes = fleet_buckets(uses).map(|bucket| bucket.max_bytes);
    sizes.sum::<u64>() * MAX_BUCKET_REPLICAS
}

/// Number of permit pools that one node may use at a time.
pub const MAX_PERMIT_SLOTS: u8 = 4;

/// Key prefixes that a node writes for one slot of the permits bucket.
pub const PERMIT_KEY_PREFIXES: [&str; 3] = ["wait", "claim", "beat"];

/// In [`TRUST_BUCKET`]: the newest account token.
pub const TRUST_ACCOUNT_KEY: &str = "account";

/// In [`TRUST_BUCKET`]: serial number and digest of the newest account token, so that only readers with an older one fetch it.
pub const TRUST_HEAD_KEY: &str = "head";

/// The keys of [`TRUST_BUCKET`] that nodes and callers read.
pub const TRUST_READER_KEYS: [&str; 2] = [TRUST_ACCOUNT_KEY, TRUST_HEAD_KEY];

const MIB: u64 = 1024 * 1024;

/// The key of a run permit: `SIGN.SLOT.NODE`.
///
/// The value names the pool and the slot is a small number, so the broker's permission can list all keys of a node. A stolen node
/// key therefore cannot fill the bucket.
pub fn permit_key(prefix: &str, slot: u8, node: &str) -> String {
    format!("{prefix}.{slot}.{node}")
}

/// Every key of [`PERMITS_BUCKET`] that a node may write.
pub fn permit_keys(node: &str) -> Vec<String> {
    let prefixes = PERMIT_KEY_PREFIXES.into_iter();
    prefixes
        .flat_map(|prefix| (1..=MAX_PERMIT_SLOTS).map(move |slot| permit_key(prefix, slot, node)))
        .collect()
}

/// Start of the tag of each server with its name, by which a stream can be placed on it.
pub const SERVER_TAG_PREFIX: &str = "server:";

/// The tag of the server with this name.
pub fn server_tag(name: &str) -> String {
    format!("{SERVER_TAG_PREFIX}{name}")
}

/// The name of a bucket's stream.
pub fn stream_name(bucket: &str) -> String {
    format!("KV_{bucket}")
}
