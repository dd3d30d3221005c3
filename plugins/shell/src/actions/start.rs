//! `start`: starts a program as a job that outlives the call and the daemon.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use crate::jobs::ShellJobStore;
use crate::program::ShellProgramInput;

pub(crate) struct ShellStartAction(pub(crate) Arc<ShellJobStore>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ShellStartOutput {
    job: String,
}

impl AgentAction for ShellStartAction {
    const NAME: &'static str = "start";
    type Input = ShellProgramInput;
    type Output = ShellStartOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ShellProgramInput,
    ) -> Result<ShellStartOutput, ActionError> {
        let (jobs, call) = (Arc::clone(&self.0), cx.clone());
        let record = cx
            .run_blocking(move |_| {
                let command = input.build_command(&*call.system)?;
                let started =
                    jobs.start_job(&call, &command, input.display_words(), input.run_as_user());
                started.map_err(ActionError::from)
            })
            .await??;
        Ok(ShellStartOutput { job: record.job })
    }
}
