//! Queries of the directory for commands: lists, single nodes, values of facts, and changes.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_base::{format_duration, unix_millis_now};
use muster_contract::directory::{
    DirectoryAgent, DirectoryFind, DirectoryFreshness, DirectoryQueryInput,
};
use muster_ddl::{Action, AgentContract};
use muster_filter::{FilterError, NodeFilter};
use muster_wire::identity::Identity;
use muster_wire::node_record::NodeRecord;
use muster_wire::sign::{self, MessageRefusal};
use muster_wire::status::ReplyStatus;
use muster_wire::token::ServiceRight;

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::target::TargetSelection;

/// The agent of the directory.
pub const DIRECTORY_AGENT: &str = DirectoryAgent::NAME;

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

#[derive(Serialize)]
struct FacetsInput<'a> {
    path: &'a str,
    #[serde(flatten)]
    query: DirectoryQueryInput,
}

#[derive(Serialize)]
struct ChangesInput<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    wait: u64,
    filter: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    fields: &'a [String],
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

impl DirectorySession<'_> {
    /// Calls an action of the directory, and reads its outputs.
    pub async fn query<A: Action<Agent = DirectoryAgent>>(
        &mut self,
        input: &A::Input,
        timeout: Duration,
    ) -> Result<A::Output, DirectoryError> {
        let target = match &self.instance {
            Some(instance) => CallTarget::Nodes([instance.clone()].into()),
            None => CallTarget::AnyInstance,
        };
        let mut call = RpcCall::of_action::<A>(input, target).map_err(ClientError::from)?;
        call.expect = Some(1);
        call.wait = timeout;
        let reply = match self.client.ask_any_instance(call).await? {
            InstanceAnswer::Reply(reply) => reply,
            InstanceAnswer::Absent => return Err(DirectoryError::Absent),
            InstanceAnswer::Silent => return Err(DirectoryError::Timeout(timeout)),
        };
        if !reply.rights.contains(&ServiceRight::Directory) {
            return Err(DirectoryError::NotADirectory(reply.reply.sender));
        }
        update
    }

    async fn next_of_instance(&mut self) -> Result<RegisteredUpdate, FleetRequestError> {
        let input = ChangesInput {
            cursor: self.cursor.as_deref(),
            wait: CHANGES_WAIT.as_secs(),
            filter: &self.filter,
            fields: self.fields,
        };
        let timeout = CHANGES_WAIT + QUERY_TIMEOUT;
        let changes: DirectoryChangesOutput =
            self.session.query("changes", &input, timeout).await?;
        let update = if changes.reset {
            if !changes.freshness.ready {
                return Err(DirectoryError::NotReady.into());
            }
            _ => return Err(DirectoryError::Refused(reply.reply.statusmsg)),
        }
        reply.read_outputs::<A>().map_err(DirectoryError::Answer)
    }

    /// The instance that answered.
    pub fn instance(&self) -> Option<&Identity> {
        self.instance.as_ref()
    }

    /// Lets any instance answer the next query.
    pub fn release_instance(&mut self) {
        self.instance = None;
    }
}

impl Client {
    /// A session with an instance of the directory.
    pub fn directory_session(&self) -> DirectorySession<'_> {
        DirectorySession { client: self, instance: None }
    }

    /// Calls an action of any instance of the directory, and reads its outputs.
    pub async fn query_directory<A: Action<Agent = DirectoryAgent>>(
        &self,
        input: &A::Input,
        timeout: Duration,
    ) -> Result<A::Output, DirectoryError> {
        self.directory_session().query::<A>(input, timeout).await
    }

    async fn list_with(
        &self,
        session: &mut DirectorySession<'_>,
        target: &TargetSelection,
        options: NodeListOptions<'_>,
    ) -> Result<RegisteredNodeList, FleetRequestError> {
        let query = self.query_input(target, options)?;
        let documents = options.with_documents.then_some(true);
        list_pages(session, &target.filter, DirectoryListInput { documents, query }).await
    }

    /// The values at this path of all nodes that match, in every collective, also of those that were not seen for long. Fails if the instance has not read
    /// all records.
    pub(crate) async fn list_values(
        &self,
        filter: &NodeFilter,
        timeout: Duration,
    ) -> Result<RegisteredNodes, DirectoryError> {
        let mut pages = DirectoryPages::new(filter);
        let filter = self.filter_for_directory(filter)?;
        let mut session = self.directory_session();
        let mut found = RegisteredNodes::default();
        let mut input =
            DirectoryQueryInput { filter: Some(filter), ..DirectoryQueryInput::default() };
        loop {
            let page = session.query::<DirectoryFind>(&input, timeout).await?;
            if !page.freshness.ready {
                return Err(DirectoryError::NotReady);
            }
            found.nodes.extend(page.nodes.iter().filter_map(|name| Identity::parse(name).ok()));
            found.missing.extend(page.missing.iter().filter_map(|name| Identity::parse(name).ok()));
            found.cloned.extend(page.cloned.iter().filter_map(|name| Identity::parse(name).ok()));
            found.stale = page.stale;
            found.freshness = page.freshness;
            let names = page.nodes.iter().map(String::as_str);
            match pages.accept(session.instance(), names, page.next)? {
                Some(next) => input.after = Some(next),
                None => return Ok(found),
            }
        }
        Ok(list.nodes)
    }

    /// All nodes that match, with their classes and facts. Fails if the instance has not read all records.
    pub async fn list_documents(
        &self,
        target: &TargetSelection,
    ) -> Result<RegisteredNodeList, FleetRequestError> {
        let options = NodeListOptions { with_documents: true, ..NodeListOptions::default() };
        let list = self.list_registered(target, options).await?;
        if !list.freshness.ready {
            return Err(DirectoryError::NotReady.into());
        }
        Ok(list)
    }

    /// Names of nodes that begin with this text, at most this many, in order.
    pub async fn find_registered_prefix(
        &self,
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
            filter: Some(self.client.filter_for_directory(&filter)?),
            limit: Some(limit),
            ..DirectoryQueryInput::default()
        };
        let found: DirectoryFindOutput =
            self.client.query_directory("find", &input, QUERY_TIMEOUT).await?;
        Ok(found.nodes.into_iter().collect())
    }

    /// Everything that is known of one node; with its signed record if `with_record`.
    pub async fn show_registered(
        &self,
        node: &str,
        with_record: bool,
    ) -> Result<DirectoryShowOutput, FleetRequestError> {
        let record = with_record.then_some(true);
        let input = DirectoryShowInput { node: node.to_owned(), record };
        Ok(self.client.query_directory("show", &input, QUERY_TIMEOUT).await?)
    }

    /// How many of the nodes that match have which value of a fact.
    pub async fn count_registered(
        &self,
        target: &TargetSelection,
        path: &str,
        options: NodeListOptions<'_>,
    ) -> Result<DirectoryFacetsOutput, FleetRequestError> {
        let input = FacetsInput { path, query: self.query_input(target, options)? };
        Ok(self.client.query_directory("facets", &input, QUERY_TIMEOUT).await?)
    }

    /// Follows the nodes that match.
    pub fn watch_registered<'a>(
        &'a self,
        target: &'a TargetSelection,
        fields: &'a [String],
    ) -> Result<RegisteredWatch<'a>, FleetRequestError> {
        let filter = self.client.filter_for_directory(&target.filter)?;
        let session = self.client.directory_session();
        Ok(RegisteredWatch { fleet: self, session, target, fields, filter, cursor: None })
    }

    /// Makes the directory leave out a missing node until it runs again.
    pub async fn forget_registered(
        &self,
        node: &Identity,
    ) -> Result<DirectoryForgetOutput, FleetRequestError> {
        let input = DirectoryForgetInput { node: node.to_string() };
        Ok(self.client.query_directory("forget", &input, QUERY_TIMEOUT).await?)
    }

    /// What changed on a node, from its own signed record.
    pub async fn read_history(&self, node: &Identity) -> Result<NodeHistory, FleetRequestError> {
        let history = self.read_record(node).await?.decode_history();
        history.map_err(|source| FleetRequestError::Content { node: node.clone(), source })
    }

    /// What a node says about itself, from its own signed record.
    pub async fn read_content(&self, node: &Identity) -> Result<NodeContent, FleetRequestError> {
        let content = self.read_record(node).await?.decode_content();
        content.map_err(|source| FleetRequestError::Content { node: node.clone(), source })
    }

    /// The record of a node, after its signature was verified.
    async fn read_record(&self, node: &Identity) -> Result<NodeRecord, FleetRequestError> {
        let output = self.show_registered(node.as_str(), true).await?;
        let record = output.record.unwrap_or_default();
        let record = self.client.open_record(node, record.as_bytes());
        record.map_err(|source| FleetRequestError::Record { node: node.clone(), source })
    }

    /// Whether a node signed this record, and everything in the directory's answer that comes from records is the same in it.
    pub fn is_record_authentic(
        &self,
        node: &Identity,
        record: &str,
        output: &DirectoryShowOutput,
    ) -> bool {
        let Ok(record) = self.client.open_record(node, record.as_bytes()) else { return false };
        let Ok(content) = record.decode_content() else { return false };
        let collectives = content.collectives.iter().map(SubjectName::as_str);
        output.node.node == node.as_str()
            && output.node.version == content.version
            && collectives.eq(output.node.collectives.iter().map(String::as_str))
            && output.record_time == record.time
            && content.facts.as_map() == &output.facts
            && content.classes == output.classes
            && output.node.classes == content.classes.as_ref().map_or(0, Vec::len)
            && content.agents == output.agents
            && content.ssh_host_keys() == output.ssh_host_keys
            && content.state.unwrap_or_default().as_map() == &output.state
    }

    fn query_input(
        &self,
        target: &TargetSelection,
        options: NodeListOptions<'_>,
    ) -> Result<DirectoryQueryInput, FleetRequestError> {
        Ok(DirectoryQueryInput {
            filter: Some(self.client.filter_for_directory(&target.filter)?),
            fields: options.fields.to_vec(),
            stale: options.with_stale.then_some(true),
            ..DirectoryQueryInput::default()
        })
    }
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
        let page: DirectoryListOutput = session.query("list", &input, QUERY_TIMEOUT).await?;
        let names = page.nodes.iter().map(|row| row.node.as_str());
        let next = pages.accept(session.instance(), names, page.next)?;
        list.nodes.extend(page.nodes);
        (list.stale, list.freshness) = (page.stale, page.freshness);
        match next {
            Some(next) => input.query.after = Some(next),
            None => return Ok(list),
        }
    }
}
