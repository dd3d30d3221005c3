//! Everything an action may know and use. There are no globals beside it.

use std::sync::Arc;

use muster_system::System;
use muster_system::command::Cancel;
use muster_wire::identity::{Identity, Name};
use muster_wire::trace::Traceparent;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::ActionError;
use crate::node::Node;
use crate::progress::Sink;

/// The circumstances of one call.
#[derive(Debug, Clone)]
pub struct Context {
    /// The request's id.
    pub request: Uuid,
    /// Who asks; verified and authorised.
    pub caller: Identity,
    /// The agent that was asked.
    pub agent: Name,
    /// The action that was asked.
    pub action: Name,
    /// The trace that the call is part of; a program that is started for it gets it in its environment, as
    /// [`muster_wire::trace::VARIABLE`].
    pub trace: Option<Traceparent>,
    /// When the answer is due; after it nobody listens.
    pub deadline: Instant,
    /// Cancelled when the caller gives up, the deadline passes, or the daemon must stop.
    pub cancel: CancellationToken,
    /// The machine that the action acts on.
    pub system: Arc<dyn System>,
    /// The node that the action runs on.
    pub node: Arc<dyn Node>,
    /// Where to tell of progress, for a caller that wants to hear it.
    pub progress: Sink,
}

impl Context {
    /// Tells a caller that wants to hear it that this happened; see [`Sink::emit`]. Never waits.
    pub fn emit(&self, event: Value) {
        self.progress.emit(event);
    }

    /// Tells a caller that wants to hear it, in a sentence, how far the work is. Never waits.
    pub fn progress(&self, message: impl Into<String>) {
        if self.progress.is_wanted() {
            self.emit(json!({ "message": message.into() }));
        }
    }

    /// Runs blocking work on a thread of its own. The flag that it is given goes up when the call is cancelled; programs started
    /// through the system stop by themselves then. What the work has to say after that still counts, as long as the host waits:
    /// so that the caller learns what was done before.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Cancel) -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let cancel = Cancel::default();
        let _raised_when_dropped = Raise(cancel.clone());
        let flag = cancel.clone();
        let mut worker = tokio::task::spawn_blocking(move || work(cancel));
        let done = tokio::select! {
            done = &mut worker => done,
            () = self.cancel.cancelled() => {
                flag.cancel();
                worker.await
            }
        };
        done.map_err(|error| ActionError::broken(error.to_string()))
    }
}

/// Raises the flag when the call ends in any way, also by being dropped at its deadline.
struct Raise(Cancel);

impl Drop for Raise {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
