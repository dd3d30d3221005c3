//! Everything an action may know and use. There are no globals beside it.

use std::sync::Arc;

use muster_system::System;
use muster_system::command::CancelFlag;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::trace::TraceContext;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::ActionError;
use crate::node::NodeHandle;
use crate::progress::ProgressSink;

/// The circumstances of one call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The request's id.
    pub request: Uuid,
    /// Who asks; verified and authorised.
    pub caller: Identity,
    /// The agent that was asked.
    pub agent: SubjectName,
    /// The action that was asked.
    pub action: SubjectName,
    /// The trace that the call is part of; a program that is started for it gets it in its environment, as
    /// [`muster_wire::trace::TRACEPARENT_VARIABLE`].
    pub trace: Option<TraceContext>,
    /// When the answer is due; after it nobody listens.
    pub deadline: Instant,
    /// Cancelled when the caller gives up, the deadline passes, or the daemon must stop.
    pub cancel: CancellationToken,
    /// The machine that the action acts on.
    pub system: Arc<dyn System>,
    /// The node that the action runs on.
    pub node: Arc<dyn NodeHandle>,
    /// Where to tell of progress, for a caller that wants to hear it.
    pub progress: ProgressSink,
}

impl CallContext {
    /// Tells a caller that wants to hear it that this happened; see [`ProgressSink::emit_event`]. Never waits.
    pub fn emit_event(&self, event: Value) {
        self.progress.emit_event(event);
    }

    /// Tells a caller that wants to hear it, in a sentence, how far the work is. Never waits.
    pub fn report_progress(&self, message: impl Into<String>) {
        if self.progress.is_wanted() {
            self.emit_event(json!({ "message": message.into() }));
        }
    }

    /// Runs blocking work on a thread of its own. The flag that it is given goes up when the call is cancelled; programs started
    /// through the system stop by themselves then. What the work has to say after that still counts, as long as the host waits:
    /// so that the caller learns what was done before.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(CancelFlag) -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let cancel = CancelFlag::default();
        let _raised_when_dropped = CallCancelGuard(cancel.clone());
        let flag = cancel.clone();
        let mut worker = tokio::task::spawn_blocking(move || work(cancel));
        let done = tokio::select! {
            done = &mut worker => done,
            () = self.cancel.cancelled() => {
                flag.cancel();
                worker.await
            }
        };
        done.map_err(|error| ActionError::internal_error(error.to_string()))
    }
}

/// Raises the flag when the call ends in any way, also by being dropped at its deadline.
struct CallCancelGuard(CancelFlag);

impl Drop for CallCancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
