//! Prepares calls with sensitive inputs, which are sealed for each node. Nodes' keys arrive with every reply; nodes that have never replied are
//! pinged first.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::sync::mpsc;

use crate::call::{CallTarget, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::{ClientError, Result};
use crate::reply_collector;

/// Maximum wait for a node's key.
const KEY_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

type KeyRequestFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A call with all keys that it needs.
pub(crate) struct PreparedCall {
    /// The call; if it has sensitive inputs, only to the nodes with known keys.
    pub(crate) call: RpcCall,
    /// Target nodes whose key is unknown. They receive no request.
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
    let unknown: BTreeSet<Identity> =
        nodes.iter().filter(|node| client.node_key(node).is_none()).cloned().collect();
    if !unknown.is_empty() {
        request_keys(client, unknown).await?;
    }
    for node in std::mem::take(nodes) {
        if let Some(key) = client.node_key(&node) {
            call.keys.insert(node.clone(), key);
            nodes.insert(node);
        } else {
            without_key.insert(node);
        }
    }
    Ok(PreparedCall { call, without_key })
}

/// Pings nodes; their keys are recorded when their replies are verified. Boxed to break the recursion: a ping is a call, and a call may need keys.
fn request_keys(client: &Arc<ClientInner>, nodes: BTreeSet<Identity>) -> KeyRequestFuture<'_> {
    Box::pin(async move {
        let mut ping = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes))?;
        ping.wait = KEY_REQUEST_TIMEOUT;
        let (sender, mut events) = mpsc::channel(16);
        let ping_call = async move { reply_collector::run_call(client, ping, &sender).await };
        let drain = async move { while events.recv().await.is_some() {} };
        let (result, ()) = tokio::join!(ping_call, drain);
        result
    })
}
