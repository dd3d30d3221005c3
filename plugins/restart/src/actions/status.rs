//! `status`: where the restart of a service is, or what came of the last one.

use std::sync::Arc;

use muster_api::system::error::chain;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::unit;
use crate::restarts::Restarts;

pub(crate) struct Status(pub(crate) Arc<Restarts>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    unit: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    state: String,
    text: String,
    id: Option<String>,
    requests: u32,
    requested: Option<u64>,
    ended: Option<u64>,
    pid: Option<u32>,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let target = unit(&input.unit)?;
        let restarts = Arc::clone(&self.0);
        let found = cx.blocking(move |_| restarts.find(&target, None)).await?;
        let found = found.map_err(|error| ActionError::failed(chain(&error)))?;
        Ok(match found {
            None => Output {
                state: "none".to_owned(),
                text: "no restart was asked for".to_owned(),
                id: None,
                requests: 0,
                requested: None,
                ended: None,
                pid: None,
            },
            Some(cycle) => Output {
                state: cycle.state.word().to_owned(),
                id: Some(cycle.id.to_string()),
                requests: cycle.requests,
                requested: Some(cycle.requested.wall),
                ended: cycle.ended().map(|at| at.wall),
                pid: cycle.after.map(|process| process.pid),
                text: cycle.text,
            },
        })
    }
}
