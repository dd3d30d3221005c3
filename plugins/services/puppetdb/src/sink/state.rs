//! How far was sent: a small file, from which a restart goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_base::error_chain;
use muster_files::files::{FileAccessError, read_text, replace_secret};
use muster_history::index::RunCursor;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A file with a state of 100,000 nodes has a quarter of this.
const MAX_STATE_BYTES: u64 = 128 * 1024 * 1024;

/// How far was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkState {
    /// The last run whose report was sent.
    pub reports: Option<RunCursor>,
    /// What was sent of each node.
    pub nodes: BTreeMap<String, SentNode>,
}

/// What was sent of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SentNode {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<SentFacts>,
    /// The promotion whose catalog was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Uuid>,
}

/// The facts that were sent last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFacts {
    pub digest: String,
    /// The time that the command carried, in milliseconds since the epoch.
    pub time: u64,
}

/// The state with its file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    inner: Mutex<StateInner>,
}

#[derive(Debug, Default)]
struct StateInner {
    state: SinkState,
    is_stored: bool,
}

impl StateFile {
    /// Reads the file. Without a readable one, everything is sent again, which changes nothing in `PuppetDB`.
    pub fn open(path: &Path) -> Self {
        let state = match read_state(path) {
            Ok(state) => state,
            Err(problem) => {
                tracing::warn!(
                    path = %path.display(), problem,
                    "cannot read how far PuppetDB has what it is sent; all of it is sent again"
                );
                SinkState::default()
            }
        };
        Self { path: path.to_owned(), inner: Mutex::new(StateInner { state, is_stored: true }) }
    }

    pub fn node(&self, node: &str) -> SentNode {
        self.lock().state.nodes.get(node).cloned().unwrap_or_default()
    }

    pub fn reports(&self) -> Option<RunCursor> {
        self.lock().state.reports.clone()
    }

    pub(super) fn edit_node(&self, node: &str, edit: impl FnOnce(&mut SentNode)) {
        let mut inner = self.lock();
        edit(inner.state.nodes.entry(node.to_owned()).or_default());
        inner.is_stored = false;
    }

    pub(super) fn set_reports(&self, cursor: RunCursor) {
        let mut inner = self.lock();
        inner.state.reports = Some(cursor);
        inner.is_stored = false;
    }

    /// Forgets nodes that are no longer there.
    pub(super) fn keep_nodes(&self, names: &BTreeSet<String>) {
        let mut inner = self.lock();
        let before = inner.state.nodes.len();
        inner.state.nodes.retain(|node, _| names.contains(node));
        inner.is_stored &= inner.state.nodes.len() == before;
    }

    /// Writes the file if something has changed.
    pub fn store(&self) -> Result<(), FileAccessError> {
        let text = {
            let mut inner = self.lock();
            if inner.is_stored {
                return Ok(());
            }
            inner.is_stored = true;
            serde_json::to_vec(&inner.state).unwrap_or_default()
        };
        let written = replace_secret(&self.path, &text);
        if written.is_err() {
            self.lock().is_stored = false;
        }
        written
    }

    fn lock(&self) -> MutexGuard<'_, StateInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_state(path: &Path) -> Result<SinkState, String> {
    match read_text(path, MAX_STATE_BYTES) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error_chain(&error)),
        Err(error) if error.is_missing() => Ok(SinkState::default()),
        Err(error) => Err(error_chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{SentFacts, StateFile};

    #[test]
    fn state_is_read_again_and_a_damaged_one_is_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("state.json");
        let facts = SentFacts { digest: "aa".to_owned(), time: 7 };
        let state = StateFile::open(&path);
        state.store().unwrap();
        assert!(!path.exists(), "nothing has changed");
        for node in ["web1", "web2"] {
            state.edit_node(node, |sent| sent.facts = Some(facts.clone()));
        }
        state.store().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let state = StateFile::open(&path);
        assert_eq!(state.node("web1").facts, Some(facts));
        state.keep_nodes(&BTreeSet::from(["web2".to_owned()]));
        state.store().unwrap();
        let state = StateFile::open(&path);
        assert_eq!((state.node("web1").facts, state.node("web2").facts.is_some()), (None, true));
        fs::write(&path, "{").unwrap();
        assert_eq!(StateFile::open(&path).node("web2").facts, None);
    }
}
