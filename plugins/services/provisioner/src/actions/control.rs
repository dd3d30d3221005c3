//! `retry`, `pause`, `resume`, `retire`: requests of operators. They are written to the record, and the leader executes them.

use muster_api::wire::identity::Identity;
use muster_api::{ActionError, CallContext};
use muster_base::unix_millis_now;
use muster_contract::provisioner::{NodeControlInput, NodeControlOutput};

use crate::handle::ProvisionerHandle;
use crate::record::NodeRecord;

pub(crate) async fn retry_node(
    handle: ProvisionerHandle,
    cx: CallContext,
    input: NodeControlInput,
) -> Result<NodeControlOutput, ActionError> {
    let node = parse_node(&input)?;
    let retry = |record: &mut NodeRecord| record.request_retry(&cx.caller, unix_millis_now());
    let (record, changed) = handle.change_record(&node, retry).await?;
    Ok(build_output(&record, changed))
}

pub(crate) async fn retire_node(
    handle: ProvisionerHandle,
    cx: CallContext,
    input: NodeControlInput,
) -> Result<NodeControlOutput, ActionError> {
    let node = parse_node(&input)?;
    let (record, changed) = handle.retire_node(&node, &cx.caller).await?;
    Ok(build_output(&record, changed))
}

pub(crate) async fn set_paused(
    handle: ProvisionerHandle,
    cx: CallContext,
    input: NodeControlInput,
    paused: bool,
) -> Result<NodeControlOutput, ActionError> {
    let node = parse_node(&input)?;
    let changed = handle.change_record(&node, |record| {
        let is_changed = record.paused != paused;
        if is_changed {
            record.set_paused(paused, &cx.caller, unix_millis_now());
        }
        is_changed
    });
    let (record, changed) = changed.await?;
    Ok(build_output(&record, changed))
}

fn parse_node(input: &NodeControlInput) -> Result<Identity, ActionError> {
    Identity::parse(&input.node)
        .map_err(|error| ActionError::invalid_input(format!("node: {error}")))
}

fn build_output(record: &NodeRecord, changed: bool) -> NodeControlOutput {
    NodeControlOutput {
        node: record.identity.as_str().into(),
        state: record.state.as_str().into(),
        changed,
    }
}
