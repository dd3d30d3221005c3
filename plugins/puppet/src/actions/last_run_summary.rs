//! `last_run_summary`: Puppet's own summary of its last run, judged with care.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use muster_api::system::System;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{failed, places};
use crate::files::look;
use crate::program;
use crate::runs::Runs;
use crate::verdict;

pub(crate) struct LastRunSummary(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    logs: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    out_of_sync_resources: u64,
    failed_resources: u64,
    corrected_resources: u64,
    changed_resources: u64,
    total_resources: u64,
    config_retrieval_time: Option<f64>,
    total_time: Option<f64>,
    logs: Vec<String>,
    lastrun: Option<u64>,
    since_lastrun: Option<u64>,
    config_version: Option<String>,
    type_distribution: BTreeMap<String, u64>,
    summary: Map<String, Value>,
    failed_run: bool,
    class: String,
    environment: Option<String>,
    cached_catalog_status: Option<String>,
}

impl Action for LastRunSummary {
    const NAME: &'static str = "last_run_summary";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| summary(&runs, &*system, input.logs))
            .await?
    }
}

fn summary(runs: &Runs, system: &dyn System, logs: bool) -> Result<Output, ActionError> {
    let places = places(&runs.options, system)?;
    let Some(summary) = look::summary(system, &places).map_err(failed)? else {
        return Err(ActionError::failed(
            "Puppet left no summary of a run that can be read",
        ));
    };
    let report = program::report(system, &places);
    let now = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = |name: &str| summary.resources(name).unwrap_or_default();
    let lastrun = summary.last_run();
    let class = match &report {
        Some(report) if !summary.failed_run() => verdict::class_of(report),
        _ => verdict::class_by_counts(&summary),
    };
    Ok(Output {
        out_of_sync_resources: count("out_of_sync"),
        failed_resources: count("failed") + count("failed_to_restart"),
        corrected_resources: count("corrective_change"),
        changed_resources: count("changed"),
        total_resources: count("total"),
        config_retrieval_time: summary.time("config_retrieval"),
        total_time: summary.time("total"),
        logs: report
            .as_ref()
            .filter(|_| logs)
            .map(|report| report.log(&[]))
            .unwrap_or_default(),
        lastrun,
        since_lastrun: lastrun.map(|then| now.as_secs().saturating_sub(then)),
        config_version: summary.config_version(),
        type_distribution: types(system, &places.state().join("resources.txt")),
        failed_run: summary.failed_run(),
        class: class.to_owned(),
        environment: summary.environment(),
        cached_catalog_status: report.and_then(|report| report.text("cached_catalog_status")),
        summary: summary.whole().clone(),
    })
}

/// How many resources of each type the last catalog had, by the list that Puppet keeps of them.
fn types(system: &dyn System, path: &std::path::Path) -> BTreeMap<String, u64> {
    let bytes = system.read(path, 16 * 1024 * 1024).unwrap_or_default();
    let mut types = BTreeMap::new();
    for line in String::from_utf8_lossy(&bytes).lines() {
        if let Some((name, _)) = line.split_once('[') {
            *types.entry(capital(name)).or_default() += 1;
        }
    }
    types
}

fn capital(name: &str) -> String {
    let parts = name.split("::").map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.collect::<Vec<_>>().join("::")
}
