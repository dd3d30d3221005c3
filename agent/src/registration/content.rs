//! Builds the content of the node's record. Pure.

use muster_filter::state::NodeFacts;
use muster_wire::node_record::NodeContent;

use super::fact_patterns::FactPatterns;
use crate::config::RegistrationConfig;
use crate::core::DaemonCore;

/// Facts that are named if a record is too large.
const NAMED_FACTS: usize = 3;

/// Which facts a record has.
#[derive(Debug, Clone)]
pub(super) struct FactSelection {
    volatile: FactPatterns,
    excluded: FactPatterns,
    hashed: FactPatterns,
}

impl FactSelection {
    pub(super) fn new(config: &RegistrationConfig) -> Self {
        Self {
            volatile: FactPatterns::new(&config.volatile_facts),
            excluded: FactPatterns::new(&config.excluded_facts),
            hashed: FactPatterns::new(&config.hashed_facts),
        }
    }

    /// The facts to publish.
    fn published(&self, facts: &NodeFacts) -> NodeFacts {
        let mut map = facts.as_map().clone();
        self.excluded.remove_from(&mut map);
        self.hashed.hash_in(&mut map);
        // Fewer and shorter values than before are within the limits; a hash of a short text is not much longer.
        NodeFacts::from_map(map).unwrap_or_default()
    }

    /// The content without facts that always change.
    pub(super) fn stable(&self, content: &NodeContent) -> NodeContent {
        let mut map = content.facts.as_map().clone();
        self.volatile.remove_from(&mut map);
        NodeContent { facts: NodeFacts::from_map(map).unwrap_or_default(), ..content.clone() }
    }
}

/// The content with those parts of the state that other nodes wait for: the end of the last run, and the runs that were asked for.
pub(super) fn with_prompt_state(content: &NodeContent) -> NodeContent {
    let state = content.state.as_ref();
    let ended = state.and_then(|state| state.get("puppet")?.get("last_run")?.get("ended"));
    let again = state.and_then(|state| state.get("again"));
    let parts = [("ended", ended), ("again", again)].into_iter();
    let parts = parts.filter_map(|(name, value)| Some((name.to_owned(), value?.clone())));
    NodeContent { state: NodeFacts::from_map(parts.collect()).ok(), ..content.clone() }
}

/// The content of the node's record now.
pub(super) fn build_content(
    core: &DaemonCore,
    selection: &FactSelection,
    heartbeat_seconds: u32,
) -> NodeContent {
    let agents = core.registry.get().agent_infos();
    NodeContent {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        collectives: core.collectives.clone(),
        agents: agents.into_iter().map(|agent| (agent.agent, agent.version)).collect(),
        classes: core.classes.are_known().then(|| core.classes.current().to_vec()),
        facts: selection.published(&core.facts.current()),
        heartbeat_seconds,
        state: Option::clone(&core.state.current()),
    }
}

/// The largest facts with their sizes as JSON, for an error.
pub(super) fn largest_facts(content: &NodeContent) -> String {
    let size =
        |(name, value): (&String, &serde_json::Value)| (value.to_string().len(), name.clone());
    let mut sizes: Vec<_> = content.facts.iter().map(size).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes.truncate(NAMED_FACTS);
    let named = sizes.iter().map(|(size, name)| format!("{name} ({size} bytes)"));
    named.collect::<Vec<_>>().join(", ")
}
