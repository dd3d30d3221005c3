//! Finding nodes by asking everybody: a broadcast that only matching nodes answer.
//!
//! A filter of exact identities needs no discovery: [`known`] answers at once.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::filter::Filter;
use muster_wire::identity::Identity;
use tokio::time::Instant;

use super::Discovered;
use crate::call::{Aim, Call};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{Answer, Event};
use crate::stats::Stats;

/// The nodes that a filter names by their exact identities, if it says nothing else.
pub(super) fn known(filter: &Filter) -> Option<BTreeSet<Identity>> {
    filter
        .identities_exact()?
        .into_iter()
        .map(|name| Identity::parse(name).ok())
        .collect()
}

impl Client {
    /// The nodes that match.
    pub async fn discover(&self, filter: &Filter) -> Result<Discovered, ClientError> {
        self.discover_watching(filter, |_| ()).await
    }

    /// The nodes that match; each is shown as it answers. Nodes that the filter names are not asked, and not shown.
    pub async fn discover_watching(
        &self,
        filter: &Filter,
        mut show: impl FnMut(&Answer),
    ) -> Result<Discovered, ClientError> {
        if let Some(nodes) = known(filter) {
            return Ok(Discovered {
                nodes,
                ..Discovered::default()
            });
        }
        let begun = Instant::now();
        let mut found = Discovered {
            broadcast: true,
            ..Discovered::default()
        };
        let everybody = Aim::Filter(filter.clone());
        self.ping(everybody, self.party.window.first, |answer| {
            found.nodes.insert(answer.reply.sender.clone());
            show(answer);
        })
        .await
        .map(|complete| found.incomplete = !complete)?;
        found.took = begun.elapsed();
        Ok(found)
    }

    /// Pings whoever is meant, and shows each answer as it comes; whether nothing was lost. Known nodes are waited for until all
    /// have answered or are known to be absent, for `wait` at most.
    pub async fn ping(
        &self,
        aim: Aim,
        wait: Duration,
        mut show: impl FnMut(&Answer),
    ) -> Result<bool, ClientError> {
        let mut call = Call::new("rpcutil", "ping", aim)?;
        call.wait = wait;
        let good = |answer: &Answer| {
            if answer.is_ok() {
                show(answer);
            }
        };
        Ok(self.watch(call, good).await?.incomplete.is_none())
    }

    /// Makes a call to its end, and shows each answer as it comes; the balance of it.
    pub async fn watch(
        &self,
        call: Call,
        mut show: impl FnMut(&Answer),
    ) -> Result<Stats, ClientError> {
        let mut events = self.call(call);
        while let Some(event) = events.next().await {
            match event {
                Event::Reply(answer) => show(&answer),
                Event::Finished(stats) => return Ok(*stats),
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Err(ClientError::Unfinished)
    }
}
