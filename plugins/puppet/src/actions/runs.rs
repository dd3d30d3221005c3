//! `runs`: how runs ended that were asked for here.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::run_id;
use crate::outcome::Outcome;
use crate::runs;

pub(crate) struct Runs(pub(crate) Arc<runs::Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    run: Option<String>,
    count: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    runs: Vec<Outcome>,
}

impl Action for Runs {
    const NAME: &'static str = "runs";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let id = input.run.as_deref().map(run_id).transpose()?;
        let runs = Arc::clone(&self.0);
        let runs = cx.blocking(move |_| runs.told(id, input.count)).await?;
        Ok(Output {
            count: runs.len(),
            runs,
        })
    }
}
