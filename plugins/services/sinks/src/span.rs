//! Requests and runs as spans of OpenTelemetry, in the JSON form of OTLP. Pure.

use data_encoding::HEXLOWER;
use muster_contract::history::HistoryRunRow;
use muster_history::index::TakenRow;
use muster_wire::history::FoldedRun;
use muster_wire::trace::TraceContext;
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::event::{SinkEvent, SinkEventKind, take_text};

/// Changes of resources in the span of a run. Further ones are counted.
const MAX_SPAN_EVENTS: usize = 1000;
/// Of the enumeration `SpanKind`.
const KIND_INTERNAL: u8 = 1;
const KIND_SERVER: u8 = 2;
/// Of the enumeration `StatusCode`.
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// The trace that a span belongs to.
struct SpanParent {
    trace: String,
    span: Option<String>,
}

/// A request to export, with these spans.
pub(crate) fn export_request(spans: &[&Value]) -> Value {
    let resource = json!({"attributes": [attribute("service.name", &"muster".into())]});
    let scope = json!({"scope": {"name": "muster"}, "spans": spans});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})
}

/// The span of a request that was executed or refused on a node; `None` for other rows.
pub(crate) fn request_span(taken: &TakenRow) -> Option<SinkEvent> {
    let event = SinkEvent::of_row(taken)?;
    let kind = event.kind;
    if !matches!(kind, SinkEventKind::Request | SinkEventKind::Refused) {
        return None;
    }
    let mut fields = text_fields(&taken.row);
    let request = fields.get("request").and_then(Value::as_str).unwrap_or_default().to_owned();
    let parent = request_parent(&request, taken.trace.as_deref())?;
    let name = event.document.pointer("/event/action").cloned().unwrap_or_default();
    let status = fields.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    let begin = event.time.saturating_sub(taken.took.unwrap_or_default());
    fields.remove("time");
    let span = json!({
        "traceId": parent.trace,
        "spanId": span_id(&request, &event.node),
        "parentSpanId": parent.span.unwrap_or_default(),
        "name": name,
        "kind": KIND_SERVER,
        "startTimeUnixNano": nanoseconds(begin),
        "endTimeUnixNano": nanoseconds(event.time),
        "attributes": attributes(fields),
        "status": span_status(event.has_failed, &status),
    });
    Some(SinkEvent { document: span, ..event })
}

/// The span of a run that has ended. `trace`: the trace context of its request.
pub(crate) fn run_span(
    row: &HistoryRunRow,
    folded: &FoldedRun,
    trace: Option<&str>,
) -> Option<SinkEvent> {
    let mut fields = text_fields(row);
    for name in ["started", "ended"] {
        fields.remove(name);
    }
    let ended = row.ended.unwrap_or(row.started);
    let status = fields.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    let parent = match fields.get("request").and_then(Value::as_str) {
        Some(request) => SpanParent {
            span: Some(span_id(request, &row.node)),
            ..request_parent(request, trace)?
        },
        None => request_parent(&row.run, None)?,
    };
    let mut changes = list_changes(folded, ended);
    let left_out = changes.len().saturating_sub(MAX_SPAN_EVENTS);
    changes.truncate(MAX_SPAN_EVENTS);
    let has_failed = matches!(status.as_str(), "failed" | "aborted");
    let span = json!({
        "traceId": parent.trace,
        "spanId": span_id(&row.run, &row.node),
        "parentSpanId": parent.span.unwrap_or_default(),
        "name": "run",
        "kind": KIND_INTERNAL,
        "startTimeUnixNano": nanoseconds(row.started),
        "endTimeUnixNano": nanoseconds(ended),
        "attributes": attributes(fields),
        "events": changes,
        "droppedEventsCount": left_out,
        "status": span_status(has_failed, &status),
    });
    let (node, agent) = (row.node.clone(), None);
    let kind = SinkEventKind::Run;
    Some(SinkEvent { kind, has_failed, node, agent, time: ended, document: span })
}

/// The events of a span: what each resource of the run changed or failed to change.
fn list_changes(folded: &FoldedRun, ended: u64) -> Vec<Value> {
    let statuses = folded.report.get("resource_statuses").and_then(Value::as_object);
    let mut changes = Vec::new();
    for (resource, status) in statuses.into_iter().flatten() {
        let events = status.get("events").and_then(Value::as_array);
        for event in events.into_iter().flatten() {
            let names = ["property", "status", "message"];
            let fields = names.map(|name| Some((name.to_owned(), event.get(name)?.clone())));
            let time = event.get("time").and_then(Value::as_str).and_then(parse_time);
            changes.push(json!({
                "timeUnixNano": nanoseconds(time.unwrap_or(ended)),
                "name": resource,
                "attributes": attributes(fields.into_iter().flatten().collect()),
            }));
        }
    }
    changes
}

/// The trace of a request: the caller's, or one of its own.
fn request_parent(request: &str, trace: Option<&str>) -> Option<SpanParent> {
    if let Some(context) = trace.and_then(|text| TraceContext::parse(text).ok()) {
        let text = context.to_string();
        let mut parts = text.split('-').skip(1).map(str::to_owned);
        return Some(SpanParent { trace: parts.next()?, span: parts.next() });
    }
    let id = Uuid::try_parse(request).ok()?;
    Some(SpanParent { trace: id.simple().to_string(), span: None })
}

/// The same each time, so that a span that is sent again is the same span.
fn span_id(id: &str, node: &str) -> String {
    let hash = digest(&SHA256, format!("{id} {node}").as_bytes());
    HEXLOWER.encode(hash.as_ref().get(..8).unwrap_or_default())
}

fn text_fields(row: &impl Serialize) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(row) else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

fn attributes(mut fields: Map<String, Value>) -> Vec<Value> {
    let known = [("node", "host.name"), ("who", "user.name")];
    let named = known.map(|(field, name)| {
        let text = take_text(&mut fields, field)?;
        Some(attribute(name, &text.into()))
    });
    let others = fields.iter().map(|(name, value)| attribute(&format!("muster.{name}"), value));
    named.into_iter().flatten().chain(others).collect()
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(flag) => json!({"boolValue": flag}),
        // A text in this form, because numbers of JSON are floating.
        Value::Number(number) if number.is_u64() => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        other => json!({"stringValue": other.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn span_status(has_failed: bool, status: &str) -> Value {
    if has_failed {
        json!({"code": STATUS_ERROR, "message": status})
    } else {
        json!({"code": STATUS_OK})
    }
}

fn nanoseconds(millis: u64) -> String {
    (u128::from(millis) * 1_000_000).to_string()
}

/// Milliseconds since the epoch of a time in a report.
fn parse_time(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use muster_history::index::{RowCursor, TakenRow};
    use serde_json::{from_value, json};

    use super::request_span;

    #[test]
    fn request_is_in_the_trace_of_its_caller() {
        let row = json!({
            "time": 1_000, "node": "web1", "kind": "request", "status": "executed", "who": "rip",
            "request": "0198c5d2-0000-7000-8000-000000000001", "agent": "puppetral", "action": "do",
        });
        let taken = |trace: Option<&str>| TakenRow {
            cursor: RowCursor { revision: 1, id: 1 },
            failed: false,
            took: Some(400),
            trace: trace.map(str::to_owned),
            row: from_value(row.clone()).unwrap(),
        };
        let own = request_span(&taken(None)).unwrap().document;
        assert_eq!(own["traceId"], "0198c5d2000070008000000000000001");
        assert_eq!(
            (&own["startTimeUnixNano"], &own["name"]),
            (&json!("600000000"), &json!("puppetral.do"))
        );
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let traced = request_span(&taken(Some(trace))).unwrap().document;
        assert_eq!(traced["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            (&traced["parentSpanId"], &traced["spanId"]),
            (&json!("00f067aa0ba902b7"), &own["spanId"])
        );
    }
}
