//! Prepares calls with sensitive inputs, which are sealed for each node. Nodes' keys arrive with every reply; nodes that have never replied are
//! pinged first. A call with a filter pings all its nodes with it, and seals nothing for a node that has not confirmed that it matches.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use muster_contract::rpcutil::RpcutilPing;
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use tokio::sync::mpsc;

use crate::call::{CallTarget, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::{ClientError, Result};
use crate::event::CallEvent;
use crate::reply_collector;

/// Maximum wait for a node's key.
const KEY_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

type PingFuture<'a> = Pin<Box<dyn Future<Output = Result<BTreeMap<Identity, bool>>> + Send + 'a>>;

/// A call with all keys that it needs.
pub(crate) struct PreparedCall {
    /// The call; if it has sensitive inputs, only to the nodes with known keys, and to those that do not match its filter, without the inputs.
    pub(crate) call: RpcCall,
    /// Target nodes whose key is unknown, or that have not confirmed that they match the filter. They receive no request.
    pub(crate) without_key: BTreeSet<Identity>,
}

/// Requests the keys that a call with sensitive inputs needs.
pub(crate) async fn prepare_call(
    client: &Arc<ClientInner>,
    mut call: RpcCall,
) -> Result<PreparedCall> {
    let mut without_key = BTreeSet::new();
    call.sensitive.retain(|name| call.data.contains_key(name));
    if call.sensitive.is_empty() {
        return Ok(PreparedCall { call, without_key });
    }
    let CallTarget::Nodes(nodes) = &mut call.target else {
        let inputs = call.sensitive.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ClientError::SecretBroadcast(inputs));
    };
    let has_filter = !call.filter.is_empty();
    let mut pinged = nodes.clone();
    pinged.retain(|node| has_filter || client.node_key(node).is_none());
    let matches = if pinged.is_empty() {
        BTreeMap::new()
    } else {
        ping_nodes(client, pinged, call.filter.clone()).await?
    };
    for node in std::mem::take(nodes) {
        match (matches.get(&node), client.node_key(&node)) {
            // It refuses the request, too, and that is shown.
            (Some(false), _) => drop(nodes.insert(node)),
            (answer, Some(key)) if answer.is_some() || !has_filter => {
                call.keys.insert(node.clone(), key);
                nodes.insert(node);
            }
            _ => drop(without_key.insert(node)),
        }
    }
    Ok(PreparedCall { call, without_key })
}

/// Pings nodes; their keys are recorded when their replies are verified. Returns which nodes match the filter: a node evaluates it before its policy, so a
/// denial is a confirmation, too. Other failures are left out. Boxed to break the recursion: a ping is a call, and a call may need keys.
fn ping_nodes(
    client: &Arc<ClientInner>,
    nodes: BTreeSet<Identity>,
    filter: NodeFilter,
) -> PingFuture<'_> {
    Box::pin(async move {
        let target = CallTarget::Nodes(nodes);
        let mut ping = RpcCall::of_action::<RpcutilPing>(&EmptyInput {}, target)?;
        (ping.wait, ping.filter) = (KEY_REQUEST_TIMEOUT, filter);
        let (sender, mut events) = mpsc::channel(16);
        let ping_call = async move { reply_collector::run_call(client, ping, &sender).await };
        let collect = async move {
            let mut matches = BTreeMap::new();
            while let Some(event) = events.recv().await {
                let CallEvent::Reply(received) = event else { continue };
                let is_ok = received.is_ok();
                match received.reply.reason {
                    Some(ReplyReason::NotMatched) => matches.insert(received.reply.sender, false),
                    Some(ReplyReason::Denied { .. }) => matches.insert(received.reply.sender, true),
                    _ if is_ok => matches.insert(received.reply.sender, true),
                    _ => None,
                };
            }
            matches
        };
        let (result, matches) = tokio::join!(ping_call, collect);
        result.map(|()| matches)
    })
}
