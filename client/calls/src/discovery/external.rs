//! Request and reply format of external discovery programs: Choria's protocol, so that programs written for Choria run unchanged. The caller starts
//! the process; this module does not.
//!
//! ```text
//! program [arguments] REQUEST-FILE REPLY-FILE io.choria.choria.discovery.v1.external_request
//! ```
//!
//! The same three are in the environment, as [`REQUEST_VARIABLE`], [`REPLY_VARIABLE`] and [`PROTOCOL_VARIABLE`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_base::NodeText;
use muster_filter::FilterPattern;
use muster_wire::identity::{Identity, NameError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::query::DiscoveryQuery;

/// The protocol of the request.
pub const REQUEST_PROTOCOL: &str = "io.choria.choria.discovery.v1.external_request";
/// The protocol of the reply.
pub const REPLY_PROTOCOL: &str = "io.choria.choria.discovery.v1.external_reply";
/// Environment variable with the path of the request file.
pub const REQUEST_VARIABLE: &str = "CHORIA_EXTERNAL_REQUEST";
/// Environment variable with the path of the reply file.
pub const REPLY_VARIABLE: &str = "CHORIA_EXTERNAL_REPLY";
/// Environment variable with the request protocol.
pub const PROTOCOL_VARIABLE: &str = "CHORIA_EXTERNAL_PROTOCOL";
/// Largest reply in bytes.
pub const MAX_REPLY_BYTES: u64 = 64 * 1024 * 1024;

/// Why a reply cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryReplyError {
    /// The program wrote no reply.
    #[error("it wrote no reply")]
    Absent,
    /// The reply is not JSON of the protocol.
    #[error("its reply does not conform to the protocol")]
    Json(#[from] serde_json::Error),
    /// The reply has another protocol.
    #[error("its reply has protocol {0:?}; it must be {REPLY_PROTOCOL:?}")]
    Protocol(String),
    /// The program reported an error.
    #[error("it reported an error: {}", .0.line())]
    Failed(NodeText),
    /// A name that is not a valid identity.
    #[error("name {entry} of its reply: {error}")]
    Name {
        /// Position of the name, from 1.
        entry: usize,
        /// Why the name is invalid.
        error: NameError,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DiscoveryReply {
    protocol: String,
    nodes: Option<Vec<String>>,
    error: Option<NodeText>,
}

/// Builds the request that the program reads.
pub fn build_request(
    query: &DiscoveryQuery,
    timeout: Duration,
    options: &BTreeMap<String, String>,
) -> Value {
    let filter = &query.filter;
    let texts =
        |patterns: &[FilterPattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    let compound: Vec<Value> =
        filter.select().map(|select| json!([{ "expr": select.to_string() }])).into_iter().collect();
    let facts: Vec<Value> = filter
        .facts()
        .iter()
        .map(|term| {
            json!({
                "fact": term.fact_path().as_str(),
                "operator": term.operator().as_str(),
                "value": term.value_text(),
            })
        })
        .collect();
    json!({
        "$schema": "https://choria.io/schemas/choria/discovery/v1/external_request.json",
        "protocol": REQUEST_PROTOCOL,
        "collective": query.collective.as_ref().map_or("", |name| name.as_str()),
        "timeout": timeout.as_secs_f64(),
        "options": options,
        // Choria's request has this member; there are no federations here, as NATS connects sites itself.
        "federations": [],
        "filter": {
            "fact": facts,
            "cf_class": texts(filter.classes()),
            "agent": texts(filter.agents()),
            "identity": texts(filter.identities()),
            "compound": compound,
        },
    })
}

/// Parses a reply into its nodes.
pub fn parse_reply(text: &str) -> Result<BTreeSet<Identity>, DiscoveryReplyError> {
    if text.trim().is_empty() {
        return Err(DiscoveryReplyError::Absent);
    }
    let reply: DiscoveryReply = serde_json::from_str(text)?;
    if let Some(error) = reply.error.filter(|error| !error.is_empty()) {
        return Err(DiscoveryReplyError::Failed(error));
    }
    if reply.protocol != REPLY_PROTOCOL {
        return Err(DiscoveryReplyError::Protocol(reply.protocol));
    }
    let names = reply.nodes.unwrap_or_default();
    let names = names.iter().enumerate().map(|(index, name)| {
        Identity::parse(name).map_err(|error| DiscoveryReplyError::Name { entry: index + 1, error })
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use muster_filter::NodeFilter;
    use serde_json::json;

    use super::{DiscoveryQuery, build_request, parse_reply};

    #[test]
    fn request_has_the_members_of_the_protocol() {
        let filter = NodeFilter::default()
            .with_words("country=mt apache")
            .and_then(|filter| filter.with_fact("kernel=~/^lin/"))
            .and_then(|filter| filter.with_agent("rpcutil"))
            .and_then(|filter| filter.with_identity("/^web/"))
            .and_then(|filter| filter.with_select("a or b"))
            .unwrap();
        let wanted = DiscoveryQuery {
            filter,
            collective: Some("ginkgo".parse().unwrap()),
            ..DiscoveryQuery::default()
        };
        let options = BTreeMap::from([("foo".to_owned(), "bar".to_owned())]);
        let request = build_request(&wanted, Duration::from_secs(2), &options);
        assert_eq!(
            request,
            json!({
                "$schema": "https://choria.io/schemas/choria/discovery/v1/external_request.json",
                "protocol": "io.choria.choria.discovery.v1.external_request",
                "collective": "ginkgo",
                "timeout": 2.0,
                "options": {"foo": "bar"},
                "federations": [],
                "filter": {
                    "fact": [
                        {"fact": "country", "operator": "==", "value": "mt"},
                        {"fact": "kernel", "operator": "=~", "value": "/^lin/"},
                    ],
                    "cf_class": ["apache"],
                    "agent": ["rpcutil"],
                    "identity": ["/^web/"],
                    "compound": [[{"expr": "a or b"}]],
                },
            })
        );
    }

    #[test]
    fn invalid_replies_are_refused() {
        let good = r#"{"protocol": "io.choria.choria.discovery.v1.external_reply", "nodes": ["one", "TWO", "one"]}"#;
        let nodes = parse_reply(good).unwrap();
        assert_eq!(
            nodes.iter().map(muster_wire::identity::Identity::as_str).collect::<Vec<_>>(),
            ["one", "two"]
        );
        for (text, expected) in [
            ("", "it wrote no reply"),
            ("<nodes/>", "its reply does not conform to the protocol"),
            (r#"{"error": "no\u001b[2J database"}"#, "it reported an error: no\\x1b[2J database"),
            (r#"{"nodes": ["one"]}"#, "its reply has protocol \"\""),
            (
                r#"{"protocol": "io.choria.choria.discovery.v1.external_reply", "nodes": ["a", "b c"]}"#,
                "name 2 of its reply: `b c` contains ' '",
            ),
        ] {
            let told = parse_reply(text).unwrap_err().to_string();
            assert!(told.starts_with(expected), "{text}: {told}");
        }
    }
}
