//! One event as sinks deliver it: a JSON document with the field names of the Elastic Common Schema. Pure.

use muster_base::format_rfc3339;
use muster_history::index::TakenRow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The version of the schema whose field names are used.
const ECS_VERSION: &str = "8.11.0";

/// What an event is about. A sink selects events by it; `failure` selects those of every kind that are about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkEventKind {
    /// A request that was executed.
    Request,
    /// A request that was not executed.
    Refused,
    /// A change of one resource.
    Change,
    /// The end of a run.
    Run,
    /// Records that are missing.
    Gap,
    /// A node was provisioned or retired, or its provisioning failed.
    Provision,
    Failure,
}

impl SinkEventKind {
    /// The name, as in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Refused => "refused",
            Self::Change => "change",
            Self::Run => "run",
            Self::Gap => "gap",
            Self::Provision => "provision",
            Self::Failure => "failure",
        }
    }

    /// `event.category` and `event.type`.
    fn classification(self) -> (&'static str, &'static str) {
        match self {
            Self::Request | Self::Failure => ("process", "allowed"),
            Self::Refused => ("process", "denied"),
            Self::Change => ("configuration", "change"),
            Self::Run => ("configuration", "end"),
            Self::Gap => ("configuration", "error"),
            Self::Provision => ("host", "info"),
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkEvent {
    pub kind: SinkEventKind,
    pub has_failed: bool,
    pub node: String,
    pub agent: Option<String>,
    /// When, by the clock of the node, in milliseconds since the epoch.
    pub time: u64,
    pub document: Value,
}

/// What the document has apart from the fields of the event itself.
struct EventText {
    id: String,
    action: String,
    outcome: &'static str,
    user: Option<String>,
    message: String,
    took: Option<u64>,
    rest: Map<String, Value>,
}

impl SinkEvent {
    /// Of a row of the history. `None` for the record that an action has started: the history replaces it by that of its outcome.
    pub fn of_row(taken: &TakenRow) -> Option<Self> {
        let Ok(Value::Object(mut rest)) = serde_json::to_value(&taken.row) else { return None };
        rest.retain(|_, value| !value.is_null());
        let time = taken.row.time;
        rest.remove("time");
        let [node, user, detail] =
            ["node", "who", "message"].map(|name| take_text(&mut rest, name));
        let text = |name: &str| rest.get(name).and_then(Value::as_str).map(str::to_owned);
        let (status, agent) = (text("status").unwrap_or_default(), text("agent"));
        if status == "started" {
            return None;
        }
        let kind = match text("kind").as_deref() {
            Some("change") => SinkEventKind::Change,
            Some("run") => SinkEventKind::Run,
            Some("gap") => SinkEventKind::Gap,
            _ if matches!(status.as_str(), "denied" | "refused") => SinkEventKind::Refused,
            _ => SinkEventKind::Request,
        };
        let action = match (kind, &agent, text("action")) {
            (SinkEventKind::Request | SinkEventKind::Refused, Some(agent), Some(action)) => {
                format!("{agent}.{action}")
            }
            _ => kind.as_str().to_owned(),
        };
        let outcome = match status.as_str() {
            "noop" | "gap" => "unknown",
            _ if taken.failed => "failure",
            _ => "success",
        };
        let subject = text("resource").unwrap_or_else(|| action.clone());
        let parts = [Some(subject), Some(status), detail];
        let message = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        let id = format!("{}.{}", taken.cursor.revision, taken.cursor.id);
        let took = taken.took;
        let text = EventText { id, action, outcome, user, message, took, rest };
        Some(Self::new(kind, taken.failed, node.unwrap_or_default(), agent, time, text))
    }

    /// Of a document of the provisioner.
    pub fn of_provision(document: Value) -> Self {
        let Value::Object(mut rest) = document else {
            return Self::of_provision(Value::Object(Map::new()));
        };
        rest.retain(|_, value| !value.is_null());
        let [id, event, node] = ["id", "event", "node"].map(|name| take_text(&mut rest, name));
        let (event, node) = (event.unwrap_or_default(), node.unwrap_or_default());
        let has_failed = event == "failed";
        let error = rest.get("error").and_then(Value::as_str);
        let parts = [Some("provisioning"), Some(event.as_str()), error];
        let text = EventText {
            id: id.unwrap_or_default(),
            action: format!("provision.{event}"),
            outcome: if has_failed { "failure" } else { "success" },
            user: None,
            took: None,
            message: parts.into_iter().flatten().collect::<Vec<_>>().join(": "),
            rest: Map::new(),
        };
        let time = rest.get("changed").and_then(Value::as_u64).unwrap_or_default();
        rest.insert("kind".to_owned(), SinkEventKind::Provision.as_str().into());
        rest.insert("status".to_owned(), event.into());
        Self::new(
            SinkEventKind::Provision,
            has_failed,
            node,
            None,
            time,
            EventText { rest, ..text },
        )
    }

    fn new(
        kind: SinkEventKind,
        has_failed: bool,
        node: String,
        agent: Option<String>,
        time: u64,
        text: EventText,
    ) -> Self {
        let (category, event_type) = kind.classification();
        let mut document = json!({
            "@timestamp": format_rfc3339(time),
            "ecs": {"version": ECS_VERSION},
            "event": {
                "id": text.id, "kind": "event", "category": [category], "type": [event_type],
                "action": text.action, "outcome": text.outcome, "module": "muster",
            },
            "host": {"name": node},
            "message": text.message,
            "muster": text.rest,
        });
        if let (Some(user), Some(fields)) = (text.user, document.as_object_mut()) {
            fields.insert("user".to_owned(), json!({"name": user}));
        }
        let event = document.get_mut("event").and_then(Value::as_object_mut);
        if let (Some(took), Some(event)) = (text.took, event) {
            // In nanoseconds.
            event.insert("duration".to_owned(), took.saturating_mul(1_000_000).into());
        }
        Self { kind, has_failed, node, agent, time, document }
    }
}

pub(crate) fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_history::index::{RowCursor, TakenRow};
    use serde_json::{from_value, json};

    use super::{SinkEvent, SinkEventKind};

    #[test]
    fn row_has_the_names_of_ecs() {
        let row = json!({
            "time": 1_764_201_600_250_u64, "node": "web1", "kind": "request", "status": "denied", "who": "rip",
            "agent": "puppetral", "action": "do", "message": "type=file\u{1b}",
        });
        let row = from_value(row).unwrap();
        let cursor = RowCursor { revision: 7, id: 3 };
        let taken = TakenRow { cursor, failed: true, took: Some(20), trace: None, row };
        let event = SinkEvent::of_row(&taken).unwrap();
        assert_eq!(
            (event.kind, event.agent.as_deref()),
            (SinkEventKind::Refused, Some("puppetral"))
        );
        let expected = json!({
            "@timestamp": "2025-11-27T00:00:00.250Z",
            "ecs": {"version": "8.11.0"},
            "event": {
                "id": "7.3", "kind": "event", "category": ["process"], "type": ["denied"],
                "action": "puppetral.do", "outcome": "failure", "module": "muster", "duration": 20_000_000,
            },
            "host": {"name": "web1"},
            "user": {"name": "rip"},
            "message": "puppetral.do: denied: type=file\u{1b}",
            "muster": {"kind": "request", "status": "denied", "agent": "puppetral", "action": "do"},
        });
        assert_eq!(event.document, expected);
        assert!(event.document.to_string().is_ascii(), "control characters are escaped");
    }

    #[test]
    fn provisioning_that_failed_is_a_failure() {
        let document = json!({"id": "x", "event": "failed", "node": "web1", "master": "", "error": "no", "changed": 7});
        let event = SinkEvent::of_provision(document);
        assert!(event.has_failed);
        assert_eq!(event.document["message"], "provisioning: failed: no");
        assert_eq!(event.document["event"]["action"], "provision.failed");
    }
}
