//! The resources of a report and their events. Resources that are as wanted are left out, as the terminus does.

use serde_json::{Map, Value, json};

use super::edges::split_reference;
use super::ruby_text::ruby_text;
use super::values::{
    clean_text, format_time, line_number, nullable_bool, nullable_text, parse_time, text,
    text_or_number,
};

/// `PostgreSQL` refuses more than 2704 bytes of time, type and title in an index, and the whole report with them.
const MAX_INDEXED_BYTES: usize = 2500;
const TIME_BYTES: usize = 8;
/// Longest name of a type.
const MAX_TYPE_BYTES: usize = 255;

/// The resources with events, and those that were skipped. `started` is the time of a resource without one.
pub(super) fn report_resources(report: &Map<String, Value>, started: u64) -> Vec<Value> {
    let statuses = report.get("resource_statuses").and_then(Value::as_object);
    let statuses = statuses.into_iter().flatten();
    let resources = statuses.filter_map(|(name, status)| {
        let status = status.as_object()?;
        let events = status.get("events").and_then(Value::as_array);
        let is_skipped = status.get("skipped").and_then(Value::as_bool).unwrap_or_default();
        let has_events = events.is_some_and(|events| events.iter().any(Value::is_object));
        (is_skipped || has_events).then(|| resource_form(name, status, started))
    });
    resources.collect()
}

fn resource_form(name: &str, status: &Map<String, Value>, started: u64) -> Value {
    let time = parse_time(status.get("time")).unwrap_or(started);
    let (kind, title) = names_of(name, status);
    let path = status.get("containment_path").and_then(Value::as_array).into_iter().flatten();
    let path: Vec<String> = path.filter_map(|part| text(Some(part))).collect();
    let events = status.get("events").and_then(Value::as_array).into_iter().flatten();
    let events: Vec<Value> =
        events.filter_map(Value::as_object).map(|event| event_form(event, time)).collect();
    json!({
        "timestamp": format_time(time),
        "resource_type": kind,
        "resource_title": title,
        "skipped": status.get("skipped").and_then(Value::as_bool).unwrap_or_default(),
        "events": events,
        "file": nullable_text(status.get("file")),
        "line": line_number(status.get("line")),
        "containment_path": path,
        "corrective_change": nullable_bool(status.get("corrective_change")),
    })
}

/// Type and title, which fit the index.
fn names_of(name: &str, status: &Map<String, Value>) -> (String, String) {
    let named = split_reference(name);
    let kind = text(status.get("resource_type"))
        .or_else(|| named.map(|(kind, _)| clean_text(kind)))
        .unwrap_or_default();
    let title = text_or_number(status.get("title"))
        .or_else(|| named.map(|(_, title)| clean_text(title)))
        .unwrap_or_else(|| clean_text(name));
    let kind = shorten(kind, MAX_TYPE_BYTES);
    let title = shorten(title, MAX_INDEXED_BYTES - TIME_BYTES - kind.len());
    (kind, title)
}

fn shorten(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

fn event_form(event: &Map<String, Value>, time: u64) -> Value {
    json!({
        "status": text(event.get("status")).unwrap_or_else(|| "failure".to_owned()),
        "timestamp": format_time(parse_time(event.get("time")).unwrap_or(time)),
        "name": nullable_text(event.get("name")),
        "property": nullable_text(event.get("property")),
        "new_value": ruby_text(event.get("desired_value")),
        "old_value": ruby_text(event.get("previous_value")),
        "message": nullable_text(event.get("message")),
        "corrective_change": nullable_bool(event.get("corrective_change")),
    })
}
