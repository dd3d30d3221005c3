//! The report of a run: the command `store report`, version 8, of a report in Puppet's format 12.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::report_resources::report_resources;
use super::source::FormSource;
use super::values::{
    add_seconds, clean_text, format_time, line_number, nullable_bool, nullable_text, parse_id,
    parse_time, text, text_or_number, texts,
};

const REPORT_FORMAT: i16 = 12;

/// What is known of a run besides its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportSource<'a> {
    /// What every form says.
    pub form: FormSource<'a>,
    /// The id of the run, in place of an id that the report lacks.
    pub run: Uuid,
    /// When the run began, in place of a time that the report lacks. Milliseconds since the epoch.
    pub started: u64,
}

/// The body of `store report`. A report without an end, or one of a newer version, has defaults for what is missing.
pub fn report_form(report: &Map<String, Value>, source: ReportSource<'_>) -> Map<String, Value> {
    let started = parse_time(report.get("time")).unwrap_or(source.started);
    let resources = report_resources(report, started);
    let noop = report.get("noop").and_then(Value::as_bool);
    let noop = noop.unwrap_or_else(|| has_only_noops(&resources));
    let run = parse_id(report.get("transaction_uuid")).unwrap_or(source.run);
    let environment = text(report.get("environment"));
    let form = json!({
        "certname": clean_text(source.form.certname),
        "environment": environment.unwrap_or_else(|| clean_text(source.form.environment)),
        "puppet_version": text(report.get("puppet_version")).unwrap_or_default(),
        "report_format": report_format(report),
        "configuration_version":
            text_or_number(report.get("configuration_version")).unwrap_or_default(),
        "start_time": format_time(started),
        "end_time": format_time(add_seconds(started, run_seconds(report))),
        "producer_timestamp": format_time(source.form.producer_timestamp),
        "producer": clean_text(source.form.producer),
        "resources": resources,
        "metrics": metrics(report),
        "logs": logs(report, started),
        "transaction_uuid": run.to_string(),
        "catalog_uuid": parse_id(report.get("catalog_uuid")).map(|id| id.to_string()),
        "code_id": nullable_text(report.get("code_id")),
        "job_id": nullable_text(report.get("job_id")),
        "cached_catalog_status": nullable_text(report.get("cached_catalog_status")),
        "status": text(report.get("status")).unwrap_or_else(|| "failed".to_owned()),
        "noop": noop,
        "noop_pending": nullable_bool(report.get("noop_pending")),
        "corrective_change": nullable_bool(report.get("corrective_change")),
        "type": "agent",
    });
    match form {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The column has 16 bits.
fn report_format(report: &Map<String, Value>) -> i16 {
    let format = report.get("report_format").and_then(Value::as_i64);
    format.and_then(|format| i16::try_from(format).ok()).unwrap_or(REPORT_FORMAT)
}

/// Whether there are events, all of them of noop mode. Reports before format 5 do not say it.
fn has_only_noops(resources: &[Value]) -> bool {
    let events = resources.iter().filter_map(|resource| resource.get("events")?.as_array());
    let mut statuses = events.flatten().map(|event| event.get("status")).peekable();
    statuses.peek().is_some()
        && statuses.all(|status| status.is_some_and(|status| status == "noop"))
}

/// A metric group of a report: `[name, label, value]` each.
fn metric_values(group: &Value) -> impl Iterator<Item = (String, &Value)> {
    let values = group.get("values").and_then(Value::as_array).into_iter().flatten();
    values.filter_map(|value| {
        let parts = value.as_array()?;
        let number = parts.last().filter(|value| value.is_number())?;
        Some((text_or_number(parts.first())?, number))
    })
}

/// How long the run took; nothing of a run that failed early.
fn run_seconds(report: &Map<String, Value>) -> f64 {
    let time = report.get("metrics").and_then(|metrics| metrics.get("time"));
    let mut values = time.into_iter().flat_map(metric_values);
    let total = values.find(|(name, _)| name == "total");
    total.and_then(|(_, value)| value.as_f64()).unwrap_or_default()
}

fn metrics(report: &Map<String, Value>) -> Vec<Value> {
    let groups = report.get("metrics").and_then(Value::as_object).into_iter().flatten();
    let metrics = groups.flat_map(|(key, group)| {
        let category = text(group.get("name")).unwrap_or_else(|| clean_text(key));
        metric_values(group)
            .map(move |(name, value)| json!({"category": category, "name": name, "value": value}))
    });
    metrics.collect()
}

fn logs(report: &Map<String, Value>, started: u64) -> Vec<Value> {
    let logs = report.get("logs").and_then(Value::as_array).into_iter().flatten();
    let logs = logs.filter_map(Value::as_object).map(|log| {
        json!({
            "file": nullable_text(log.get("file")),
            "line": line_number(log.get("line")),
            "level": text(log.get("level")).unwrap_or_else(|| "notice".to_owned()),
            "message": text_or_number(log.get("message")).unwrap_or_default(),
            "source": text(log.get("source")).unwrap_or_else(|| "Puppet".to_owned()),
            "tags": texts(log.get("tags")),
            "time": format_time(parse_time(log.get("time")).unwrap_or(started)),
        })
    });
    logs.collect()
}
