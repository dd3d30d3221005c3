//! Broadcast discovery: a broadcast request that only matching nodes answer.
//!
//! A filter of exact identities needs no discovery: [`exact_nodes`] answers at once.

use std::time::Duration;

use muster_contract::rpcutil::RpcutilPing;
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use tokio::time::Instant;

use super::query::{DiscoveryResult, exact_nodes};
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::event::{CallEvent, ReceivedReply};
use crate::stats::CallStats;

/// The size of a reply to a ping, with the node's token.
pub(crate) const PING_REPLY_BYTES: usize = 1500;

fn ping_call(target: CallTarget, wait: Duration) -> Result<RpcCall> {
    let mut call = RpcCall::of_action::<RpcutilPing>(&EmptyInput {}, target)?;
    call.wait = wait;
    call.expected_reply_bytes = Some(PING_REPLY_BYTES);
    Ok(call)
}

impl Client {
    /// Returns the nodes that match.
    pub async fn discover_nodes(&self, filter: &NodeFilter) -> Result<DiscoveryResult> {
        self.discover_with_progress(filter, |_| ()).await
    }

    /// Returns the nodes that match, and reports each as it replies. Nodes that the filter names exactly are neither pinged nor reported.
    pub async fn discover_with_progress(
        &self,
        filter: &NodeFilter,
        mut on_reply: impl FnMut(&ReceivedReply),
    ) -> Result<DiscoveryResult> {
        if let Some(nodes) = exact_nodes(filter) {
            return Ok(DiscoveryResult { nodes, ..DiscoveryResult::default() });
        }
        let started_at = Instant::now();
        let mut found = DiscoveryResult { broadcast: true, ..DiscoveryResult::default() };
        let call = ping_call(CallTarget::Filter(filter.clone()), self.inner.window.initial_wait)?;
        let note_reply = |received: &ReceivedReply| {
            let reply = &received.reply;
            if received.is_ok() {
                found.nodes.insert(reply.sender.clone());
                on_reply(received);
            } else {
                found.refusals.insert(reply.sender.clone(), reply.statusmsg.clone());
            }
        };
        found.incomplete = self.run_call(call, note_reply).await?.incomplete.is_some();
        found.took = started_at.elapsed();
        Ok(found)
    }

    /// Pings the target, and reports each reply as it arrives; returns whether no reply was lost. Known nodes are awaited until each has replied or
    /// is reported absent, for at most `wait`.
    pub async fn ping(
        &self,
        target: CallTarget,
        wait: Duration,
        mut on_reply: impl FnMut(&ReceivedReply),
    ) -> Result<bool> {
        let call = ping_call(target, wait)?;
        let on_ok_reply = |received: &ReceivedReply| {
            if received.is_ok() {
                on_reply(received);
            }
        };
        Ok(self.run_call(call, on_ok_reply).await?.incomplete.is_none())
    }

    /// Runs a call to its end, and reports each reply as it arrives; returns the call's statistics.
    pub async fn run_call(
        &self,
        call: RpcCall,
        mut on_reply: impl FnMut(&ReceivedReply),
    ) -> Result<CallStats> {
        let mut events = self.call(call);
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Reply(received) => on_reply(&received),
                CallEvent::Finished(stats) => return Ok(*stats),
                CallEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Err(ClientError::Unfinished)
    }
}
