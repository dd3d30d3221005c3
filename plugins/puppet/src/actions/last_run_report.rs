//! `last_run_report`: Puppet's own report of its last run.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::places;
use crate::files::report::{Happened, Report};
use crate::program;
use crate::runs::Runs;
use crate::verdict;

pub(crate) struct LastRunReport(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    logs: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    status: String,
    class: String,
    transaction_uuid: Option<String>,
    transaction_completed: Option<bool>,
    time: Option<String>,
    environment: Option<String>,
    config_version: Option<String>,
    noop: Option<bool>,
    noop_pending: Option<bool>,
    cached_catalog_status: Option<String>,
    puppet_version: Option<String>,
    events: Vec<Happened>,
    failed: Vec<String>,
    skipped: Vec<String>,
    metrics: Map<String, Value>,
    logs: Vec<String>,
}

impl Output {
    fn of(report: &Report, logs: bool) -> Self {
        Self {
            status: report.text("status").unwrap_or_default(),
            class: verdict::class_of(report).to_owned(),
            transaction_uuid: report.text("transaction_uuid"),
            transaction_completed: report.flag("transaction_completed"),
            time: report.text("time"),
            environment: report.text("environment"),
            config_version: report.text("configuration_version"),
            noop: report.flag("noop"),
            noop_pending: report.flag("noop_pending"),
            cached_catalog_status: report.text("cached_catalog_status"),
            puppet_version: report.text("puppet_version"),
            events: report.events(),
            failed: report.which(&["failed", "failed_to_restart"]),
            skipped: report.which(&["skipped"]),
            metrics: report.metrics(),
            logs: if logs { report.log(&[]) } else { Vec::new() },
        }
    }
}

impl Action for LastRunReport {
    const NAME: &'static str = "last_run_report";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let places = places(&runs.options, &*system)?;
            let report = program::report(&*system, &places).ok_or_else(|| {
                ActionError::failed("Puppet left no report of a run that can be read")
            })?;
            Ok(Output::of(&report, input.logs))
        })
        .await?
    }
}
