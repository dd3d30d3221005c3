//! Finding nodes by asking everybody: a broadcast that only matching nodes answer.
//!
//! A filter of exact identities needs no discovery: [`known`] answers at once. Other ways to know nodes (files, inventories) come
//! in as [`crate::Aim::Nodes`].

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::filter::Filter;
use muster_wire::identity::Identity;
use tokio::time::Instant;

use crate::call::{Aim, Call};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{Answer, Event};

/// When a broadcast that nobody knows the size of is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// At most this long.
    pub most: Duration,
    /// This long after the last answer, once there is one.
    pub quiet: Duration,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            most: Duration::from_secs(2),
            quiet: Duration::from_millis(300),
        }
    }
}

/// What discovery found.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// How long it took.
    pub took: Duration,
    /// Answers may have been lost: there may be more nodes.
    pub incomplete: bool,
    /// Whether everybody was asked; false when the filter named the nodes.
    pub broadcast: bool,
}

/// The nodes that a filter names by their exact identities, if it says nothing else.
pub(crate) fn known(filter: &Filter) -> Option<BTreeSet<Identity>> {
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
        self.ping(filter.clone(), self.party.window.most, |answer| {
            found.nodes.insert(answer.reply.sender.clone());
            show(answer);
        })
        .await
        .map(|complete| found.incomplete = !complete)?;
        found.took = begun.elapsed();
        Ok(found)
    }

    /// Pings whoever matches, and shows each answer as it comes; whether nothing was lost.
    pub async fn ping(
        &self,
        filter: Filter,
        wait: Duration,
        mut show: impl FnMut(&Answer),
    ) -> Result<bool, ClientError> {
        let mut call = Call::new("rpcutil", "ping", Aim::Filter(filter))?;
        call.wait = wait;
        let mut events = self.call(call);
        let mut complete = true;
        while let Some(event) = events.next().await {
            match event {
                Event::Reply(answer) if answer.is_ok() => show(&answer),
                Event::Finished(stats) => complete = stats.incomplete.is_none(),
                Event::Failed(error) => return Err(error),
                _ => {}
            }
        }
        Ok(complete)
    }
}
