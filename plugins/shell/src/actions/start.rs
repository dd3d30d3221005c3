//! `start`: starts a program as a job, which outlives the call and the daemon.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use crate::jobs::Jobs;
use crate::program::Program;

pub(crate) struct Start(pub(crate) Arc<Jobs>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    job: String,
}

impl Action for Start {
    const NAME: &'static str = "start";
    type Input = Program;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Program) -> Result<Output, ActionError> {
        let (jobs, call) = (Arc::clone(&self.0), cx.clone());
        let record = cx
            .blocking(move |_| {
                let command = input.command(&*call.system)?;
                let started = jobs.start(&call, &command, input.words(), input.user());
                started.map_err(ActionError::from)
            })
            .await??;
        Ok(Output { job: record.job })
    }
}
