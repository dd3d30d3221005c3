//! Counts of events by node, resource or class.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::condition::Condition;
use super::entity::Entity;
use super::error::{Result, invalid};
use super::parameters::QueryParameters;
use super::reader::QueryReader;
use super::row::Row;
use super::run::QueryRun;
use super::statement::QueryStatement;

const COUNTS: [&str; 4] = ["failures", "successes", "noops", "skips"];

/// The counts of each subject.
pub(super) fn event_counts(
    run: &QueryRun<'_>,
    parameters: &QueryParameters,
    summarize_by: &str,
) -> Result<Vec<Map<String, Value>>> {
    let subject: &[&str] = match summarize_by {
        "certname" => &["certname"],
        "resource" => &["resource_type", "resource_title"],
        "containing_class" => &["containing_class"],
        other => return invalid(format!("Unsupported value for 'summarize_by': '{other}'")),
    };
    let counts_nodes = match parameters.count_by.as_deref() {
        None | Some("resource") => false,
        Some("certname") => true,
        Some(other) => return invalid(format!("Unsupported value for 'count_by': '{other}'")),
    };
    let mut reader = QueryReader::default();
    let mut statement =
        QueryStatement::read(&mut reader, Entity::Events, parameters.query.as_ref())?;
    if statement.columns.is_some() {
        return invalid("'extract' is not for counts of events");
    }
    let mut groups: Vec<&str> = subject.iter().copied().chain(["status"]).collect();
    if counts_nodes && !groups.contains(&"certname") {
        groups.push("certname");
    }
    statement.group_by(&groups)?;
    let mut found: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for row in run.answer(statement)?.rows {
        let part = |name: &str| row.get(name).cloned().unwrap_or_default();
        let key: Value = subject.iter().map(|name| part(name)).collect();
        let counts = found.entry(key.to_string()).or_insert_with(|| {
            let title = subject.last().map(|name| part(name));
            let mut names = Map::from_iter([("title".to_owned(), title.unwrap_or_default())]);
            if summarize_by == "resource" {
                names.insert("type".to_owned(), part("resource_type"));
            }
            let empty = COUNTS.map(|name| (name.to_owned(), Value::from(0)));
            let subject = [
                ("subject_type".to_owned(), summarize_by.into()),
                ("subject".to_owned(), Value::Object(names)),
            ];
            empty.into_iter().chain(subject).collect()
        });
        let name = match part("status").as_str() {
            Some("failure") => "failures",
            Some("success") => "successes",
            Some("noop") => "noops",
            _ => "skips",
        };
        let more = if counts_nodes { 1 } else { part("count").as_u64().unwrap_or_default() };
        let known = counts.get(name).and_then(Value::as_u64).unwrap_or_default();
        counts.insert(name.to_owned(), (known + more).into());
    }
    let filter = match &parameters.counts_filter {
        Some(filter) => Some(Condition::read(&mut reader, Entity::EventCounts, filter)?),
        None => None,
    };
    let mut rows = Vec::new();
    for counts in found.into_values() {
        let row = Row::new(counts.clone());
        if filter.as_ref().map_or(Ok(true), |filter| filter.selects(&row))? {
            rows.push(counts);
        }
    }
    Ok(rows)
}

/// How many subjects have events of each status.
pub(super) fn aggregate_event_counts(
    run: &QueryRun<'_>,
    parameters: &QueryParameters,
    summarize_by: &str,
) -> Result<Vec<Map<String, Value>>> {
    let aggregates = summarize_by.split(',').map(|summarize_by| {
        let rows = event_counts(run, parameters, summarize_by)?;
        let count = |name: &str| {
            let has = |row: &&Map<String, Value>| row.get(name).and_then(Value::as_u64) > Some(0);
            rows.iter().filter(has).count()
        };
        let aggregate = json!({
            "summarize_by": summarize_by, "failures": count("failures"), "successes": count("successes"),
            "noops": count("noops"), "skips": count("skips"), "total": rows.len(),
        });
        Ok(aggregate.as_object().cloned().unwrap_or_default())
    });
    aggregates.collect()
}
