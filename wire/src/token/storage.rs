//! The account of the stores, and what the fleet's account imports from it.
//!
//! nats-server answers a request to a stream on whatever reply subject it names, as a client of the stream's account and without a check of permissions. If the fleet were in that
//! account, an answer could be written to any store, or be a request to delete one. From another account, a request arrives with a reply subject of the server's own. When its
//! answer returns and is published in the fleet's account, the server passes it to no import of the export from which it comes. So there is one export for all requests.

use serde_json::{Map, Value, json};

use super::nkey::PublicKey;
use crate::{stores, subject};

/// How long the server expects further answers to a request, after the last one, in nanoseconds. It remembers each request for that long.
const ANSWER_IDLE_NANOS: u64 = 2_000_000_000;

/// The exports of the storage account, as fields of its claims: requests, which have any number of answers, and changes of the stores.
pub fn storage_exports() -> Map<String, Value> {
    let requests = json!({
        "name": "stores",
        "subject": ">",
        "type": "service",
        "response_type": "Stream",
        "response_threshold": ANSWER_IDLE_NANOS,
    });
    let changes = json!({"name": "changes", "subject": ALL_CHANGES, "type": "stream"});
    field("exports", vec![requests, changes])
}

/// What the fleet's account imports from this storage account, as fields of its claims: reads of all stores, writes of all but the trust bucket, and changes.
pub fn fleet_imports(storage: &PublicKey) -> Map<String, Value> {
    let import = |name: String, subject: String, kind: &str| json!({"name": name, "subject": subject, "account": storage, "type": kind});
    let mut imports = vec![import("changes".to_owned(), ALL_CHANGES.to_owned(), "stream")];
    for store in stores::ALL_BUCKETS.map(|store| store.name) {
        let mut subjects = vec![subject::bucket_list(store), subject::bucket_get(store, ">")];
        if store != stores::TRUST_BUCKET.name {
            subjects.push(subject::bucket_key(store, ">"));
        }
        let requests = subjects.into_iter();
        imports.extend(requests.map(|subject| import(store.to_lowercase(), subject, "service")));
    }
    field("imports", imports)
}

/// Changes of all stores.
const ALL_CHANGES: &str = "_W.>";

fn field(name: &str, entries: Vec<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), Value::Array(entries))])
}
