//! The schema that `PuppetDB` checks before it stores a report, for tests.

use serde_json::{Map, Value};
use uuid::Uuid;

/// A key, and whether its value is valid.
type Rule = (&'static str, fn(&Value) -> bool);

const EVENT: &[Rule] = &[
    ("status", Value::is_string),
    ("timestamp", is_time),
    ("name", is_maybe_text),
    ("property", is_maybe_text),
    ("new_value", Value::is_string),
    ("old_value", Value::is_string),
    ("message", is_maybe_text),
    ("corrective_change", is_maybe_bool),
];

const RESOURCE: &[Rule] = &[
    ("skipped", Value::is_boolean),
    ("timestamp", is_time),
    ("resource_type", Value::is_string),
    ("resource_title", Value::is_string),
    ("file", is_maybe_text),
    ("line", is_line),
    ("containment_path", is_texts),
    ("corrective_change", is_maybe_bool),
    ("events", |value| is_list(value, EVENT)),
];

const METRIC: &[Rule] =
    &[("category", Value::is_string), ("name", Value::is_string), ("value", Value::is_number)];

const LOG: &[Rule] = &[
    ("file", is_maybe_text),
    ("line", is_line),
    ("level", Value::is_string),
    ("message", Value::is_string),
    ("source", Value::is_string),
    ("tags", is_texts),
    ("time", is_time),
];

const REPORT: &[Rule] = &[
    ("certname", Value::is_string),
    ("environment", Value::is_string),
    ("puppet_version", Value::is_string),
    ("report_format", Value::is_i64),
    ("configuration_version", Value::is_string),
    ("start_time", is_time),
    ("end_time", is_time),
    ("producer_timestamp", is_time),
    ("producer", Value::is_string),
    ("transaction_uuid", is_id),
    ("catalog_uuid", is_id),
    ("code_id", is_maybe_text),
    ("job_id", is_maybe_text),
    ("cached_catalog_status", is_maybe_text),
    ("status", Value::is_string),
    ("noop", Value::is_boolean),
    ("noop_pending", is_maybe_bool),
    ("corrective_change", is_maybe_bool),
    ("type", |value| value == "agent"),
    ("resources", |value| is_list(value, RESOURCE)),
    ("metrics", |value| is_list(value, METRIC)),
    ("logs", |value| is_list(value, LOG)),
];

/// What of a report is not of the schema.
pub(super) fn check_report(form: &Map<String, Value>) -> Result<(), String> {
    check_map(form, REPORT)
}

fn check_map(map: &Map<String, Value>, rules: &[Rule]) -> Result<(), String> {
    for (key, is_valid) in rules {
        let value = map.get(*key).ok_or_else(|| format!("{key} is missing"))?;
        if !is_valid(value) {
            return Err(format!("{key} is {value}"));
        }
    }
    if map.len() == rules.len() { Ok(()) } else { Err(format!("other keys: {map:?}")) }
}

fn is_list(value: &Value, rules: &[Rule]) -> bool {
    let is_valid = |item: &Value| item.as_object().is_some_and(|map| check_map(map, rules).is_ok());
    value.as_array().is_some_and(|items| items.iter().all(is_valid))
}

fn is_maybe_text(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

fn is_maybe_bool(value: &Value) -> bool {
    value.is_boolean() || value.is_null()
}

fn is_line(value: &Value) -> bool {
    let is_valid = |line: i64| (1..=i64::from(i32::MAX)).contains(&line);
    value.is_null() || value.as_i64().is_some_and(is_valid)
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 24 && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_id(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| Uuid::try_parse(text).is_ok())
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}
