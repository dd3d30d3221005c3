//! The state of the node's subsystems, as plugins report it: for filters, and for the node's record.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::System;
use muster_api::{StateChanges, StateSource};
use muster_filter::state::NodeFacts;
use serde_json::{Map, Value};

use crate::ground::shared::SharedValue;

/// Directory of sshd's public host keys, below the node's root.
const SSH_DIRECTORY: &str = "/etc/ssh";
/// Most host keys; sshd has three or four.
const MAX_HOST_KEYS: usize = 8;
/// Largest host key file that is read, in bytes. An RSA key of 16,384 bits takes 2.8 kB.
const MAX_HOST_KEY_BYTES: u64 = 8 * 1024;

/// The newest state, and where it comes from.
#[derive(Debug)]
pub struct NodeStateStore {
    sources: Vec<Arc<dyn StateSource>>,
    /// Notified when the state must be read again.
    pub changes: StateChanges,
    current: SharedValue<Option<Arc<NodeFacts>>>,
}

impl Default for NodeStateStore {
    fn default() -> Self {
        Self::new(Vec::new(), StateChanges::default())
    }
}

impl NodeStateStore {
    /// A store with these sources; the state is unknown until they are read.
    pub fn new(sources: Vec<Arc<dyn StateSource>>, changes: StateChanges) -> Self {
        Self { sources, changes, current: SharedValue::new(None) }
    }

    /// The state; `None` until it was read once. The same value until something changes.
    pub fn current(&self) -> Option<Arc<NodeFacts>> {
        Option::clone(&self.current.get())
    }

    /// Whether the sources have not been read yet.
    pub fn is_pending(&self) -> bool {
        !self.sources.is_empty() && self.current().is_none()
    }

    /// A state that exceeds the limits counts as empty. Blocks.
    pub fn refresh(&self, system: &dyn System) {
        let mut state = Map::new();
        for source in &self.sources {
            if let Some(read) = source.read_state(system) {
                state.insert(source.name().to_owned(), Value::Object(read));
            }
        }
        let (state, error) = match NodeFacts::from_map(state) {
            Ok(state) => (state, None),
            Err(error) => (NodeFacts::default(), Some(error)),
        };
        if self.current().as_deref() != Some(&state) {
            if let Some(error) = error {
                tracing::warn!(%error, "cannot use the state of the node; its record has none");
            }
            self.current.set(Some(Arc::new(state)));
        }
    }
}

/// The public host keys of sshd: type and key of `/etc/ssh/ssh_host_*_key.pub`.
#[derive(Debug)]
pub struct SshStateSource;

impl StateSource for SshStateSource {
    fn name(&self) -> &'static str {
        "ssh"
    }

    fn read_state(&self, system: &dyn System) -> Option<Map<String, Value>> {
        let directory = Path::new(SSH_DIRECTORY);
        let mut names = system.read_dir(directory).ok()?;
        names.retain(|name| name.starts_with("ssh_host_") && name.ends_with("_key.pub"));
        names.sort_unstable();
        let keys: Vec<Value> = names
            .iter()
            .take(MAX_HOST_KEYS)
            .filter_map(|name| {
                let text = system.read_file(&directory.join(name), MAX_HOST_KEY_BYTES).ok()?;
                parse_public_key(&text).map(Value::String)
            })
            .collect();
        if keys.is_empty() {
            return None;
        }
        Some(Map::from_iter([("host_keys".to_owned(), Value::Array(keys))]))
    }
}

/// Type and key, without the comment.
fn parse_public_key(text: &[u8]) -> Option<String> {
    let mut words = std::str::from_utf8(text).ok()?.split_whitespace();
    Some(format!("{} {}", words.next()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use muster_api::system::fake::FakeSystem;
    use serde_json::json;

    use super::*;

    #[test]
    fn host_keys_are_read_without_comments_and_up_to_a_bound() {
        let system = FakeSystem::new();
        assert_eq!(SshStateSource.read_state(&system), None);
        system.add_file("/etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa BBBB root@db1\n");
        system.add_file("/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAA root@db1\n");
        system.add_file("/etc/ssh/ssh_host_ed25519_key", "secret key");
        system.add_file("/etc/ssh/ssh_host_large_key.pub", "x ".repeat(8 * 1024));
        system.add_file("/etc/ssh/ssh_host_empty_key.pub", "\n");
        system.add_file("/etc/ssh/sshd_config", "Port 22\n");
        let state = SshStateSource.read_state(&system).unwrap();
        assert_eq!(state["host_keys"], json!(["ssh-ed25519 AAAA", "ssh-rsa BBBB"]));
        for number in 0..20 {
            let path = format!("/etc/ssh/ssh_host_{number}_key.pub");
            system.add_file(&path, "ssh-rsa CCCC\n");
        }
        let state = SshStateSource.read_state(&system).unwrap();
        assert_eq!(state["host_keys"].as_array().unwrap().len(), MAX_HOST_KEYS);
    }

    #[test]
    fn equal_state_is_the_same_value() {
        let system = FakeSystem::new();
        let store = NodeStateStore::new(vec![Arc::new(SshStateSource)], StateChanges::default());
        assert_eq!(store.current(), None);
        // Nothing is published before the first read, unless there is nothing to read.
        assert!(store.is_pending() && !NodeStateStore::default().is_pending());
        store.refresh(&system);
        assert!(!store.is_pending());
        let known = store.current().unwrap();
        assert_eq!(*known, NodeFacts::default());
        store.refresh(&system);
        assert!(Arc::ptr_eq(&known, &store.current().unwrap()));
        system.add_file("/etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa BBBB\n");
        store.refresh(&system);
        assert!(!Arc::ptr_eq(&known, &store.current().unwrap()));
    }
}
