//! `list`: lists the recorded jobs, oldest first.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};

use super::ShellJobView;
use crate::jobs::ShellJobStore;

pub(crate) struct ShellListAction(pub(crate) Arc<ShellJobStore>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShellListInput {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct ShellListOutput {
    running: usize,
    jobs: Vec<ShellJobView>,
}

impl AgentAction for ShellListAction {
    const NAME: &'static str = "list";
    type Input = ShellListInput;
    type Output = ShellListOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: ShellListInput,
    ) -> Result<ShellListOutput, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.run_blocking(move |_| {
            let records = jobs.list_for_caller(&caller)?.into_iter();
            let views: Vec<ShellJobView> =
                records.map(|record| ShellJobView::from_record(&jobs, record, &*system)).collect();
            Ok(ShellListOutput {
                running: views.iter().filter(|view| view.state == "running").count(),
                jobs: views,
            })
        })
        .await?
    }
}
