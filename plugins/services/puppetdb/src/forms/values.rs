//! Single values: texts without zero bytes, times with three digits, and numbers that fit into a column.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use muster_base::format_rfc3339;
use serde_json::{Map, Value};
use uuid::Uuid;

/// The last time that is written with four digits of a year, in milliseconds since the epoch.
const MAX_MILLIS: i64 = 253_402_207_200_000;

/// A text that `PostgreSQL` can store: zero bytes are replaced, as `PuppetDB` does with values of events.
pub(super) fn clean_text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The same of all texts in a value.
pub(super) fn clean_value(value: &Value) -> Value {
    match value {
        Value::String(text) => clean_text(text).into(),
        Value::Array(items) => items.iter().map(clean_value).collect(),
        Value::Object(map) => Value::Object(clean_map(map)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The same of all keys and values of a map.
pub(super) fn clean_map(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter().map(|(key, value)| (clean_text(key), clean_value(value))).collect()
}

/// A text; `None` for other values.
pub(super) fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(clean_text)
}

/// A text, or the text of a number.
pub(super) fn text_or_number(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(clean_text(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A text or null.
pub(super) fn nullable_text(value: Option<&Value>) -> Value {
    text(value).map_or(Value::Null, Value::from)
}

/// Whether something is so, or null.
pub(super) fn nullable_bool(value: Option<&Value>) -> Value {
    value.and_then(Value::as_bool).map_or(Value::Null, Value::from)
}

/// The number of a line, which is stored with 32 bits.
pub(super) fn line_number(value: Option<&Value>) -> Option<i32> {
    let number = match value? {
        Value::Number(number) => number.as_i64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    i32::try_from(number).ok().filter(|line| *line > 0)
}

/// The texts of a list, each once.
pub(super) fn texts(value: Option<&Value>) -> BTreeSet<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| text(Some(item))).collect()
}

/// The time of a report, in any offset; `None` if it is no time, or before the epoch.
pub(super) fn parse_time(value: Option<&Value>) -> Option<u64> {
    let time: Timestamp = value?.as_str()?.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// A time as the terminus writes it: `2026-12-01T12:00:00.123Z`.
pub(crate) fn format_time(millis: u64) -> String {
    format_rfc3339(millis.min(MAX_MILLIS.unsigned_abs()))
}

/// A time plus a number of seconds; the same time if that is no duration.
pub(super) fn add_seconds(millis: u64, seconds: f64) -> u64 {
    let duration = SignedDuration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
    millis.saturating_add(u64::try_from(duration.as_millis()).unwrap_or_default())
}

/// The id of a run or of a catalog, if it is one: `PuppetDB` never accepts another text.
pub(super) fn parse_id(value: Option<&Value>) -> Option<Uuid> {
    value.and_then(Value::as_str).and_then(|text| Uuid::try_parse(text).ok())
}
