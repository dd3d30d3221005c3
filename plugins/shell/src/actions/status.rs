//! `status`: shows the state of a job.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use super::{ShellJobInput, ShellJobView};
use crate::jobs::ShellJobStore;

pub(crate) struct ShellStatusAction(pub(crate) Arc<ShellJobStore>);

impl AgentAction for ShellStatusAction {
    const NAME: &'static str = "status";
    type Input = ShellJobInput;
    type Output = ShellJobView;

    async fn run(
        &self,
        cx: &CallContext,
        input: ShellJobInput,
    ) -> Result<ShellJobView, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.run_blocking(move |_| {
            Ok(ShellJobView::from_record(
                &jobs,
                jobs.get_for_caller(&input.job, &caller)?,
                &*system,
            ))
        })
        .await?
    }
}
