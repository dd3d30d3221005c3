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
        leader: leader.map_or(String::new(), |leader| leader.host.to_string()),
        counts,
        nodes,
        more,
    })
}

fn build_row(record: &NodeRecord, history: bool) -> ProvisionedNodeRow {
    let text = |name: &str| record.text_value(name).unwrap_or_default().to_owned();
    let row = |entry: &crate::record::HistoryEntry| NodeHistoryRow {
        at: entry.at,
        step: entry.step.clone(),
        what: event_kind_name(entry.what).to_owned(),
        words: entry.words.clone(),
    };
    let current = record.current.as_ref();
    ProvisionedNodeRow {
        node: record.identity.to_string(),
        state: record.state.as_str().to_owned(),
        step: current.map_or(String::new(), |current| current.step.to_string()),
        attempt: current.map_or(0, |current| current.attempt.into()),
        done: record.done.iter().map(ToString::to_string).collect(),
        paused: record.paused,
        error: record.error.clone().unwrap_or_default(),
        master: text("master"),
        serial: text("serial"),
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
