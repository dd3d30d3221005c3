//! `retry`, `pause`, `resume`, `retire`: requests of operators. They are written to the record, and the leader executes them.

use muster_api::wire::identity::Identity;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::provisioner::NodeControlOutput;
use serde::Deserialize;

use crate::handle::ProvisionerHandle;
use crate::record::NodeRecord;
use muster_base::unix_millis_now;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NodeControlInput {
    node: String,
}

pub(crate) struct ProvisionerRetryAction(pub(crate) ProvisionerHandle);
pub(crate) struct ProvisionerPauseAction(pub(crate) ProvisionerHandle);
pub(crate) struct ProvisionerResumeAction(pub(crate) ProvisionerHandle);
pub(crate) struct ProvisionerRetireAction(pub(crate) ProvisionerHandle);

impl AgentAction for ProvisionerRetryAction {
    const NAME: &'static str = "retry";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: NodeControlInput,
    ) -> Result<NodeControlOutput, ActionError> {
        let node = parse_node(&input)?;
        let changed = self
            .0
            .change_record(&node, |record| record.request_retry(&cx.caller, unix_millis_now()));
        Ok(build_output(changed.await?))
    }
}

impl AgentAction for ProvisionerPauseAction {
    const NAME: &'static str = "pause";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: NodeControlInput,
    ) -> Result<NodeControlOutput, ActionError> {
        set_paused(&self.0, cx, &input, true).await
    }
}

impl AgentAction for ProvisionerResumeAction {
    const NAME: &'static str = "resume";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: NodeControlInput,
    ) -> Result<NodeControlOutput, ActionError> {
        set_paused(&self.0, cx, &input, false).await
    }
}

impl AgentAction for ProvisionerRetireAction {
    const NAME: &'static str = "retire";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: NodeControlInput,
    ) -> Result<NodeControlOutput, ActionError> {
        let node = parse_node(&input)?;
        Ok(build_output(self.0.retire_node(&node, &cx.caller).await?))
    }
}

async fn set_paused(
    handle: &ProvisionerHandle,
    cx: &CallContext,
    input: &NodeControlInput,
    paused: bool,
) -> Result<NodeControlOutput, ActionError> {
    let node = parse_node(input)?;
    let changed = handle.change_record(&node, |record| {
        let is_changed = record.paused != paused;
        if is_changed {
            record.set_paused(paused, &cx.caller, unix_millis_now());
        }
        is_changed
    });
    Ok(build_output(changed.await?))
}

fn parse_node(input: &NodeControlInput) -> Result<Identity, ActionError> {
    Identity::parse(&input.node)
        .map_err(|error| ActionError::invalid_input(format!("node: {error}")))
}

fn build_output((record, changed): (NodeRecord, bool)) -> NodeControlOutput {
    NodeControlOutput {
        node: record.identity.to_string(),
        state: record.state.as_str().to_owned(),
        changed,
    }
}
