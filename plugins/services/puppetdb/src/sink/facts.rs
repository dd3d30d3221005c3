//! Sends the facts of nodes when their records change, and once a day, so that `PuppetDB` does not expire a node that is there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_base::unix_millis_now;
use muster_catalogs::handle::CompilerHandle;
use muster_directory::{DirectoryHandle, NodeSnapshot};
use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval};

use super::command::{CommandKind, PuppetdbCommand, digest};
use super::sender::CommandSender;
use super::state::{SentFacts, StateFile};
use crate::forms::{FormSource, facts_form, trusted_facts};

/// How often facts that are due again are looked for.
const REFRESH_INTERVAL: Duration = Duration::from_hours(1);
/// Facts that were sent this long ago are sent again. `PuppetDB` expires nodes after 7 days by default.
const REFRESH_AGE_MILLIS: u64 = 24 * 60 * 60 * 1000;
const DEFAULT_ENVIRONMENT: &str = "production";

/// Sends facts.
pub(super) struct FactsSource {
    pub(super) directory: DirectoryHandle,
    /// Knows the environment of each node.
    pub(super) compiler: Option<CompilerHandle>,
    pub(super) sender: CommandSender,
    pub(super) state: Arc<StateFile>,
    pub(super) producer: String,
}

impl FactsSource {
    pub(super) async fn follow(self) {
        let mut last = 0;
        let mut refresh = interval(REFRESH_INTERVAL);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = self.directory.next_changes(last) => {
                    last = changed.last;
                    let nodes = changed.nodes.or_else(|| self.directory.node_names());
                    self.send_nodes(nodes.unwrap_or_default()).await;
                }
                _ = refresh.tick() => self.refresh_nodes().await,
            }
        }
    }

    /// Sends the facts of nodes that are there and were sent long ago, and forgets nodes that are no longer known.
    async fn refresh_nodes(&self) {
        let Ok(Some(nodes)) = self.directory.select_nodes(&NodeFilter::default(), &[]) else {
            return;
        };
        let names: BTreeSet<String> = nodes.iter().map(|node| node.identity.to_string()).collect();
        self.state.keep_nodes(&names);
        let present = nodes.into_iter().filter(|node| !node.is_missing);
        self.send_nodes(present.map(|node| node.identity).collect()).await;
    }

    async fn send_nodes(&self, nodes: Vec<Identity>) {
        let count = nodes.len();
        for (index, node) in nodes.iter().enumerate() {
            self.sender.counts().set_waiting(CommandKind::Facts, count - index);
            if let Some(snapshot) = self.directory.snapshot(node) {
                self.send_snapshot(&snapshot).await;
            }
        }
        self.sender.counts().set_waiting(CommandKind::Facts, 0);
    }

    async fn send_snapshot(&self, node: &NodeSnapshot) {
        let name = node.identity.as_str();
        let facts = digest_facts(&node.facts);
        let Some(time) = due_time(
            self.state.node(name).facts.as_ref(),
            &facts,
            node.record_time,
            unix_millis_now(),
        ) else {
            return;
        };
        let environment = self.environment_of(&node.identity);
        let source = FormSource {
            certname: name,
            environment: &environment,
            producer: &self.producer,
            producer_timestamp: time,
        };
        let form = facts_form(&node.facts, trusted_facts(name, &Map::new()), source);
        self.sender.send(PuppetdbCommand::new(CommandKind::Facts, name, time, form)).await;
        self.state.edit_node(name, |sent| sent.facts = Some(SentFacts { digest: facts, time }));
    }

    fn environment_of(&self, node: &Identity) -> String {
        let compiler = self.compiler.as_ref();
        let environment =
            compiler.and_then(|compiler| compiler.environment_of(node).ok().flatten());
        environment.map_or_else(|| DEFAULT_ENVIRONMENT.to_owned(), |found| found.name.clone())
    }
}

fn digest_facts(facts: &Map<String, Value>) -> String {
    digest(&serde_json::to_vec(facts).unwrap_or_default())
}

/// The time that a command with these facts carries; `None` if it is not due. It is that of the record, so that of two instances none sets back what the other
/// has sent, and later than that of the last command, or `PuppetDB` would ignore it.
fn due_time(sent: Option<&SentFacts>, facts: &str, record_time: u64, now: u64) -> Option<u64> {
    let Some(sent) = sent else { return Some(record_time) };
    if sent.digest != facts {
        return Some(record_time.max(sent.time.saturating_add(1)));
    }
    (now.saturating_sub(sent.time) >= REFRESH_AGE_MILLIS).then_some(now.max(record_time))
}

#[cfg(test)]
mod tests {
    use super::{REFRESH_AGE_MILLIS, due_time};
    use crate::sink::state::SentFacts;

    #[test]
    fn facts_are_due_when_they_differ_or_are_old() {
        let sent = SentFacts { digest: "a".to_owned(), time: 1000 };
        assert_eq!(due_time(None, "a", 900, 2000), Some(900));
        assert_eq!(due_time(Some(&sent), "a", 1500, 2000), None);
        assert_eq!(due_time(Some(&sent), "b", 1500, 2000), Some(1500));
        // The clock of the node was set back.
        assert_eq!(due_time(Some(&sent), "b", 500, 2000), Some(1001));
        let later = 1000 + REFRESH_AGE_MILLIS;
        assert_eq!(due_time(Some(&sent), "a", 1000, later - 1), None);
        assert_eq!(due_time(Some(&sent), "a", 1000, later), Some(later));
    }
}
