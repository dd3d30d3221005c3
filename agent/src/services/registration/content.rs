//! Builds the content of the node's record. Pure.

use std::sync::Arc;

use muster_ddl::AgentDdl;
use muster_filter::FactPatterns;
use muster_filter::state::{MapField, NodeFacts};
use muster_node::config::RegistrationConfig;
use muster_node::core::DaemonCore;
use muster_wire::compressed::CompressedJsonError;
use muster_wire::node_record::NodeContent;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Facts that are named if a record is too large.
const NAMED_FACTS: usize = 3;

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

    fn published(&self, facts: &NodeFacts) -> NodeFacts {
        let mut map = facts.as_map().clone();
        self.excluded.remove_from(&mut map);
        hash_facts(&self.hashed, &mut map);
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

/// Replaces the values that match by a hash, so that equal values can be compared and are not disclosed.
fn hash_facts(patterns: &FactPatterns, facts: &mut Map<String, Value>) {
    patterns.edit(facts, &mut |map, key| {
        if let Some(value) = map.get_mut(key) {
            *value = Value::String(hash_text(value));
        }
    });
}

/// `sha256:` and the first 16 bytes of the hash in hexadecimal.
fn hash_text(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest.iter().take(16).fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Subsystems whose whole state is published at once: their states are events, such as a check's hard state, a maintenance, or a run that was asked for.
const PROMPT_SUBSYSTEMS: [&str; 2] = ["again", "checks"];
/// Values of Puppet's state that are published at once.
const PROMPT_PUPPET_VALUES: [&str; 3] = ["disabled", "disable_message", "engine"];

/// What of a record is published without the longer interval of the state: facts, classes, agents, states of subsystems that are events, and that a run of
/// Puppet has ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PromptParts {
    digest: String,
    ended: Option<Value>,
    is_applying: bool,
}

impl PromptParts {
    pub(super) fn of(content: &NodeContent) -> Result<Self, CompressedJsonError> {
        let state = content.map(MapField::State);
        let puppet = state.and_then(|state| state.get("puppet"));
        let value = |names: &[&str]| names.iter().try_fold(puppet?, |value, name| value.get(name));
        let of_subsystem = |name: &str| Some((name.to_owned(), state?.get(name)?.clone()));
        let of_puppet = |name: &str| Some((name.to_owned(), puppet?.get(name)?.clone()));
        let mut prompt: Map<String, Value> =
            PROMPT_SUBSYSTEMS.into_iter().filter_map(of_subsystem).collect();
        let puppet_values = PROMPT_PUPPET_VALUES.into_iter().filter_map(of_puppet).collect();
        prompt.insert("puppet".to_owned(), Value::Object(puppet_values));
        // Fewer values than in the state are within the limits.
        let prompt = NodeFacts::from_map(prompt).unwrap_or_default();
        Ok(Self {
            digest: content.clone().with_map(MapField::State, prompt).digest()?,
            ended: value(&["last_run", "ended"]).cloned(),
            is_applying: value(&["applying"]) == Some(&Value::Bool(true)),
        })
    }

    /// Whether a record with these parts is published at once. A run in progress is no reason, and its end is, also if it was published while it was in
    /// progress: otherwise the directory says for minutes that the node applies a catalog.
    pub(super) fn differ_from(&self, published: &Self) -> bool {
        let has_ended =
            !self.is_applying && (published.is_applying || self.ended != published.ended);
        self.digest != published.digest || has_ended
    }
}

pub(super) fn build_content(
    core: &DaemonCore,
    selection: &FactSelection,
    heartbeat_seconds: u32,
) -> NodeContent {
    let agents = core.offer.registry.get().agent_ddls();
    let version = |ddl: &Arc<AgentDdl>| (ddl.name().to_owned(), ddl.metadata().version.clone());
    let mut content = NodeContent {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        collectives: core.node.collectives.clone(),
        agents: agents.iter().map(version).collect(),
        classes: core.node.classes.are_known().then(|| core.node.classes.current().to_vec()),
        heartbeat_seconds,
        ..NodeContent::default()
    };
    for (field, map) in core.node.current_maps().iter() {
        let Some(map) = map else { continue };
        let is_facts = field == MapField::Facts;
        let map = if is_facts { selection.published(map) } else { NodeFacts::clone(map) };
        content = content.with_map(field, map);
    }
    content
}

/// The largest facts with their sizes as JSON, for an error.
pub(super) fn largest_facts(content: &NodeContent) -> String {
    let size = |(name, value): (&String, &Value)| (value.to_string().len(), name.clone());
    let mut sizes: Vec<_> = content.facts.iter().map(size).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes.truncate(NAMED_FACTS);
    let named = sizes.iter().map(|(size, name)| format!("{name} ({size} bytes)"));
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use muster_filter::FactPatterns;
    use muster_filter::state::{MapField, NodeFacts};
    use muster_wire::node_record::NodeContent;
    use serde_json::{Value, json};

    use super::{PromptParts, hash_facts};

    fn parts(state: &Value) -> PromptParts {
        let state = NodeFacts::from_map(state.as_object().unwrap().clone()).unwrap();
        PromptParts::of(&NodeContent::default().with_map(MapField::State, state)).unwrap()
    }

    #[test]
    fn end_of_a_run_is_published_at_once_and_its_progress_is_not() {
        let idle = parts(&json!({"puppet": {"applying": false, "last_run": {"ended": 1}}}));
        let busy = parts(&json!({"puppet": {"applying": true, "last_run": {"ended": 1}}}));
        let ending = parts(&json!({"puppet": {"applying": true, "last_run": {"ended": 2}}}));
        let ended = parts(&json!({"puppet": {"applying": false, "last_run": {"ended": 2}}}));
        let asked =
            parts(&json!({"again": {}, "puppet": {"applying": false, "last_run": {"ended": 1}}}));
        assert!(
            !busy.differ_from(&idle) && !ending.differ_from(&idle) && !ending.differ_from(&busy)
        );
        assert!(ended.differ_from(&idle) && ended.differ_from(&busy) && ended.differ_from(&ending));
        assert!(idle.differ_from(&busy), "a run that has left no summary");
        assert!(asked.differ_from(&idle));
        let disabled = parts(
            &json!({"puppet": {"disabled": true, "applying": false, "last_run": {"ended": 1}}}),
        );
        assert!(disabled.differ_from(&idle));
    }

    #[test]
    fn hard_states_of_checks_are_published_at_once() {
        let critical = parts(&json!({"checks": {"critical": 1, "checks": {"disk": {}}}}));
        let ok = parts(&json!({"checks": {"ok": 1, "checks": {"disk": {}}}}));
        let pending = parts(&json!({"ledger": {"pending": 1}}));
        assert!(critical.differ_from(&ok) && ok.differ_from(&critical));
        assert!(!pending.differ_from(&parts(&json!({}))));
    }

    #[test]
    fn hash_hides_the_value_and_keeps_equality() {
        let patterns = FactPatterns::new(&["secret".to_owned()]);
        let hashed = |value: &str| {
            let mut facts = json!({"secret": value, "x": 1}).as_object().unwrap().clone();
            hash_facts(&patterns, &mut facts);
            facts
        };
        assert_eq!(hashed("a"), hashed("a"));
        assert_ne!(hashed("a"), hashed("b"));
        assert!(hashed("a").get("secret").unwrap().as_str().unwrap().starts_with("sha256:"));
    }
}
