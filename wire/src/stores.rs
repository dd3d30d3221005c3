//! The buckets that a fleet keeps in its broker. What a value in them means is its owner's business; who may write which key is the
//! broker's, by [`Role::template`](crate::token::Role::template).

use std::time::Duration;

/// One bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store {
    /// Its name, as in `$KV.NAME.key`.
    pub name: &'static str,
    /// For people.
    pub description: &'static str,
    /// Values that were not written for this long go away by themselves.
    pub max_age: Option<Duration>,
}

/// Run permits: who waits and who runs. Each node writes keys that end in its own name. What a node that is gone for good left behind
/// goes away by itself.
pub const PERMITS: Store = Store {
    name: "PERMITS",
    description: "Run permits: who waits, who runs",
    max_age: Some(Duration::from_hours(48)),
};

/// What is known of instances that become nodes, and who leads. Services write it, and nobody else reads it.
pub const PROVISION: Store = Store {
    name: "PROVISION",
    description: "Instances that become nodes",
    max_age: None,
};

/// Every bucket.
pub const ALL: [Store; 2] = [PERMITS, PROVISION];
