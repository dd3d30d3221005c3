//! What every step shares: options, the hold on the node, and the thread that it is done on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::Cancel;
use muster_api::{ActionError, Context};
use muster_permits::Desk as Permits;
use tokio::time::Instant;

use crate::hold::Hold;
use crate::options::Options;
use crate::puppet::Puppet;

/// What is left of the call's time when a program is stopped, so that the answer still arrives.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Options and hold.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) options: Options,
    pub(crate) hold: Hold,
    /// Where the resource engine keeps the lock of runs.
    pub(crate) engine: PathBuf,
    /// Where runs take their permits.
    pub(crate) permits: Permits,
}

impl Desk {
    pub(crate) fn new(options: Options, state: PathBuf, permits: Permits) -> Self {
        Self {
            permits,
            options,
            engine: state.join("engine"),
            hold: Hold::new(state),
        }
    }

    /// Does what changes nothing, on a thread of its own.
    pub(crate) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &Context,
        work: impl FnOnce(&Self, &Context, Cancel) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let (desk, call) = (Arc::clone(self), cx.clone());
        cx.blocking(move |cancel| work(&desk, &call, cancel))
            .await?
    }

    /// Does a step, if the node is not done and nobody has taken over.
    pub(crate) async fn step<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &Context,
        fence: Option<u64>,
        work: impl FnOnce(&Self, &Context, Cancel) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        self.look(cx, move |desk, call, cancel| {
            desk.hold.admit(fence, call.system.now())?;
            work(desk, call, cancel)
        })
        .await
    }

    /// Puppet, with so much time at most.
    pub(crate) fn puppet<'a>(
        &'a self,
        cx: &'a Context,
        cancel: Cancel,
        seconds: u64,
    ) -> Puppet<'a> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let left = left.saturating_sub(LAST_WORDS).max(left / 2);
        Puppet::new(
            &self.options,
            cx,
            cancel,
            Duration::from_secs(seconds).min(left),
        )
    }
}
