//! Everything an action may know and use. There are no globals beside it.

use std::sync::Arc;

use muster_system::System;
use muster_system::command::Cancel;
use muster_wire::identity::{Identity, Name};
use muster_wire::trace::Traceparent;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::ActionError;
use crate::node::Node;

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
}

impl Context {
    /// Runs blocking work on a thread of its own. The flag that it is given goes up when the call is cancelled; programs started
    /// through the system stop by themselves then.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(Cancel) -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let cancel = Cancel::default();
        let _raised_when_dropped = Raise(cancel.clone());
        let worker = tokio::task::spawn_blocking(move || work(cancel));
        tokio::select! {
            done = worker => done.map_err(|error| ActionError::broken(error.to_string())),
            () = self.cancel.cancelled() => Err(ActionError::cancelled()),
        }
    }
}

/// Raises the flag when the call ends in any way, also by being dropped at its deadline.
struct Raise(Cancel);

impl Drop for Raise {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
