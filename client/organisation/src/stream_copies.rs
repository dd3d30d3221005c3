//! Compares the copies of a stream on the servers of a cluster. nats-server does not notice all damage to its files: a copy can lack messages and still be
//! current, answer reads and become the leader. Repairs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use crate::push::PushError;
use crate::server_reports::{
    ByServer, StorageReport, StreamContent, SystemClient, streams_of_account,
};

/// Time between two comparisons: servers do not remove expired messages at the same moment.
const RECHECK_DELAY: Duration = Duration::from_secs(2);

/// A copy whose content differs from that of most others with the same last message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedCopy {
    stream: String,
    server: String,
    messages: u64,
    /// Messages of the other copies.
    expected: u64,
}

impl fmt::Display for DamagedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, server, messages, expected } = self;
        write!(
            f,
            "stream {stream}: the copy on {server} is damaged: it has {messages} messages, and most others have {expected}; stop {server}, remove its directory `jetstream`, and start it: it gets the streams from the others"
        )
    }
}

impl SystemClient {
    /// The damaged copies in these reports, if they are damaged in further reports too.
    pub(crate) async fn find_damaged_copies(
        &self,
        storage: &ByServer<StorageReport>,
        account: &str,
    ) -> Result<Vec<DamagedCopy>, PushError> {
        let mut damaged = damaged_copies(storage, account);
        if !damaged.is_empty() {
            sleep(RECHECK_DELAY).await;
            let again = damaged_copies(&self.ask_streams().await?, account);
            damaged.retain(|copy| {
                again
                    .iter()
                    .any(|other| (&other.stream, &other.server) == (&copy.stream, &copy.server))
            });
        }
        Ok(damaged)
    }
}

/// The copies that differ from the most frequent content, or from the one with the most messages.
fn damaged_copies(storage: &ByServer<StorageReport>, account: &str) -> Vec<DamagedCopy> {
    // Copies with different last messages are not comparable: one lags behind.
    let mut groups: BTreeMap<(&str, u64), Vec<(&String, &StreamContent)>> = BTreeMap::new();
    for (server, stream) in streams_of_account(storage, account) {
        let group = groups.entry((&stream.name, stream.state.last_seq)).or_default();
        group.push((server, &stream.state));
    }
    let mut damaged = Vec::new();
    for ((stream, _), copies) in groups {
        let size = |content: &StreamContent| (content.messages, content.bytes);
        let count =
            |content| copies.iter().filter(|(_, other)| size(other) == size(content)).count();
        let Some((_, expected)) =
            copies.iter().max_by_key(|(_, copy)| (count(copy), copy.messages))
        else {
            continue;
        };
        let differing = copies.iter().filter(|(_, copy)| size(copy) != size(expected));
        damaged.extend(differing.map(|(server, copy)| DamagedCopy {
            stream: stream.to_owned(),
            server: (*server).clone(),
            messages: copy.messages,
            expected: expected.messages,
        }));
    }
    damaged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::damaged_copies;
    use crate::server_reports::{ByServer, StorageReport};

    /// Reports of servers `a`, `b` and so on with one stream: messages, bytes, and the last message.
    fn reports(copies: &[(u64, u64, u64)]) -> ByServer<StorageReport> {
        let report = |(number, (messages, bytes, last_seq)): (u8, &(u64, u64, u64))| {
            let state = json!({"messages": messages, "bytes": bytes, "last_seq": last_seq});
            let account =
                json!({"id": "A", "stream_detail": [{"name": "KV_TRUST", "state": state}]});
            let report = json!({"account_details": [account]});
            let server = char::from(b'a' + number).to_string();
            (server, serde_json::from_value(report).unwrap())
        };
        (0..).zip(copies).map(report).collect()
    }

    #[test]
    fn copies_that_differ_at_the_same_message_are_damaged() {
        for (copies, expected) in [
            (vec![(20, 826, 42), (20, 826, 42), (20, 826, 42)], vec![]),
            (vec![(0, 0, 42), (20, 826, 42), (20, 826, 42)], vec!["a"]),
            // An older value in the place of a newer one.
            (vec![(20, 826, 42), (20, 826, 42), (20, 820, 42)], vec!["c"]),
            // One lags behind.
            (vec![(19, 800, 41), (20, 826, 42), (20, 826, 42)], vec![]),
            (vec![(20, 826, 42), (18, 700, 42)], vec!["b"]),
            (vec![(5, 826, 42)], vec![]),
        ] {
            let storage = reports(&copies);
            let found = damaged_copies(&storage, "A");
            let servers: Vec<&str> = found.iter().map(|copy| copy.server.as_str()).collect();
            assert_eq!(servers, expected, "{copies:?}");
            assert_eq!(damaged_copies(&storage, "B"), []);
        }
        let text = damaged_copies(&reports(&[(0, 0, 42), (20, 826, 42), (20, 826, 42)]), "A")[0]
            .to_string();
        assert!(
            text.contains("KV_TRUST") && text.contains("0 messages") && text.contains("20"),
            "{text}"
        );
    }
}
