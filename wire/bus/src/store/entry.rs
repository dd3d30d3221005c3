//! Parses the broker's metadata of a stored message: key, revision, time.
//!
//! The broker appends these headers to those of the writer. A writer may send headers of the same names, so a message with a
//! duplicate of one of them is a forgery and is ignored.

use async_nats::{HeaderMap, Message};
use bytes::Bytes;
use serde::Serialize;

/// The header with the kind of a change.
pub(super) const OPERATION_HEADER: &str = "KV-Operation";

/// One state of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketEntry {
    /// The key.
    pub key: String,
    /// The value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// The sequence number of the change in the bucket.
    pub revision: u64,
    /// When the broker stored it, by the broker's clock, in milliseconds since the epoch.
    pub created: u64,
}

/// What is stored after a revision.
#[derive(Default)]
pub(super) struct StoredChanges {
    pub entries: Vec<BucketEntry>,
    /// Whether a message is stored there, valid or not.
    pub any_stored: bool,
}

/// Parses a stored message of this bucket; `None` for other messages and forgeries.
pub(super) fn parse_entry(bucket: &str, message: &Message) -> Option<BucketEntry> {
    let headers = message.headers.as_ref()?;
    let stream = single_header(headers, "Nats-Stream")?;
    let key = single_header(headers, "Nats-Subject")?
        .strip_prefix("$KV.")?
        .strip_prefix(bucket)?
        .strip_prefix('.')?;
    let revision = single_header(headers, "Nats-Sequence")?.parse().ok()?;
    let time: jiff::Timestamp = single_header(headers, "Nats-Time-Stamp")?.parse().ok()?;
    (stream.strip_prefix("KV_") == Some(bucket)).then(|| BucketEntry {
        key: key.to_owned(),
        value: (headers.get(OPERATION_HEADER).is_none()).then(|| message.payload.clone()),
        revision,
        created: u64::try_from(time.as_millisecond()).unwrap_or_default(),
    })
}

/// A record as the JSON of a value.
///
/// # Panics
/// If the type cannot be written as JSON, such as a map whose keys are no texts.
#[expect(clippy::expect_used, reason = "whether it can be written depends on the type alone")]
pub fn json_bytes(record: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(record).expect("records can be written as JSON"))
}

/// Whether a message is a status of the broker rather than a stored message: stored messages always have a sequence.
pub(super) fn is_control(message: &Message) -> bool {
    let sequence = message.headers.as_ref().and_then(|headers| headers.get("Nats-Sequence"));
    sequence.is_none()
}

/// A header that occurs exactly once.
fn single_header<'a>(headers: &'a HeaderMap, name: &'static str) -> Option<&'a str> {
    let mut values = headers.get_all(name);
    let value = values.next()?;
    values.next().is_none().then(|| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: [(&str, &str); 4] = [
        ("Nats-Stream", "KV_PERMITS"),
        ("Nats-Subject", "$KV.PERMITS.claim.1.web1"),
        ("Nats-Sequence", "7"),
        ("Nats-Time-Stamp", "2026-11-23T09:46:40.662511036Z"),
    ];

    fn message(headers: &[(&'static str, &str)]) -> Message {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        Message {
            subject: "_INBOX.x".into(),
            reply: None,
            payload: Bytes::from_static(b"v"),
            headers: Some(map),
            status: None,
            description: None,
            length: 1,
        }
    }

    #[test]
    fn stored_message_is_parsed() {
        let entry = parse_entry("PERMITS", &message(&STORED)).unwrap();
        assert_eq!((entry.key.as_str(), entry.revision), ("claim.1.web1", 7));
        assert_eq!(entry.created, 1_795_427_200_662);
        assert_eq!(entry.value.as_deref(), Some(&b"v"[..]));
    }

    #[test]
    fn duplicate_server_header_invalidates_the_entry() {
        for (name, _) in STORED {
            let mut headers = vec![(name, "1")];
            headers.extend(STORED);
            assert_eq!(parse_entry("PERMITS", &message(&headers)), None, "{name}");
        }
    }

    #[test]
    fn missing_headers_and_other_streams_or_subjects_are_ignored() {
        for left_out in 0..STORED.len() {
            let mut headers = STORED.to_vec();
            headers.remove(left_out);
            assert_eq!(parse_entry("PERMITS", &message(&headers)), None, "{left_out}");
        }
        assert_eq!(parse_entry("PROVISION", &message(&STORED)), None);
        assert_eq!(parse_entry("PERMIT", &message(&STORED)), None);
    }

    #[test]
    fn removed_entry_has_no_value() {
        let mut headers = STORED.to_vec();
        headers.push((OPERATION_HEADER, "DEL"));
        assert_eq!(parse_entry("PERMITS", &message(&headers)).unwrap().value, None);
    }
}
