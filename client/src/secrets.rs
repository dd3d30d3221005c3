//! Sensitive inputs travel sealed for each node. For that the nodes' keys must be known: they come with every reply, and
//! nodes that have never answered are pinged first.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::sync::mpsc;

use crate::call::{CallTarget, RpcCall};
use crate::client_inner::ClientInner;
use crate::error::ClientError;
use crate::reply_collector;

/// How long a node may take to tell its key.
const KEY_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

type KeyRequestFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send + 'a>>;

/// A call that can be sent.
pub(crate) struct PreparedCall {
    /// The call, to the nodes whose keys are known if it has something to seal.
    pub(crate) call: RpcCall,
    /// Nodes that were meant, and did not tell their key. They are not asked.
    pub(crate) silent: BTreeSet<Identity>,
}

/// Finds out the keys that a call with sensitive inputs needs.
pub(crate) async fn prepare_call(
    party: &Arc<ClientInner>,
    mut call: RpcCall,
) -> Result<PreparedCall, ClientError> {
    let mut silent = BTreeSet::new();
    call.sensitive.retain(|name| call.data.contains_key(name));
    if call.sensitive.is_empty() {
        return Ok(PreparedCall { call, silent });
    }
    let CallTarget::Nodes(nodes) = &mut call.aim else {
        let inputs = call.sensitive.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ClientError::SecretBroadcast { inputs });
    };
    let unknown: BTreeSet<Identity> = nodes
        .iter()
        .filter(|node| party.node_key(node).is_none())
        .cloned()
        .collect();
    if !unknown.is_empty() {
        request_keys(party, unknown).await?;
    }
    for node in std::mem::take(nodes) {
        if let Some(key) = party.node_key(&node) {
            call.keys.insert(node.clone(), key);
            nodes.insert(node);
        } else {
            silent.insert(node);
        }
    }
    Ok(PreparedCall { call, silent })
}

/// Pings nodes; their keys are noted as their answers are verified. Boxed, because a ping is a call, and a call may need keys.
fn request_keys(party: &Arc<ClientInner>, nodes: BTreeSet<Identity>) -> KeyRequestFuture<'_> {
    Box::pin(async move {
        let mut ping = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes))?;
        ping.wait = KEY_REQUEST_TIMEOUT;
        let (tell, mut events) = mpsc::channel(16);
        let asking = async move { reply_collector::run_call(party, ping, &tell).await };
        let hearing = async move { while events.recv().await.is_some() {} };
        let (asked, ()) = tokio::join!(asking, hearing);
        asked
    })
}
