//! `list`: the jobs that the node remembers, the oldest first.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::View;
use crate::jobs::Jobs;

pub(crate) struct List(pub(crate) Arc<Jobs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Nothing {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    running: usize,
    jobs: Vec<View>,
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let (jobs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.blocking(move |_| {
            let records = jobs.list_of(&caller)?.into_iter();
            let views: Vec<View> = records
                .map(|record| View::of(&jobs, record, &*system))
                .collect();
            Ok(Output {
                running: views.iter().filter(|view| view.state == "running").count(),
                jobs: views,
            })
        })
        .await?
    }
}
