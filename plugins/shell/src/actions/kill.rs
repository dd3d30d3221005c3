//! `kill`: ends a job and everything in its process group.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::View;
use crate::jobs::Jobs;

pub(crate) struct Kill(pub(crate) Arc<Jobs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    job: String,
    /// How many seconds it has between TERM and KILL.
    grace: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    /// Whether there was anything to end.
    ended: bool,
    state: String,
    exitcode: Option<i32>,
    signal: Option<i32>,
}

impl Action for Kill {
    const NAME: &'static str = "kill";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.blocking(move |_| {
            let record = jobs.get_of(&input.job, &caller)?;
            let ended = jobs.kill(&record, &*system, Duration::from_secs(input.grace.min(60)))?;
            let view = View::of(&jobs, record, &*system);
            Ok(Output {
                ended,
                state: view.state,
                exitcode: view.exitcode,
                signal: view.signal,
            })
        })
        .await?
    }
}
