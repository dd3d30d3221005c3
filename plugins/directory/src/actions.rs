//! The agent `directory`: parses the inputs, queries the index, and builds the outputs.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::{
    ActionError, Agent, AgentError, CallContext, DaemonContext, EmptyInput, NodePlugin, PluginError,
};
use muster_contract::directory::{
    DirectoryChangesOutput, DirectoryFacet, DirectoryFacetsOutput, DirectoryFindOutput,
    DirectoryFreshness, DirectoryListInput, DirectoryListOutput, DirectoryNodeDocument,
    DirectoryNodeRow, DirectoryQueryInput, DirectoryShowInput, DirectoryShowOutput,
    DirectoryStatusOutput, MAX_PAGE_NODES,
};
use muster_filter::NodeFilter;
use muster_filter::state::FactPath;
use muster_wire::identity::Identity;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::liveness::Presence;
use crate::node_table::StoredNode;
use crate::page::{JSON_NAME_BYTES, MAX_PAGE_BYTES, NodePage, count_fitting, row_bytes};
use crate::query::{FoundNodes, RecordFilter, find_nodes};
use crate::state::{DirectoryHandle, DirectoryState};

/// Nodes that were not seen for this time are left out unless they are requested.
const DEFAULT_STALE_SECONDS: u64 = 3600;
/// Most values in an answer of `facets`.
const MAX_FACETS: usize = 1000;
/// Most fields of each node.
const MAX_FIELDS: usize = 32;
/// Longest time that `show` waits until the index has a record that the bucket has.
const MAX_RECORD_WAIT: Duration = Duration::from_secs(2);
/// Longest time that `changes` waits.
const MAX_CHANGES_WAIT: Duration = Duration::from_secs(20);

/// The section `[plugins.directory]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DirectoryOptions {
    /// Whether this host runs an instance.
    pub enabled: bool,
    /// Credentials of a user with the role service.
    pub credentials: PathBuf,
}

/// The agent `directory`. The daemon offers it through the service's own connection, so it is not among the agents of the node.
#[derive(Debug, Clone)]
pub struct DirectoryPlugin;

impl NodePlugin for DirectoryPlugin {
    const NAME: &'static str = "directory";
    type Options = DirectoryOptions;
    type Shared = ();

    fn configure(_: DirectoryOptions, _: &DaemonContext, (): ()) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(&DirectoryHandle::default())
    }

    fn is_enabled(&self) -> bool {
        false
    }
}

/// Builds the agent of an instance.
pub fn build_agent(handle: &DirectoryHandle) -> Result<Agent, AgentError> {
    Agent::builtin("directory")?
        .blocking_action("find", handle, |handle, _, input| find(handle, &input))
        .blocking_action("list", handle, |handle, _, input| list(handle, &input))
        .action("show", handle, show)
        .blocking_action("facets", handle, |handle, _, input| facets(handle, &input))
        .action("changes", handle, changes)
        .blocking_action("status", handle, |handle, _, _: EmptyInput| Ok(status(handle)))
        .build()
}

impl DirectoryState {
    fn freshness(&self, now: Instant) -> DirectoryFreshness {
        let listening = self.listening.map(|since| now.saturating_duration_since(since));
        DirectoryFreshness {
            ready: self.is_ready,
            current: self.is_ready && listening.is_some(),
            listening_seconds: listening.unwrap_or_default().as_secs(),
        }
    }

    fn presence(&self, node: &StoredNode, now: Instant) -> Presence {
        match self.listening {
            Some(listening) => node.liveness.presence(now, listening),
            None => Presence::Unknown,
        }
    }

    fn is_stale(&self, node: &StoredNode, limit: Duration, now: Instant) -> bool {
        let heard = node.liveness.last_seen().or(self.listening);
        heard.is_some_and(|heard| now.saturating_duration_since(heard) > limit)
            && self.presence(node, now) == Presence::Missing
    }

    /// All nodes that match, and how many are left out because they are stale.
    fn matching(
        &self,
        input: &DirectoryQueryInput,
        now: Instant,
    ) -> Result<(FoundNodes<'_>, usize), ActionError> {
        let filter = parse_filter(input.filter.as_deref())?;
        let mut nodes = find_nodes(&self.table, &filter)
            .map_err(|error| ActionError::invalid_input(error.to_string()))?;
        let found = nodes.len();
        if input.stale != Some(true) {
            let seconds = input.stale_seconds.unwrap_or(DEFAULT_STALE_SECONDS);
            let limit = Duration::from_secs(seconds);
            nodes.retain(|node| !self.is_stale(node, limit, now));
        }
        let stale = found - nodes.len();
        Ok((nodes, stale))
    }

    fn page(&self, input: &DirectoryQueryInput, now: Instant) -> Result<NodePage<'_>, ActionError> {
        let (mut nodes, stale) = self.matching(input, now)?;
        let total = nodes.len();
        if let Some(after) = &input.after {
            nodes.retain(|node| node.identity.as_str() > after.as_str());
        }
        let limit = input.limit.unwrap_or(MAX_PAGE_NODES).clamp(1, MAX_PAGE_NODES);
        let has_more = nodes.len() > limit;
        nodes.truncate(limit);
        let last = nodes.last().filter(|_| has_more);
        let next = last.map(|last| last.identity.to_string());
        Ok(NodePage { nodes, total, stale, next })
    }

    fn row(&self, node: &StoredNode, fields: &[FactPath], now: Instant) -> DirectoryNodeRow {
        let seen = node.liveness.last_seen();
        let facts = self.table.facts_at(node, fields);
        let value = |path: &FactPath| {
            facts.get_path(path).map(|value| (path.as_str().to_owned(), value.clone()))
        };
        DirectoryNodeRow {
            node: node.identity.to_string(),
            state: self.presence(node, now).as_str().to_owned(),
            seen: seen.map(|heard| now.saturating_duration_since(heard).as_secs()),
            version: node.version.to_string(),
            collectives: node.collectives.to_vec(),
            classes: node.classes.len(),
            fields: fields.iter().filter_map(value).collect(),
            document: None,
        }
    }

    fn document(&self, node: &StoredNode) -> DirectoryNodeDocument {
        DirectoryNodeDocument {
            classes: node.classes_known.then(|| node.classes.to_vec()),
            facts: self.table.facts_of(node).into_map(),
        }
    }
}

fn find(
    handle: &DirectoryHandle,
    input: &DirectoryQueryInput,
) -> Result<DirectoryFindOutput, ActionError> {
    let (state, now) = (handle.read(), Instant::now());
    let mut page = state.page(input, now)?;
    let name = |node: &&StoredNode| node.identity.to_string();
    let is_missing = |node: &&&StoredNode| state.presence(node, now) == Presence::Missing;
    // The names of missing nodes are in both lists.
    let bytes = |node: &&StoredNode| {
        (node.identity.as_str().len() + JSON_NAME_BYTES) * (1 + usize::from(is_missing(&node)))
    };
    page.cut(count_fitting(page.nodes.iter().map(bytes)));
    Ok(DirectoryFindOutput {
        missing: page.nodes.iter().filter(is_missing).map(name).collect(),
        nodes: page.nodes.iter().map(name).collect(),
        total: page.total,
        stale: page.stale,
        next: page.next,
        freshness: state.freshness(now),
    })
}

fn list(
    handle: &DirectoryHandle,
    input: &DirectoryListInput,
) -> Result<DirectoryListOutput, ActionError> {
    let fields = parse_fields(&input.query.fields)?;
    let (state, now) = (handle.read(), Instant::now());
    let mut page = state.page(&input.query, now)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for node in &page.nodes {
        let mut row = state.row(node, &fields, now);
        row.document = (input.documents == Some(true)).then(|| state.document(node));
        bytes += row_bytes(&row);
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
    let name = Identity::parse(&input.node)
        .map_err(|error| ActionError::invalid_input(format!("node: {error}")))?;
    let record = match (input.record, handle.bucket()) {
        (Some(true), Some(bucket)) => {
            bucket.get(name.as_str()).await.map_err(ActionError::from_cause)?
        }
        _ => None,
    };
    if let Some(record) = &record {
        // The index follows the bucket within milliseconds. A record that it refuses never arrives.
        let _ = timeout(MAX_RECORD_WAIT, handle.wait_for_revision(&name, record.revision)).await;
    }
    let mut output = {
        let (state, now) = (handle.read(), Instant::now());
        let unknown = || ActionError::failed(format!("the directory knows no node `{name}`"));
        let node = state.table.get(&name).ok_or_else(unknown)?;
        let agents = node.agents.iter().cloned().zip(node.agent_versions.iter().cloned());
        DirectoryShowOutput {
            node: state.row(node, &[], now),
            classes: node.classes_known.then(|| node.classes.to_vec()),
            agents: agents.collect(),
            facts: state.table.facts_of(node).into_map(),
            state: node.state.clone(),
            ssh_host_keys: node.ssh_host_keys.to_vec(),
            record_time: node.record_time,
            revision: node.revision,
            record: None,
            freshness: state.freshness(now),
        }
    };
    let value = record.and_then(|record| record.value);
    output.record = value.and_then(|value| String::from_utf8(value.to_vec()).ok());
    Ok(output)
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct FacetsInput {
    path: String,
    #[serde(flatten)]
    query: DirectoryQueryInput,
}

fn facets(
    handle: &DirectoryHandle,
    input: &FacetsInput,
) -> Result<DirectoryFacetsOutput, ActionError> {
    let path = parse_path(&input.path)?;
    let (state, now) = (handle.read(), Instant::now());
    let (nodes, _) = state.matching(&input.query, now)?;
    let (mut counts, absent) = state.table.facets(&path, &nodes);
    counts.sort_by(|(one, ones), (other, others)| {
        others.cmp(ones).then_with(|| one.to_string().cmp(&other.to_string()))
    });
    let distinct = counts.len();
    counts.truncate(MAX_FACETS);
    Ok(DirectoryFacetsOutput {
        values: counts.into_iter().map(|(value, nodes)| DirectoryFacet { value, nodes }).collect(),
        absent,
        distinct,
        total: nodes.len(),
        freshness: state.freshness(now),
    })
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct ChangesInput {
    cursor: Option<String>,
    wait: Option<u64>,
    #[serde(flatten)]
    query: DirectoryQueryInput,
}

impl ChangesInput {
    /// The number of the last change that the caller has; `None` without a cursor of this run of the instance.
    fn cursor_of(&self, handle: &DirectoryHandle) -> Option<u64> {
        parse_cursor(self.cursor.as_deref()?, handle.instance())
    }
}

/// Waits for a change after the cursor, and returns what has changed.
async fn changes(
    handle: DirectoryHandle,
    _: CallContext,
    input: ChangesInput,
) -> Result<DirectoryChangesOutput, ActionError> {
    if let Some(cursor) = input.cursor_of(&handle) {
        let wait = Duration::from_secs(input.wait.unwrap_or(0)).min(MAX_CHANGES_WAIT);
        // Without a change, the answer is empty, and its cursor the same.
        let _ = timeout(wait, handle.wait_for_change(cursor)).await;
    }
    answer_changes(&handle, &input)
}

/// What has changed after the cursor, the oldest changes first, as far as it fits into a reply.
fn answer_changes(
    handle: &DirectoryHandle,
    input: &ChangesInput,
) -> Result<DirectoryChangesOutput, ActionError> {
    let fields = parse_fields(&input.query.fields)?;
    let filter = parse_filter(input.query.filter.as_deref())?;
    let cursor = input.cursor_of(handle);
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
        if bytes > MAX_PAGE_BYTES {
            break;
        }
        last = Some(number);
        let node = state.table.get(name).filter(|node| filter.matches(&state.table, node));
        if let Some(node) = node {
            let row = state.row(node, &fields, now);
            bytes += row_bytes(&row);
            output.nodes.push(row);
        } else {
            bytes += name.as_str().len() + JSON_NAME_BYTES;
            output.gone.push(name.to_string());
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

/// Parses a cursor of this instance. A cursor of another instance counts other changes.
fn parse_cursor(text: &str, instance: Uuid) -> Option<u64> {
    let (made_by, number) = text.split_once('.')?;
    (made_by == instance.to_string()).then(|| number.parse().ok())?
}

fn parse_filter(text: Option<&str>) -> Result<NodeFilter, ActionError> {
    let Some(text) = text else { return Ok(NodeFilter::default()) };
    serde_json::from_str(text)
        .map_err(|error| ActionError::invalid_input(format!("filter: {error}")))
}

fn parse_fields(fields: &[String]) -> Result<Vec<FactPath>, ActionError> {
    if fields.len() > MAX_FIELDS {
        return Err(ActionError::invalid_input(format!("fields: at most {MAX_FIELDS}")));
    }
    fields.iter().map(|field| parse_path(field)).collect()
}

fn parse_path(text: &str) -> Result<FactPath, ActionError> {
    FactPath::parse(text).map_err(|error| ActionError::invalid_input(error.to_string()))
}

#[cfg(test)]
mod tests;
