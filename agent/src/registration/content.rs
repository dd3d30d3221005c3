//! Builds the content of the node's record. Pure, apart from reading the host keys of sshd.

use std::path::Path;

use muster_filter::state::NodeFacts;
use muster_wire::node_record::NodeContent;

use super::fact_patterns::FactPatterns;
use crate::config::RegistrationConfig;
use crate::core::DaemonCore;
use crate::files;

/// Files of sshd's public host keys, below `/etc/ssh`.
const SSH_HOST_KEY_FILES: [&str; 3] =
    ["ssh_host_ed25519_key.pub", "ssh_host_ecdsa_key.pub", "ssh_host_rsa_key.pub"];
/// Largest host key file that is read, in bytes.
const MAX_HOST_KEY_BYTES: u64 = 8 * 1024;
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
        ssh_host_keys: read_ssh_host_keys(core.system.root()),
        ..NodeContent::default()
    }
}

/// The public host keys of sshd, type and key; none if there is no sshd.
fn read_ssh_host_keys(root: &Path) -> Vec<String> {
    let read = |name: &&str| {
        let path = root.join("etc/ssh").join(name);
        let text = files::allow_missing(files::read_bytes(&path, MAX_HOST_KEY_BYTES)).ok()??;
        let text = String::from_utf8(text).ok()?;
        let mut words = text.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    SSH_HOST_KEY_FILES.iter().filter_map(read).collect()
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
