//! `status`: what Puppet is doing on the node.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use muster_api::system::System;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::{ago, failed, places};
use crate::files::look::{Holder, look};
use crate::files::summary::Summary;
use crate::options::Engine;
use crate::program;
use crate::runs;

pub(crate) struct Status(pub(crate) Arc<runs::Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "MCollective's outputs")]
pub(crate) struct Output {
    applying: bool,
    idling: bool,
    enabled: bool,
    daemon_present: bool,
    status: String,
    disable_message: String,
    lastrun: u64,
    since_lastrun: u64,
    message: String,
    holder: String,
    holder_pid: Option<u32>,
    run: Option<String>,
    run_state: Option<String>,
    pending: usize,
    engine: String,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| status(&runs, &*system)).await?
    }
}

fn status(runs: &runs::Runs, system: &dyn System) -> Result<Output, ActionError> {
    let doing = match places(&runs.options, system) {
        Ok(places) => look(system, &places).map_err(failed)?,
        // Where our own engine does the work, there need not be a Puppet.
        Err(_) if runs.options.engine == Engine::Native => crate::files::look::Doing::nothing(),
        Err(error) => return Err(error),
    };
    let current = runs.current();
    let is_ours = current
        .as_ref()
        .is_some_and(|outcome| !outcome.state.is_waiting() && !outcome.state.is_over());
    let now = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lastrun = doing.summary.as_ref().and_then(Summary::last_run);
    let since = lastrun.map(|then| now.as_secs().saturating_sub(then));
    let (status, applying) = match doing.status() {
        "disabled" => ("disabled", doing.run.is_held() || is_ours),
        _ if is_ours => ("applying a catalog", true),
        other => (other, doing.run.is_held()),
    };
    let last = since.map_or_else(
        || "last completed run unknown".to_owned(),
        |since| format!("last completed run {} ago", ago(since)),
    );
    let holder = match doing.run {
        _ if is_ours => "ours",
        Holder::Nobody => "none",
        Holder::Stale(_) => "stale",
        Holder::Process(pid) if pid == std::process::id() => "ours",
        Holder::Process(_) => "puppet",
    };
    Ok(Output {
        applying,
        idling: doing.daemon_present && !applying,
        enabled: doing.disabled.is_none(),
        daemon_present: doing.daemon_present,
        message: format!("Currently {status}; {last}"),
        status: status.to_owned(),
        disable_message: doing.disabled.unwrap_or_default(),
        lastrun: lastrun.unwrap_or_default(),
        since_lastrun: since.unwrap_or_default(),
        holder: holder.to_owned(),
        holder_pid: doing.run.pid(),
        run: current.as_ref().map(|outcome| outcome.run.clone()),
        run_state: current.map(|outcome| outcome.state.word().to_owned()),
        pending: program::owed(&runs.engine_dir()).len(),
        engine: runs.options.engine.word().to_owned(),
    })
}
