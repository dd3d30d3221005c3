//! Queries of the directory: a service that knows what all nodes publish about themselves. Any instance answers.
//!
//! The answer is accepted only if the token of its sender has the right to answer for the directory.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_base::{NodeText, format_duration, unix_millis_now};
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

use crate::any_instance::InstanceAnswer;
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::directory_pages::DirectoryPages;
use crate::error::ClientError;

/// The agent of the directory.
pub const DIRECTORY_AGENT: &str = DirectoryAgent::NAME;

/// Time for an answer, after which a discovery asks the nodes themselves.
pub const DIRECTORY_TIMEOUT: Duration = Duration::from_millis(300);

/// Why the directory gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// No instance runs.
    #[error("no directory is running; enable one with [plugins.directory] on a host of this fleet")]
    Absent,
    /// No instance answered in time.
    #[error("the directory did not answer within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The instance has not read all records yet.
    #[error(
        "the directory has just started and does not know all nodes yet; try again in some seconds"
    )]
    NotReady,
    /// The instance refused the query.
    #[error("the directory refused the query: {}", .0.block())]
    Refused(NodeText),
    /// The query names something that the directory does not know or accept, such as a node without a record. The text is the directory's.
    #[error("{}", .0.block())]
    Invalid(NodeText),
    /// The answer was signed by a user without the right to answer for the directory.
    #[error(
        "{0} answered for the directory without the right to; the answer was ignored. Look for its key with `rpc org list`; a directory gets the right with `rpc org add service {0} --serve directory --renew`"
    )]
    NotADirectory(Identity),
    /// An instance named a node that the identities of the filter exclude.
    #[error(
        "{instance} answered for the directory with the node {node}, which the filter excludes; the answer was ignored"
    )]
    OtherNode {
        /// The instance.
        instance: String,
        /// The node.
        node: String,
    },
    /// The pages of an instance's list do not ascend, or have more nodes than any fleet.
    #[error(
        "the list of {0}, which answered for the directory, does not end; the answer was ignored"
    )]
    Endless(String),
    /// The answer has another form.
    #[error("cannot read the directory's answer")]
    Answer(#[source] serde_json::Error),
    /// The filter is too large with the condition on the collective.
    #[error("the filter is too large for the directory, which adds the collective to it: {0}")]
    Filter(#[source] FilterError),
    /// The filter cannot be written as JSON.
    #[error("cannot encode the filter")]
    Query(#[source] serde_json::Error),
    /// The query could not be sent.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The nodes that match a filter, according to the directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegisteredNodes {
    /// All of them.
    pub nodes: BTreeSet<Identity>,
    /// Those that have sent no heartbeat for two intervals.
    pub missing: BTreeSet<Identity>,
    /// Those under whose name two daemons run.
    pub cloned: BTreeSet<Identity>,
    /// Number of further nodes that match and are left out, because they were not seen for long.
    pub stale: usize,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// Queries that one instance answers, so that pages and cursors continue: any instance answers the first, and the same one all others.
#[derive(Debug)]
pub struct DirectorySession<'c> {
    client: &'c Client,
    instance: Option<Identity>,
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
        self.instance = Some(reply.reply.sender.clone());
        match reply.reply.statuscode {
            ReplyStatus::Ok => {}
            ReplyStatus::InvalidData => {
                return Err(DirectoryError::Invalid(reply.reply.statusmsg));
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

    /// The nodes of this collective that match a filter, from as many pages as there are.
    pub async fn find_registered(
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
    }

    /// The filter as JSON, restricted to this client's collective: the directory knows the nodes of all.
    pub fn filter_for_directory(&self, filter: &NodeFilter) -> Result<String, DirectoryError> {
        let filter = restrict_to_collective(filter, self.collective().as_str())?;
        serde_json::to_string(&filter).map_err(DirectoryError::Query)
    }

    /// Opens the record of a node, as the bucket stores it.
    pub fn open_record(
        &self,
        node: &Identity,
        record: &[u8],
    ) -> Result<NodeRecord, MessageRefusal> {
        let (trust, now) = (self.inner.trust(), unix_millis_now());
        let opened = sign::open_record(record, node, &trust, &self.inner.tokens, now)?;
        Ok(opened.record)
    }
}

/// The nodes of the collective that match. A filter that has no space for this condition is refused: without it, it would select more nodes.
fn restrict_to_collective(
    filter: &NodeFilter,
    collective: &str,
) -> Result<NodeFilter, DirectoryError> {
    let condition = format!("{{\"collectives\": \"{collective}\"}}");
    filter.clone().with_query(&condition).map_err(DirectoryError::Filter)
}

#[cfg(test)]
mod tests {
    use muster_filter::MAX_QUERY_CONDITIONS;

    use super::*;

    #[test]
    fn filter_that_cannot_be_restricted_to_the_collective_is_refused() {
        let filter = |conditions: usize| {
            let conditions = vec!["{\"facts.a\": 1}"; conditions].join(", ");
            NodeFilter::default().with_query(&format!("{{$and: [{conditions}]}}"))
        };
        let restricted = restrict_to_collective(&filter(1).unwrap(), "second").unwrap();
        assert!(restricted.explain().contains("second"), "{}", restricted.explain());
        // The largest filter that is accepted.
        let sizes = (1..=MAX_QUERY_CONDITIONS).rev();
        let largest = sizes.map(filter).find_map(Result::ok).unwrap();
        let refused = restrict_to_collective(&largest, "second");
        assert!(matches!(refused, Err(DirectoryError::Filter(_))), "{refused:?}");
    }
}
