//! `retry`, `pause`, `resume`, `retire`: what people ask for. It is written down, and whoever leads does it.

use muster_api::wire::identity::Identity;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::record::Record;
use crate::service::now;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    node: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    node: String,
    state: String,
    changed: bool,
}

pub(crate) struct Retry(pub(crate) Desk);
pub(crate) struct Pause(pub(crate) Desk);
pub(crate) struct Resume(pub(crate) Desk);
pub(crate) struct Retire(pub(crate) Desk);

impl Action for Retry {
    const NAME: &'static str = "retry";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let node = name(&input)?;
        let changed = self
            .0
            .change(&node, |record| record.retry(&cx.caller, now()));
        Ok(answer(changed.await?))
    }
}

impl Action for Pause {
    const NAME: &'static str = "pause";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        pause(&self.0, cx, &input, true).await
    }
}

impl Action for Resume {
    const NAME: &'static str = "resume";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        pause(&self.0, cx, &input, false).await
    }
}

impl Action for Retire {
    const NAME: &'static str = "retire";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let node = name(&input)?;
        Ok(answer(self.0.retire(&node, &cx.caller).await?))
    }
}

async fn pause(
    desk: &Desk,
    cx: &Context,
    input: &Input,
    paused: bool,
) -> Result<Output, ActionError> {
    let node = name(input)?;
    let changed = desk.change(&node, |record| {
        let wanted = record.paused != paused;
        if wanted {
            record.pause(paused, &cx.caller, now());
        }
        wanted
    });
    Ok(answer(changed.await?))
}

fn name(input: &Input) -> Result<Identity, ActionError> {
    Identity::parse(&input.node).map_err(|error| ActionError::invalid(format!("node: {error}")))
}

fn answer((record, changed): (Record, bool)) -> Output {
    Output {
        node: record.identity.to_string(),
        state: record.state.word().to_owned(),
        changed,
    }
}
