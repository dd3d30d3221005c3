//! `status`: how it is with a job.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use super::{Job, View};
use crate::jobs::Jobs;

pub(crate) struct Status(pub(crate) Arc<Jobs>);

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Job;
    type Output = View;

    async fn run(&self, cx: &Context, input: Job) -> Result<View, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.blocking(move |_| Ok(View::of(&jobs, jobs.get_of(&input.job, &caller)?, &*system)))
            .await?
    }
}
