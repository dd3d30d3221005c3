//! Queries of the directory for commands: lists, single nodes, values of facts, and changes.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{DirectoryError, DirectoryPages, DirectorySession};
use muster_contract::directory::{
    DirectoryChanges, DirectoryChangesInput, DirectoryFacets, DirectoryFacetsInput,
    DirectoryFacetsOutput, DirectoryFind, DirectoryForget, DirectoryForgetInput,
    DirectoryForgetOutput, DirectoryFreshness, DirectoryList, DirectoryListInput, DirectoryNodeRow,
    DirectoryQueryInput, DirectoryShow, DirectoryShowInput, DirectoryShowOutput,
};
use muster_filter::NodeFilter;
use muster_filter::state::{MapField, NodeFacts};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::node_history::NodeHistory;
use muster_wire::node_record::{NodeContent, NodeRecord};

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::target::TargetSelection;

/// Time for an answer. A scan of a large fleet takes less than a second.
pub(crate) const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an instance waits for a change before it answers.
const CHANGES_WAIT: Duration = Duration::from_secs(20);

/// All nodes that match, with some of their facts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegisteredNodeList {
    /// The nodes, by name.
    pub nodes: Vec<DirectoryNodeRow>,
    /// Number of nodes that match and are left out, because they were not seen for long.
    pub stale: usize,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

impl RegisteredNodeList {
    /// The list, unless the instance that answered has not read all records.
    pub fn into_ready(self) -> Result<Self, FleetRequestError> {
        if self.freshness.ready { Ok(self) } else { Err(DirectoryError::NotReady.into()) }
    }
}

/// What a list has besides the names.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeListOptions<'a> {
    /// Paths of facts.
    pub fields: &'a [String],
    /// Whether nodes are listed that were not seen for long.
    pub with_stale: bool,
    /// Whether each node has its classes and all its facts.
    pub with_documents: bool,
}

/// A live query: the nodes that match, and then their changes.
#[derive(Debug)]
pub struct RegisteredWatch<'a> {
    fleet: &'a FleetConnection,
    session: DirectorySession<'a>,
    target: &'a TargetSelection,
    fields: &'a [String],
    filter: String,
    cursor: Option<String>,
}

/// A step of a live query.
#[derive(Debug, Clone, PartialEq)]
pub enum RegisteredUpdate {
    /// All nodes that match. Replaces what was known before.
    All(Vec<DirectoryNodeRow>),
    /// Nodes that have changed.
    Changed {
        /// Those that match.
        nodes: Vec<DirectoryNodeRow>,
        /// Those that do not match, whether they did before or not.
        gone: Vec<String>,
    },
}

impl RegisteredWatch<'_> {
    /// The next step; without a change an empty one after 20 s. After an error, the next call asks any instance and returns all nodes.
    pub async fn next(&mut self) -> Result<RegisteredUpdate, FleetRequestError> {
        let update = self.next_of_instance().await;
        if update.is_err() {
            self.session.release_instance();
            self.cursor = None;
        }
        update
    }

    async fn next_of_instance(&mut self) -> Result<RegisteredUpdate, FleetRequestError> {
        let input = DirectoryChangesInput {
            cursor: self.cursor.clone(),
            wait: Some(CHANGES_WAIT.as_secs()),
            filter: Some(self.filter.clone()),
            fields: self.fields.to_vec(),
        };
        let timeout = CHANGES_WAIT + QUERY_TIMEOUT;
        let changes = self.session.query::<DirectoryChanges>(&input, timeout).await?;
        let update = if changes.reset {
            if !changes.freshness.ready {
                return Err(DirectoryError::NotReady.into());
            }
            // Changes during the list are after the cursor.
            let options =
                NodeListOptions { fields: self.fields, with_stale: true, with_documents: false };
            let list = list_with(self.fleet, &mut self.session, self.target, options).await?;
            RegisteredUpdate::All(list.nodes)
        } else {
            RegisteredUpdate::Changed { nodes: changes.nodes, gone: changes.gone }
        };
        self.cursor = Some(changes.cursor);
        Ok(update)
    }
}

/// The nodes that match, from as many pages as there are.
pub async fn list_registered(
    fleet: &FleetConnection,
    target: &TargetSelection,
    options: NodeListOptions<'_>,
) -> Result<RegisteredNodeList, FleetRequestError> {
    list_with(fleet, &mut fleet.client.directory_session(), target, options).await
}

async fn list_with(
    fleet: &FleetConnection,
    session: &mut DirectorySession<'_>,
    target: &TargetSelection,
    options: NodeListOptions<'_>,
) -> Result<RegisteredNodeList, FleetRequestError> {
    let input = DirectoryListInput {
        filter: Some(fleet.client.filter_for_directory(&target.filter)?),
        fields: options.fields.to_vec(),
        documents: options.with_documents.then_some(true),
        stale: options.with_stale.then_some(true),
        ..DirectoryListInput::default()
    };
    list_pages(session, &target.filter, input).await
}

/// The values at this path of all nodes that match, in every collective, also of those that were not seen for long. Fails if the instance has not read
/// all records.
pub async fn list_values(
    fleet: &FleetConnection,
    filter: &NodeFilter,
    path: &str,
) -> Result<Vec<DirectoryNodeRow>, FleetRequestError> {
    let input = DirectoryListInput {
        filter: Some(serde_json::to_string(filter).map_err(DirectoryError::Query)?),
        fields: vec![path.to_owned()],
        stale: Some(true),
        ..DirectoryListInput::default()
    };
    let list = list_pages(&mut fleet.client.directory_session(), filter, input).await?;
    Ok(list.into_ready()?.nodes)
}

/// All nodes that match, with their classes and facts. Fails if the instance has not read all records.
pub async fn list_documents(
    fleet: &FleetConnection,
    target: &TargetSelection,
) -> Result<RegisteredNodeList, FleetRequestError> {
    let options = NodeListOptions { with_documents: true, ..NodeListOptions::default() };
    list_registered(fleet, target, options).await?.into_ready()
}

/// Names of nodes that begin with this text, at most this many, in order.
pub async fn find_registered_prefix(
    fleet: &FleetConnection,
    prefix: &str,
    limit: usize,
) -> Result<BTreeSet<String>, FleetRequestError> {
    let mut filter = NodeFilter::default();
    // Other characters are in no name, and would be an expression.
    let is_name_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !prefix.chars().all(is_name_part) {
        return Ok(BTreeSet::new());
    }
    if !prefix.is_empty() {
        let escaped = prefix.replace('.', "\\.");
        let begins = filter.with_identity(&format!("/^{escaped}/"));
        filter = begins.map_err(DirectoryError::Filter)?;
    }
    let input = DirectoryQueryInput {
        filter: Some(fleet.client.filter_for_directory(&filter)?),
        limit: Some(limit),
        ..DirectoryQueryInput::default()
    };
    let found = fleet.client.query_directory::<DirectoryFind>(&input, QUERY_TIMEOUT).await?;
    Ok(found.nodes.into_iter().collect())
}

/// Everything that is known of one node; with its signed record if `with_record`.
pub async fn show_registered(
    fleet: &FleetConnection,
    node: &str,
    with_record: bool,
) -> Result<DirectoryShowOutput, FleetRequestError> {
    let record = with_record.then_some(true);
    let input = DirectoryShowInput { node: node.to_owned(), record };
    Ok(fleet.client.query_directory::<DirectoryShow>(&input, QUERY_TIMEOUT).await?)
}

/// How many of the nodes that match have which value of a fact.
pub async fn count_registered(
    fleet: &FleetConnection,
    target: &TargetSelection,
    path: &str,
    with_stale: bool,
) -> Result<DirectoryFacetsOutput, FleetRequestError> {
    let input = DirectoryFacetsInput {
        path: path.to_owned(),
        filter: Some(fleet.client.filter_for_directory(&target.filter)?),
        after: None,
        limit: None,
        stale: with_stale.then_some(true),
        stale_seconds: None,
    };
    Ok(fleet.client.query_directory::<DirectoryFacets>(&input, QUERY_TIMEOUT).await?)
}

/// Follows the nodes that match.
pub fn watch_registered<'a>(
    fleet: &'a FleetConnection,
    target: &'a TargetSelection,
    fields: &'a [String],
) -> Result<RegisteredWatch<'a>, FleetRequestError> {
    let filter = fleet.client.filter_for_directory(&target.filter)?;
    let session = fleet.client.directory_session();
    Ok(RegisteredWatch { fleet, session, target, fields, filter, cursor: None })
}

/// Makes the directory leave out a missing node until it runs again.
pub async fn forget_registered(
    fleet: &FleetConnection,
    node: &Identity,
) -> Result<DirectoryForgetOutput, FleetRequestError> {
    let input = DirectoryForgetInput { node: node.to_string() };
    Ok(fleet.client.query_directory::<DirectoryForget>(&input, QUERY_TIMEOUT).await?)
}

/// What changed on a node, from its own signed record.
pub async fn read_history(
    fleet: &FleetConnection,
    node: &Identity,
) -> Result<NodeHistory, FleetRequestError> {
    let history = read_record(fleet, node).await?.decode_history();
    history.map_err(|source| FleetRequestError::Content { node: node.clone(), source })
}

/// What a node says about itself, from its own signed record.
pub async fn read_content(
    fleet: &FleetConnection,
    node: &Identity,
) -> Result<NodeContent, FleetRequestError> {
    let content = read_record(fleet, node).await?.decode_content();
    content.map_err(|source| FleetRequestError::Content { node: node.clone(), source })
}

/// The record of a node, after its signature was verified.
async fn read_record(
    fleet: &FleetConnection,
    node: &Identity,
) -> Result<NodeRecord, FleetRequestError> {
    let output = show_registered(fleet, node.as_str(), true).await?;
    let record = output.record.unwrap_or_default();
    let record = fleet.client.open_record(node, record.as_bytes());
    record.map_err(|source| FleetRequestError::Record { node: node.clone(), source })
}

/// Whether a node signed this record, and everything in the directory's answer that comes from records is the same in it.
pub fn is_record_authentic(
    fleet: &FleetConnection,
    node: &Identity,
    record: &str,
    output: &DirectoryShowOutput,
) -> bool {
    let Ok(record) = fleet.client.open_record(node, record.as_bytes()) else { return false };
    let Ok(content) = record.decode_content() else { return false };
    let collectives = content.collectives.iter().map(SubjectName::as_str);
    let unknown = NodeFacts::default();
    let signed_map =
        |field: MapField| (field.as_str(), content.map(field).unwrap_or(&unknown).as_map());
    output.node.node == node.as_str()
        && output.node.version == content.version
        && collectives.eq(output.node.collectives.iter().map(String::as_str))
        && output.record_time == record.time
        && content.classes == output.classes
        && output.node.classes == content.classes.as_ref().map_or(0, Vec::len)
        && content.agents == output.agents
        && content.ssh_host_keys() == output.ssh_host_keys
        && MapField::ALL.into_iter().map(signed_map).eq(output.maps())
}

/// The nodes that match the filter of the query, from as many pages as there are.
async fn list_pages(
    session: &mut DirectorySession<'_>,
    filter: &NodeFilter,
    mut input: DirectoryListInput,
) -> Result<RegisteredNodeList, FleetRequestError> {
    let mut list = RegisteredNodeList::default();
    let mut pages = DirectoryPages::new(filter);
    loop {
        let page = session.query::<DirectoryList>(&input, QUERY_TIMEOUT).await?;
        let names = page.nodes.iter().map(|row| row.node.as_str());
        let next = pages.accept(session.instance(), names, page.next)?;
        list.nodes.extend(page.nodes);
        (list.stale, list.freshness) = (page.stale, page.freshness);
        match next {
            Some(next) => input.after = Some(next),
            None => return Ok(list),
        }
    }
}
