//! `status`: the state of every node, and the current leader.

use muster_api::{ActionError, CallContext};
use muster_contract::provisioner::{
    NodeHistoryRow, ProvisionedNodeRow, ProvisionerStatusInput, ProvisionerStatusOutput,
};
use serde_json::{Map, Value};

use crate::handle::ProvisionerHandle;
use crate::record::{EventKind, NodeRecord};

/// Maximum number of nodes in one reply.
const MAX_LISTED_NODES: usize = 1000;

pub(crate) async fn list_nodes(
    handle: ProvisionerHandle,
    _: CallContext,
    input: ProvisionerStatusInput,
) -> Result<ProvisionerStatusOutput, ActionError> {
    let mut counts = Map::new();
    let mut nodes = Vec::new();
    let mut more = 0;
    for record in handle.list_records().await? {
        let state_name = record.state.as_str();
        let count = counts.get(state_name).and_then(Value::as_u64).unwrap_or_default();
        counts.insert(state_name.to_owned(), (count + 1).into());
        let matches = input.state.is_none_or(|state| state == record.state)
            && input.node.as_deref().is_none_or(|node| node == record.identity.as_str());
        if matches && nodes.len() < MAX_LISTED_NODES {
            nodes.push(build_row(&record, input.history));
        } else if matches {
            more += 1;
        }
    }
    let leader = handle.current_leader().await?;
    Ok(ProvisionerStatusOutput {
        leader: leader.map(|leader| leader.host.as_str().into()).unwrap_or_default(),
        counts,
        nodes,
        more,
    })
}

fn build_row(record: &NodeRecord, history: bool) -> ProvisionedNodeRow {
    let text = |name: &str| record.text_value(name).unwrap_or_default();
    let row = |entry: &crate::record::HistoryEntry| NodeHistoryRow {
        at: entry.at,
        step: entry.step.as_str().into(),
        what: event_kind_name(entry.what).into(),
        words: entry.words.as_str().into(),
    };
    let current = record.current.as_ref();
    ProvisionedNodeRow {
        node: record.identity.as_str().into(),
        state: record.state.as_str().into(),
        step: current.map(|current| current.step.to_string().into()).unwrap_or_default(),
        attempt: current.map_or(0, |current| current.attempt.into()),
        done: record.done.iter().map(|step| step.to_string().into()).collect(),
        paused: record.paused,
        error: record.error.as_deref().unwrap_or_default().into(),
        master: text("master").into(),
        serial: text("serial").to_owned(),
        since: record.since,
        changed: record.changed,
        history: if history { record.history.iter().map(row).collect() } else { Vec::new() },
    }
}

fn event_kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Began => "began",
        EventKind::Done => "done",
        EventKind::Failed => "failed",
        EventKind::Deferred => "deferred",
        EventKind::Requested => "asked",
    }
}
