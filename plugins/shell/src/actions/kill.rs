//! `kill`: ends a job and every process in its process group.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::ShellJobView;
use crate::jobs::ShellJobStore;

pub(crate) struct ShellKillAction(pub(crate) Arc<ShellJobStore>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShellKillInput {
    job: String,
    /// How many seconds it has between TERM and KILL.
    grace: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ShellKillOutput {
    /// Whether the job was still running.
    ended: bool,
    state: String,
    exitcode: Option<i32>,
    signal: Option<i32>,
}

impl AgentAction for ShellKillAction {
    const NAME: &'static str = "kill";
    type Input = ShellKillInput;
    type Output = ShellKillOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ShellKillInput,
    ) -> Result<ShellKillOutput, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.run_blocking(move |_| {
            let record = jobs.get_for_caller(&input.job, &caller)?;
            let ended =
                jobs.kill_job(&record, &*system, Duration::from_secs(input.grace.min(60)))?;
            let view = ShellJobView::from_record(&jobs, record, &*system);
            Ok(ShellKillOutput {
                ended,
                state: view.state,
                exitcode: view.exitcode,
                signal: view.signal,
            })
        })
        .await?
    }
}
