//! What a subsystem reports about itself, for the node's record in the directory and for filters such as `{ 'state.puppet.disabled': true }`.
//!
//! A plugin that knows such a subsystem returns a source; the daemon reads all sources every few seconds. The daemon knows nothing else of the plugin, and the
//! plugin nothing of the record.

use std::fmt;
use std::sync::Arc;

use muster_system::System;
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// Most characters of a text in a state; longer texts are cut.
pub const MAX_STATE_TEXT_CHARS: usize = 256;

/// A source of state.
pub trait StateSource: fmt::Debug + Send + Sync {
    /// The name of the subsystem, which is the first segment of paths: `puppet`.
    fn name(&self) -> &'static str;

    /// Reads the state; `None` if the machine does not have the subsystem. Blocks.
    ///
    /// A difference causes a new record. So there are times in it but no ages, and nothing that changes without an event.
    fn read_state(&self, system: &dyn System) -> Option<Map<String, Value>>;
}

/// Makes the daemon read all sources soon: a plugin notifies when what its source reports has changed. Without it, sources are read every ten seconds.
/// Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateChanges(Arc<Notify>);

impl StateChanges {
    /// Notifies of a change. Several before the next read are one.
    pub fn notify(&self) {
        self.0.notify_one();
    }

    /// Waits for a change since the last one.
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}

/// A text of at most [`MAX_STATE_TEXT_CHARS`] characters, as a value.
pub fn bounded_text(text: &str) -> Value {
    Value::String(text.chars().take(MAX_STATE_TEXT_CHARS).collect())
}
