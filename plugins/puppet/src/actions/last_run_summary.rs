//! `last_run_summary`: the summary of the last run, with validated values.

use muster_api::base::since_epoch;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::puppet::{LastRunSummaryInput, LastRunSummaryOutput};

use super::status::read_agent_activity;
use crate::classification;
use crate::runs::PuppetRunManager;

pub(crate) fn summarise_last_run(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    LastRunSummaryInput { logs }: LastRunSummaryInput,
) -> Result<LastRunSummaryOutput, ActionError> {
    let system = &*cx.system;
    let Some(run) = read_agent_activity(runs, system)?.last_run else {
        return Err(ActionError::failed("no readable summary of a Puppet run found"));
    };
    let (summary, report) = (&run.summary, run.read_report(system));
    let now = since_epoch(system.now());
    let count = |name: &str| summary.resource_count(name).unwrap_or_default();
    let lastrun = summary.last_run();
    let class = match &report {
        Some(report) if !summary.is_failed_run() => classification::class_by_report(report),
        _ => classification::class_by_counts(summary),
    };
    Ok(LastRunSummaryOutput {
        out_of_sync_resources: Some(count("out_of_sync")),
        failed_resources: Some(summary.failure_count()),
        corrected_resources: Some(count("corrective_change")),
        changed_resources: Some(count("changed")),
        total_resources: Some(count("total")),
        config_retrieval_time: summary.time_value("config_retrieval"),
        total_time: summary.time_value("total"),
        logs: report
            .as_ref()
            .filter(|_| logs)
            .map(|report| report.log_lines(&[]))
            .unwrap_or_default(),
        lastrun,
        since_lastrun: lastrun.map(|then| now.as_secs().saturating_sub(then)),
        config_version: summary.config_version(),
        type_distribution: count_types(&run.read_resources(system)),
        failed_run: summary.is_failed_run(),
        class: Some(class),
        environment: summary.environment(),
        cached_catalog_status: report.and_then(|report| report.text_field("cached_catalog_status")),
        summary: summary.all_sections().clone(),
    })
}

/// Number of resources of each type in the last catalog, from the list of its resources.
fn count_types(resources: &str) -> BTreeMap<String, u64> {
    let mut types = BTreeMap::new();
    for line in resources.lines() {
        if let Some((name, _)) = line.split_once('[') {
            *types.entry(capitalise_type(name)).or_default() += 1;
        }
    }
    types
}

fn capitalise_type(name: &str) -> String {
    let parts = name.split("::").map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.collect::<Vec<_>>().join("::")
}
