//! Which nodes an input selects, and how each one is shown.

use std::time::Duration;

use muster_api::ActionError;
use muster_api::base::error_chain;
use muster_contract::directory::{
    DirectoryFreshness, DirectoryNodeDocument, DirectoryNodeRow, DirectoryQueryInput,
    DirectoryShowOutput, MAX_PAGE_NODES,
};
use muster_filter::NodeFilter;
use muster_filter::state::MapField;
use muster_wire::identity::Identity;
use muster_wire::node_record::ssh_host_keys;
use tokio::time::Instant;

use crate::liveness::Presence;
use crate::node_table::StoredNode;
use crate::page::NodePage;
use crate::query::{FoundNodes, find_nodes};
use crate::state::{DirectoryHandle, DirectoryState};
use crate::value_path::ValuePath;

/// Nodes that were not seen for this time are left out unless they are requested.
pub(crate) const DEFAULT_STALE_SECONDS: u64 = 3600;
/// The problem of a node under whose name two daemons run.
const CLONED_PROBLEM: &str =
    "two daemons with this name and key are running, as on a machine and its copy";
const MAX_FIELDS: usize = 32;

impl DirectoryHandle {
    /// Whether a node does not run, or cannot reach the broker: its heartbeats are missing, or the directory has no record of it. `false` while the directory is
    /// not current.
    pub fn is_missing(&self, name: &Identity) -> bool {
        let (state, now) = (self.read(), Instant::now());
        state.is_ready
            && state
                .table
                .get(name)
                .is_none_or(|node| state.presence(node, now) == Presence::Missing)
    }
}

impl DirectoryState {
    pub(crate) fn freshness(&self, now: Instant) -> DirectoryFreshness {
        let listening = self.listening.map(|since| now.saturating_duration_since(since));
        DirectoryFreshness {
            ready: self.is_ready,
            current: self.is_ready && listening.is_some(),
            listening_seconds: listening.unwrap_or_default().as_secs(),
        }
    }

    pub(crate) fn presence(&self, node: &StoredNode, now: Instant) -> Presence {
        match self.listening {
            Some(listening) => node.liveness.presence(now, listening, self.grace),
            None => Presence::Unknown,
        }
    }

    /// The revision of a node's record, if the node is missing and may be forgotten.
    pub(crate) fn revision_to_forget(
        &self,
        name: &Identity,
        now: Instant,
    ) -> Result<u64, ActionError> {
        let node = self.table.get(name);
        let node = node.ok_or_else(|| unknown_node(name, self.is_ready))?;
        let seconds = |since: Option<Instant>| {
            since.map_or(0, |since| now.saturating_duration_since(since).as_secs())
        };
        match self.presence(node, now) {
            Presence::Missing => Ok(node.revision),
            Presence::Present => Err(ActionError::failed(format!(
                "`{name}` sent a heartbeat {} s ago; stop its rpcd first, or revoke its credentials",
                seconds(node.liveness.last_seen())
            ))),
            Presence::Unknown => Err(ActionError::failed(format!(
                "the directory has received heartbeats for {} s only, and does not know yet whether `{name}` runs; try again in some minutes",
                seconds(self.listening)
            ))),
        }
    }

    pub(crate) fn is_stale(&self, node: &StoredNode, limit: Duration, now: Instant) -> bool {
        let seen = node.liveness.last_seen().or(self.listening);
        seen.is_some_and(|seen| now.saturating_duration_since(seen) > limit)
            && self.presence(node, now) == Presence::Missing
    }

    /// All nodes that match, and how many are left out because they are stale.
    pub(crate) fn matching(
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

    pub(crate) fn page(
        &self,
        input: &DirectoryQueryInput,
        now: Instant,
    ) -> Result<NodePage<'_>, ActionError> {
        let (mut nodes, stale) = self.matching(input, now)?;
        let total = nodes.len();
        if let Some(after) = &input.after {
            let after = Identity::parse(after)
                .map_err(|error| ActionError::invalid_input(format!("after: {error}")))?;
            // In the order of the list, in which `db2` precedes `db10`.
            nodes.retain(|node| node.identity > after);
        }
        let limit = input.limit.unwrap_or(MAX_PAGE_NODES).clamp(1, MAX_PAGE_NODES);
        let has_more = nodes.len() > limit;
        nodes.truncate(limit);
        let last = nodes.last().filter(|_| has_more);
        let next = last.map(|last| last.identity.to_string());
        Ok(NodePage { nodes, total, stale, next })
    }

    pub(crate) fn row(
        &self,
        node: &StoredNode,
        fields: &[ValuePath],
        now: Instant,
    ) -> DirectoryNodeRow {
        let seen = node.liveness.last_seen();
        DirectoryNodeRow {
            node: node.identity.to_string(),
            state: self.presence(node, now).as_str().to_owned(),
            seen: seen.map(|seen| now.saturating_duration_since(seen).as_secs()),
            last_seen: node.liveness.last_seen_time(),
            version: node.version.to_string(),
            collectives: node.collectives.to_vec(),
            classes: node.classes.len(),
            fields: self.table.values_at(node, fields),
            document: None,
            problem: self.problem_of(node, now),
        }
    }

    /// What is wrong with a node; `None` if nothing is.
    fn problem_of(&self, node: &StoredNode, now: Instant) -> Option<String> {
        let cloned = node.liveness.is_cloned(now).then_some(CLONED_PROBLEM);
        let problems: Vec<&str> =
            self.table.problem_of(&node.identity).into_iter().chain(cloned).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    pub(crate) fn document(&self, node: &StoredNode) -> DirectoryNodeDocument {
        DirectoryNodeDocument {
            classes: node.classes_known.then(|| node.classes.to_vec()),
            facts: self.table.map_of(node, MapField::Facts).unwrap_or_default().into_map(),
        }
    }

    /// Everything that is known of a node, without its signed record; `None` if it is unknown.
    pub(crate) fn show(&self, name: &Identity, now: Instant) -> Option<DirectoryShowOutput> {
        let node = self.table.get(name)?;
        let agents = node.agents.iter().cloned().zip(node.agent_versions.iter().cloned());
        let mut output = DirectoryShowOutput {
            node: self.row(node, &[], now),
            classes: node.classes_known.then(|| node.classes.to_vec()),
            agents: agents.collect(),
            ssh_host_keys: ssh_host_keys(self.table.map_of(node, MapField::State).as_ref()),
            record_time: node.record_time,
            revision: node.revision,
            freshness: self.freshness(now),
            ..DirectoryShowOutput::default()
        };
        for (name, shown) in output.maps_mut() {
            let map = MapField::from_name(name).and_then(|field| self.table.map_of(node, field));
            *shown = map.unwrap_or_default().into_map();
        }
        Some(output)
    }
}

impl DirectoryHandle {
    /// The names of the nodes that match a filter in JSON, the input of an action; all without one.
    pub fn select_names(&self, filter: Option<&str>) -> Result<Vec<Identity>, ActionError> {
        let found = self.select_nodes(&parse_filter(filter)?, &[]);
        let found = found.map_err(|error| ActionError::invalid_input(error_chain(&error)))?;
        Ok(found.ok_or_else(not_ready)?.into_iter().map(|node| node.identity).collect())
    }
}

/// The answer of a service whose index of nodes is not complete yet.
pub fn not_ready() -> ActionError {
    ActionError::failed(
        "the service has just started and has not read the records of all nodes yet; try again in some seconds",
    )
}

pub(crate) fn parse_filter(text: Option<&str>) -> Result<NodeFilter, ActionError> {
    let Some(text) = text else { return Ok(NodeFilter::default()) };
    serde_json::from_str(text)
        .map_err(|error| ActionError::invalid_input(format!("filter: {error}")))
}

pub(crate) fn parse_fields(fields: &[String]) -> Result<Vec<ValuePath>, ActionError> {
    if fields.len() > MAX_FIELDS {
        return Err(ActionError::invalid_input(format!("fields: at most {MAX_FIELDS}")));
    }
    fields.iter().map(|field| parse_path(field)).collect()
}

pub(crate) fn parse_path(text: &str) -> Result<ValuePath, ActionError> {
    ValuePath::parse(text).map_err(|error| ActionError::invalid_input(error.to_string()))
}

/// The error for a node without a record. An instance that has not read all records cannot say that it is unknown.
pub(crate) fn unknown_node(name: &Identity, is_ready: bool) -> ActionError {
    if is_ready {
        ActionError::invalid_input(format!("the directory knows no node `{name}`"))
    } else {
        ActionError::failed(format!(
            "the directory has just started and has not read a record of `{name}` yet; try again in some seconds"
        ))
    }
}
