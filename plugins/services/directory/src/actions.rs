//! The agent `directory`: parses the inputs, queries the index, and builds the outputs.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::{ActionError, Agent, AgentError, CallContext};
use muster_contract::directory::{
    DirectoryAgent, DirectoryChanges, DirectoryChangesInput, DirectoryChangesOutput,
    DirectoryFacet, DirectoryFacets, DirectoryFacetsInput, DirectoryFacetsOutput, DirectoryFind,
    DirectoryFindOutput, DirectoryForget, DirectoryForgetInput, DirectoryForgetOutput,
    DirectoryList, DirectoryListInput, DirectoryListOutput, DirectoryNodeRow, DirectoryQueryInput,
    DirectoryShow, DirectoryShowInput, DirectoryShowOutput, DirectoryStatus, DirectoryStatusOutput,
};
use muster_wire::identity::Identity;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::http::options::DirectoryHttpOptions;
use crate::liveness::{DEFAULT_GRACE_SECONDS, Presence};
use crate::memory::DEFAULT_MEMORY_MIB;
use crate::node_table::StoredNode;
use crate::page::{JSON_NAME_BYTES, MAX_PAGE_BYTES, count_fitting, fit_node, fit_row};
use crate::query::RecordFilter;
use crate::selection::{parse_fields, parse_filter, parse_path, unknown_node};
use crate::state::{DirectoryHandle, ForgottenNode};

const MAX_FACETS: usize = 1000;
/// Bytes of each of them besides the value itself.
const FACET_BYTES: usize = 40;
/// Longest time that `show` waits until the index has a record that the bucket has.
const MAX_RECORD_WAIT: Duration = Duration::from_secs(2);
const MAX_CHANGES_WAIT: Duration = Duration::from_secs(20);

/// The section `[plugins.directory]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectoryOptions {
    /// Whether this host runs an instance.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
    /// Whether it evaluates the conditions of nodes that wait for runs of others.
    pub conditions: bool,
    /// Time that a heartbeat may be late before its node counts as missing.
    pub(crate) grace_seconds: u32,
    /// Memory that all records may take, in MiB; beyond it only small ones are taken.
    pub memory_mib: u32,
    pub http: DirectoryHttpOptions,
}

impl DirectoryOptions {
    /// Time that a heartbeat may be late before its node counts as missing.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds.into())
    }
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        let (credentials, http) = (PathBuf::default(), DirectoryHttpOptions::default());
        Self {
            enabled: false,
            credentials,
            conditions: true,
            grace_seconds: DEFAULT_GRACE_SECONDS,
            memory_mib: DEFAULT_MEMORY_MIB,
            http,
        }
    }
}

/// The agent `directory`. The daemon offers it through the service's own connection, so it is not among the agents of the node.
pub fn build_agent(handle: &DirectoryHandle) -> Result<Agent, AgentError> {
    Agent::builder_for::<DirectoryAgent>()?
        .blocking_action(DirectoryFind, handle, |handle, _, input| {
            find(handle, &input, Instant::now())
        })
        .blocking_action(DirectoryList, handle, |handle, _, input: DirectoryListInput| {
            let (query, with_documents) = input.into_query();
            list(handle, &query, with_documents, Instant::now())
        })
        .action(DirectoryShow, handle, show)
        .blocking_action(DirectoryFacets, handle, |handle, _, input: DirectoryFacetsInput| {
            let (path, query) = input.into_query();
            facets(handle, &path, &query)
        })
        .action(DirectoryChanges, handle, changes)
        .action(DirectoryForget, handle, forget)
        .blocking_action(DirectoryStatus, handle, |handle, _, _| Ok(status(handle)))
        .build()
}

fn find(
    handle: &DirectoryHandle,
    input: &DirectoryQueryInput,
    now: Instant,
) -> Result<DirectoryFindOutput, ActionError> {
    let state = handle.read();
    let mut page = state.page(input, now)?;
    let name = |node: &&StoredNode| node.identity.to_string();
    let is_missing = |node: &&&StoredNode| state.presence(node, now) == Presence::Missing;
    let is_cloned = |node: &&&StoredNode| node.liveness.is_cloned(now);
    // The names of missing nodes and of cloned ones are in two lists.
    let bytes = |node: &&StoredNode| {
        let lists = 1 + usize::from(is_missing(&node)) + usize::from(is_cloned(&node));
        (node.identity.as_str().len() + JSON_NAME_BYTES) * lists
    };
    page.cut(count_fitting(page.nodes.iter().map(bytes)));
    Ok(DirectoryFindOutput {
        missing: page.nodes.iter().filter(is_missing).map(name).collect(),
        cloned: page.nodes.iter().filter(is_cloned).map(name).collect(),
        nodes: page.nodes.iter().map(name).collect(),
        total: page.total,
        stale: page.stale,
        next: page.next,
        freshness: state.freshness(now),
    })
}

pub(crate) fn list(
    handle: &DirectoryHandle,
    query: &DirectoryQueryInput,
    with_documents: bool,
    now: Instant,
) -> Result<DirectoryListOutput, ActionError> {
    let fields = parse_fields(&query.fields)?;
    let state = handle.read();
    let mut page = state.page(query, now)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for node in &page.nodes {
        let mut row = state.row(node, &fields, now);
        row.document = with_documents.then(|| state.document(node));
        let (row, size) = fit_row(row);
        bytes += size;
        if bytes > MAX_PAGE_BYTES && !rows.is_empty() {
            break;
        }
        rows.push(row);
    }
    page.cut(rows.len());
    Ok(DirectoryListOutput {
        nodes: rows,
        total: page.total,
        stale: page.stale,
        next: page.next,
        freshness: state.freshness(now),
    })
}

async fn show(
    handle: DirectoryHandle,
    _: CallContext,
    input: DirectoryShowInput,
) -> Result<DirectoryShowOutput, ActionError> {
    let name = parse_name(&input.node)?;
    let record = match (input.record, handle.records()) {
        (Some(true), Some(bucket)) => {
            bucket.get(name.as_str()).await.map_err(ActionError::from_cause)?
        }
        _ => None,
    };
    if let Some(record) = &record {
        // The index follows the bucket within milliseconds. A record that it refuses never arrives.
        let _ = timeout(MAX_RECORD_WAIT, handle.wait_for_revision(&name, record.revision)).await;
    }
    let (shown, is_ready) = {
        let state = handle.read();
        (state.show(&name, Instant::now()), state.is_ready)
    };
    let mut output = shown.ok_or_else(|| unknown_node(&name, is_ready))?;
    fit_node(&mut output);
    let value = record.and_then(|record| record.value);
    output.record = value.and_then(|value| String::from_utf8(value.to_vec()).ok());
    Ok(output)
}

pub(crate) fn facets(
    handle: &DirectoryHandle,
    path: &str,
    query: &DirectoryQueryInput,
) -> Result<DirectoryFacetsOutput, ActionError> {
    let path = parse_path(path)?;
    let (state, now) = (handle.read(), Instant::now());
    let (nodes, _) = state.matching(query, now)?;
    let (mut counts, absent) = state.table.facets(&path, &nodes);
    counts.sort_by(|(one, ones), (other, others)| {
        others.cmp(ones).then_with(|| one.to_string().cmp(&other.to_string()))
    });
    let distinct = counts.len();
    counts.truncate(MAX_FACETS);
    let bytes = |(value, _): &(Value, u64)| value.to_string().len() + FACET_BYTES;
    counts.truncate(count_fitting(counts.iter().map(bytes)));
    Ok(DirectoryFacetsOutput {
        values: counts.into_iter().map(|(value, nodes)| DirectoryFacet { value, nodes }).collect(),
        absent,
        distinct,
        total: nodes.len(),
        freshness: state.freshness(now),
    })
}

/// Waits for a change after the cursor, and returns what has changed.
async fn changes(
    handle: DirectoryHandle,
    _: CallContext,
    input: DirectoryChangesInput,
) -> Result<DirectoryChangesOutput, ActionError> {
    if let Some(cursor) = last_known_change(&handle, &input) {
        let wait = Duration::from_secs(input.wait.unwrap_or(0)).min(MAX_CHANGES_WAIT);
        // Without a change, the answer is empty, and its cursor the same.
        let _ = timeout(wait, handle.wait_for_change(cursor)).await;
    }
    answer_changes(&handle, &input)
}

/// What has changed after the cursor, the oldest changes first, as far as it fits into a reply.
pub(crate) fn answer_changes(
    handle: &DirectoryHandle,
    input: &DirectoryChangesInput,
) -> Result<DirectoryChangesOutput, ActionError> {
    let fields = parse_fields(&input.fields)?;
    let filter = parse_filter(input.filter.as_deref())?;
    let cursor = last_known_change(handle, input);
    let (state, now) = (handle.read(), Instant::now());
    let filter = RecordFilter::new(&filter)
        .map_err(|error| ActionError::invalid_input(error.to_string()))?;
    let changed = cursor.and_then(|cursor| state.changes_after(cursor));
    let mut output = DirectoryChangesOutput {
        reset: changed.is_none(),
        freshness: state.freshness(now),
        ..DirectoryChangesOutput::default()
    };
    let (mut last, mut bytes) = (cursor.filter(|_| changed.is_some()), 0);
    for (number, name) in changed.into_iter().flatten() {
        let node = state.table.get(name).filter(|node| filter.matches(&state.table, node));
        let row = node.map(|node| fit_row(state.row(node, &fields, now)));
        bytes += row.as_ref().map_or(name.as_str().len() + JSON_NAME_BYTES, |(_, size)| *size);
        if bytes > MAX_PAGE_BYTES && !(output.nodes.is_empty() && output.gone.is_empty()) {
            break;
        }
        last = Some(number);
        match row {
            Some((row, _)) => output.nodes.push(row),
            None => output.gone.push(name.to_string()),
        }
    }
    let last = last.unwrap_or_else(|| state.last_change());
    output.cursor = format!("{}.{last}", handle.instance());
    Ok(output)
}

fn status(handle: &DirectoryHandle) -> DirectoryStatusOutput {
    let (state, now) = (handle.read(), Instant::now());
    let is_missing = |node: &&StoredNode| state.presence(node, now) == Presence::Missing;
    DirectoryStatusOutput {
        nodes: state.table.len(),
        missing: state.table.iter().filter(is_missing).count(),
        values: state.table.fact_values().len(),
        value_bytes: state.table.fact_values().text_bytes(),
        refused: state.refused,
        freshness: state.freshness(now),
    }
}

/// Leaves out the record of a node that is missing, on all instances, until it runs again.
async fn forget(
    handle: DirectoryHandle,
    _: CallContext,
    input: DirectoryForgetInput,
) -> Result<DirectoryForgetOutput, ActionError> {
    let name = parse_name(&input.node)?;
    let revision = handle.read().revision_to_forget(&name, Instant::now())?;
    let notes = handle.notes();
    let notes = notes.ok_or_else(|| ActionError::failed("the directory has not started yet"))?;
    let note = serde_json::to_vec(&ForgottenNode { revision }).map_err(ActionError::from_cause)?;
    notes.put(name.as_str(), note.into()).await.map_err(ActionError::from_cause)?;
    handle.forget(&name, revision);
    Ok(DirectoryForgetOutput { node: name.to_string(), revision })
}

/// Everything that is known of a node, for those who need no signed record; `None` if it is unknown.
pub(crate) fn show_known(
    handle: &DirectoryHandle,
    name: &str,
) -> Result<Option<DirectoryShowOutput>, ActionError> {
    Ok(handle.read().show(&parse_name(name)?, Instant::now()))
}

/// Calls a function with the row and the classes of each node that matches, until it returns `false`. Nodes are on no pages here.
pub(crate) fn for_each_row(
    handle: &DirectoryHandle,
    query: &DirectoryQueryInput,
    mut visit: impl FnMut(DirectoryNodeRow, &[String]) -> bool,
) -> Result<(), ActionError> {
    let fields = parse_fields(&query.fields)?;
    let (state, now) = (handle.read(), Instant::now());
    let (nodes, _) = state.matching(query, now)?;
    for node in nodes {
        if !visit(state.row(node, &fields, now), &node.classes) {
            break;
        }
    }
    Ok(())
}

/// The number of the last change that the caller has; `None` without a cursor of this run of the instance.
fn last_known_change(handle: &DirectoryHandle, input: &DirectoryChangesInput) -> Option<u64> {
    parse_cursor(input.cursor.as_deref()?, handle.instance())
}

/// The number of the change in a cursor of this instance.
pub(crate) fn change_number(handle: &DirectoryHandle, cursor: &str) -> Option<u64> {
    parse_cursor(cursor, handle.instance())
}

fn parse_name(text: &str) -> Result<Identity, ActionError> {
    Identity::parse(text).map_err(|error| ActionError::invalid_input(format!("node: {error}")))
}

/// A cursor of another instance counts other changes.
fn parse_cursor(text: &str, instance: Uuid) -> Option<u64> {
    let (made_by, number) = text.split_once('.')?;
    (made_by == instance.to_string()).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests;
