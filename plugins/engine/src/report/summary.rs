//! `last_run_summary.yaml` in Puppet's layout, as read by monitoring plugins.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{REPORTED_PUPPET_VERSION, RunReport};

/// `last_run` is in seconds since the epoch.
pub fn render_yaml(report: &RunReport, last_run: i64) -> String {
    let mut text = "---\nversion:\n".to_owned();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  config: {}", yaml_scalar(&report.configuration_version));
    let _ = writeln!(text, "  puppet: {REPORTED_PUPPET_VERSION}");
    let environment = yaml_scalar(&Json::from(report.environment.as_str()));
    let _ = writeln!(
        text,
        "application:\n  run_mode: agent\n  initial_environment: {environment}\n  converged_environment: {environment}"
    );
    for metric in report.metrics.all_groups() {
        let _ = writeln!(text, "{}:", metric.name);
        let mut values: Vec<_> = metric.values.iter().collect();
        values.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, _, value) in values {
            let _ = writeln!(text, "  {name}: {value}");
        }
        if metric.name == "time" {
            let _ = writeln!(text, "  last_run: {last_run}");
        }
    }
    let _ = writeln!(text, "pending_refreshes:\n  total: {}", report.pending_refreshes.len());
    text
}

/// Numbers are written bare; strings are quoted as in JSON, which is valid YAML.
fn yaml_scalar(value: &Json) -> String {
    match value {
        Json::String(text)
            if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && text.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            text.clone()
        }
        Json::Null => "''".to_owned(),
        other => other.to_string(),
    }
}
