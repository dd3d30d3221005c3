//! Broadcast discovery: a broadcast request that only matching nodes answer.
//!
//! A filter of exact identities needs no discovery: [`exact_nodes`] answers at once.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::filter::NodeFilter;
use muster_wire::identity::Identity;
use tokio::time::Instant;

use super::DiscoveryResult;
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{CallEvent, ReceivedReply};
use crate::stats::CallStats;

/// The nodes of a filter that consists only of exact identities.
pub(super) fn exact_nodes(filter: &NodeFilter) -> Option<BTreeSet<Identity>> {
    filter
        .identities_exact()?
        .into_iter()
        .map(|name| Identity::parse(name).ok())
        .collect()
}

impl Client {
    /// Returns the nodes that match.
    pub async fn discover_nodes(
        &self,
        filter: &NodeFilter,
    ) -> Result<DiscoveryResult, ClientError> {
        self.discover_with_progress(filter, |_| ()).await
    }

    /// Returns the nodes that match, and reports each as it replies. Nodes that the filter names exactly are neither pinged nor reported.
    pub async fn discover_with_progress(
        &self,
        filter: &NodeFilter,
        mut show: impl FnMut(&ReceivedReply),
    ) -> Result<DiscoveryResult, ClientError> {
        if let Some(nodes) = exact_nodes(filter) {
            return Ok(DiscoveryResult {
                nodes,
                ..DiscoveryResult::default()
            });
        }
        let begun = Instant::now();
        let mut found = DiscoveryResult {
            broadcast: true,
            ..DiscoveryResult::default()
        };
        let everybody = CallTarget::Filter(filter.clone());
        self.ping(everybody, self.party.window.first, |answer| {
            found.nodes.insert(answer.reply.sender.clone());
            show(answer);
        })
        .await
        .map(|complete| found.incomplete = !complete)?;
        found.took = begun.elapsed();
        Ok(found)
    }

    /// Pings the target, and reports each reply as it arrives; returns whether no reply was lost. Known nodes are awaited until each has replied or
    /// is reported absent, for at most `wait`.
    pub async fn ping(
        &self,
        aim: CallTarget,
        wait: Duration,
        mut show: impl FnMut(&ReceivedReply),
    ) -> Result<bool, ClientError> {
        let mut call = RpcCall::new("rpcutil", "ping", aim)?;
        call.wait = wait;
        let good = |answer: &ReceivedReply| {
            if answer.is_ok() {
                show(answer);
            }
        };
        Ok(self.run_call(call, good).await?.incomplete.is_none())
    }

    /// Runs a call to its end, and reports each reply as it arrives; returns the call's statistics.
    pub async fn run_call(
        &self,
        call: RpcCall,
        mut show: impl FnMut(&ReceivedReply),
    ) -> Result<CallStats, ClientError> {
        let mut events = self.call(call);
        while let Some(event) = events.next().await {
            match event {
                CallEvent::Reply(answer) => show(&answer),
                CallEvent::Finished(stats) => return Ok(*stats),
                CallEvent::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Err(ClientError::Unfinished)
    }
}
