//! What a node publishes about itself: a signed record in the bucket `NODES`, under its own name, and small signed heartbeats in between.
//!
//! A record has the node's facts, classes, agents and collectives. Its content is compressed (DEFLATE, base64): facts of real machines shrink to about
//! a quarter. A node writes a new record when the content changes, apart from facts that always change; their values are as old as the record.
//! A heartbeat says that the node is alive, and which record is its newest.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use muster_filter::state::{MapField, NodeFacts};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::Millis;
use crate::compressed::{
    CompressedJsonError, compress_json, decompress_beginning, decompress_json,
};
use crate::identity::{Identity, SubjectName};
use crate::limits::{MAX_RECORD_CONTENT_BYTES, MAX_RECORD_HEAD_BYTES};
use crate::node_history::NodeHistory;

/// Bytes of a digest before encoding.
const DIGEST_BYTES: usize = 16;

/// Heartbeats that one of two daemons with the same name and key may miss before it counts as gone.
pub const CLONE_HEARTBEATS: u32 = 3;

/// The body of a signed record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The name in the node's token, repeated here because the body is signed.
    pub sender: Identity,
    /// When the node made the record, by its clock. Later records of a node have later times.
    pub time: Millis,
    /// The digest of the content without facts that always change.
    pub digest: String,
    /// The compressed [`NodeContent`].
    pub content: String,
    /// The compressed [`NodeHistory`]; absent if nothing has changed yet, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
}

/// The body of a signed heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHeartbeat {
    /// The name in the node's token.
    pub sender: Identity,
    /// When it was sent, by the node's clock.
    pub time: Millis,
    /// The digest in the newest record.
    pub digest: String,
    /// Identifies the run of the daemon: another value after each start.
    pub boot: Uuid,
}

/// What a node says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeContent {
    /// Version of the daemon.
    pub version: String,
    /// Collectives, the main one first.
    pub collectives: Vec<SubjectName>,
    /// Versions of agents, by name.
    pub agents: BTreeMap<String, String>,
    /// Classes, lower-case and sorted; absent while they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// Facts, nested as collected.
    pub facts: NodeFacts,
    /// Seconds between two heartbeats.
    pub heartbeat_seconds: u32,
    /// The other maps, each as a field with its name, such as `state`; absent while they are unknown.
    #[serde(flatten, deserialize_with = "read_optional_maps")]
    pub optional_maps: BTreeMap<MapField, NodeFacts>,
}

impl NodeRecord {
    /// A record with this content. `stable` is the content without facts that always change, whose digest identifies it.
    pub fn new(
        sender: Identity,
        time: Millis,
        content: &NodeContent,
        stable: &NodeContent,
    ) -> Result<Self, CompressedJsonError> {
        let digest = stable.digest()?;
        Ok(Self { sender, time, digest, content: compress_json(content)?, history: None })
    }

    /// The record with this history.
    #[must_use]
    pub fn with_history(self, history: Option<String>) -> Self {
        Self { history, ..self }
    }

    /// Decompresses and parses the content, and checks its bounds.
    pub fn decode_content(&self) -> Result<NodeContent, CompressedJsonError> {
        let content: NodeContent = decompress_json(&self.content, MAX_RECORD_CONTENT_BYTES)?;
        content.check_bounds()?;
        Ok(content)
    }

    /// Version and collectives of a content that [`Self::decode_content`] refuses, as far as they can be read. The rest is empty.
    pub fn decode_head(&self) -> NodeContent {
        let beginning = decompress_beginning(&self.content, MAX_RECORD_HEAD_BYTES);
        NodeContent::head_of(&beginning.unwrap_or_default())
    }

    /// Decompresses and parses the history; empty if the record has none.
    pub fn decode_history(&self) -> Result<NodeHistory, CompressedJsonError> {
        let text = self.history.as_deref();
        text.map_or_else(|| Ok(NodeHistory::default()), NodeHistory::decompress)
    }
}

impl NodeContent {
    /// A field that is a map; `None` while it is unknown.
    pub fn map(&self, field: MapField) -> Option<&NodeFacts> {
        if field == MapField::Facts { Some(&self.facts) } else { self.optional_maps.get(&field) }
    }

    /// The content with this map.
    #[must_use]
    pub fn with_map(mut self, field: MapField, map: NodeFacts) -> Self {
        if field == MapField::Facts {
            self.facts = map;
        } else {
            self.optional_maps.insert(field, map);
        }
        self
    }

    /// The public host keys of sshd in the state.
    pub fn ssh_host_keys(&self) -> Vec<String> {
        ssh_host_keys(self.map(MapField::State))
    }

    /// The digest of the whole content.
    pub fn digest(&self) -> Result<String, CompressedJsonError> {
        let text = serde_json::to_vec(self).map_err(CompressedJsonError::Json)?;
        let digest = Sha256::digest(&text);
        let (short, _) = digest.split_at(DIGEST_BYTES);
        Ok(STANDARD_NO_PAD.encode(short))
    }
}

/// Reads the maps that this version knows. Other fields are ignored, so that records of later versions can be read.
fn read_optional_maps<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<BTreeMap<MapField, NodeFacts>, D::Error> {
    let mut fields = Map::deserialize(source)?;
    let known = MapField::optional().filter_map(|field| {
        let value = fields.remove(field.as_str())?;
        (!value.is_null()).then_some((field, value))
    });
    let parse = |(field, value)| {
        NodeFacts::from_value(value).map(|map| (field, map)).map_err(D::Error::custom)
    };
    known.map(parse).collect()
}

/// The public host keys of sshd in the state of a node, type and key.
pub fn ssh_host_keys(state: Option<&NodeFacts>) -> Vec<String> {
    let keys = state.and_then(|state| state.get("ssh.host_keys")).and_then(Value::as_array);
    let keys = keys.into_iter().flatten();
    keys.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use serde_json::json;

    use super::*;

    fn content() -> NodeContent {
        NodeContent {
            version: "0.1.0".to_owned(),
            collectives: vec![SubjectName::parse("muster").unwrap()],
            agents: [("rpcutil".to_owned(), "1.0.0".to_owned())].into(),
            classes: Some(vec!["mysql::master".to_owned()]),
            facts: NodeFacts::from_value(json!({"os": {"family": "Debian"}, "uptime": 7})).unwrap(),
            heartbeat_seconds: 60,
            ..NodeContent::default()
        }
    }

    #[test]
    fn content_survives_compression() {
        let sender = Identity::parse("db1.acme.net").unwrap();
        let record = NodeRecord::new(sender, 5, &content(), &content()).unwrap();
        assert_eq!(record.decode_content().unwrap(), content());
        assert_eq!(record.digest, content().digest().unwrap());
    }

    #[test]
    fn digest_ignores_what_the_stable_content_leaves_out() {
        let stable = NodeContent {
            facts: NodeFacts::from_value(json!({"os": {"family": "Debian"}})).unwrap(),
            ..content()
        };
        let sender = Identity::parse("db1.acme.net").unwrap();
        let record = NodeRecord::new(sender, 5, &content(), &stable).unwrap();
        assert_eq!(record.digest, stable.digest().unwrap());
        assert_ne!(record.digest, content().digest().unwrap());
    }

    #[test]
    fn maps_are_fields_and_unknown_fields_are_ignored() {
        let state = NodeFacts::from_value(json!({"ssh": {}})).unwrap();
        let known = content().with_map(MapField::State, state);
        let text = serde_json::to_string(&known).unwrap();
        assert!(text.ends_with(r#""heartbeat_seconds":60,"state":{"ssh":{}}}"#), "{text}");
        let later = text.replacen('{', r#"{"later":{"a":[1.5]},"#, 1);
        assert_eq!(serde_json::from_str::<NodeContent>(&later).unwrap(), known);
        let unknown = text.replace(r#"{"ssh":{}}"#, "null");
        assert_eq!(serde_json::from_str::<NodeContent>(&unknown).unwrap(), content());
        let invalid = text.replace(r#"{"ssh":{}}"#, "7");
        serde_json::from_str::<NodeContent>(&invalid).unwrap_err();
    }

    #[test]
    fn decompression_stops_at_the_limit() {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        for _ in 0..=MAX_RECORD_CONTENT_BYTES / 1024 {
            encoder.write_all(&[b' '; 1024]).unwrap();
        }
        let compressed = encoder.finish().unwrap();
        assert!(compressed.len() < 64 * 1024);
        let record = NodeRecord {
            sender: Identity::parse("db1").unwrap(),
            time: 0,
            digest: String::new(),
            content: STANDARD_NO_PAD.encode(compressed),
            history: None,
        };
        assert!(matches!(record.decode_content(), Err(CompressedJsonError::TooLarge(_))));
        for content in ["!", "AAAA", ""] {
            let record = NodeRecord { content: content.to_owned(), ..record.clone() };
            assert!(record.decode_content().is_err(), "{content}");
        }
    }
}
