//! What every step shares: options, the hold on the node, and the thread that it is done on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::CancelFlag;
use muster_api::{ActionError, CallContext};
use muster_permits::PermitClient as Permits;
use tokio::time::Instant;

use crate::fenced_lock::FencedLock;
use crate::options::Options;
use crate::puppet::PuppetRunner;

/// What is left of the call's time when a program is stopped, so that the answer still arrives.
const ANSWER_MARGIN: Duration = Duration::from_secs(3);

/// Options and hold.
#[derive(Debug)]
pub(crate) struct StepContext {
    pub(crate) options: Options,
    pub(crate) hold: FencedLock,
    /// Where the resource engine keeps the lock of runs.
    pub(crate) engine: PathBuf,
    /// Where runs take their permits.
    pub(crate) permits: Permits,
}

impl StepContext {
    pub(crate) fn new(options: Options, state: PathBuf, permits: Permits) -> Self {
        Self {
            permits,
            options,
            engine: state.join("engine"),
            hold: FencedLock::new(state),
        }
    }

    /// Does what changes nothing, on a thread of its own.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &CallContext,
        work: impl FnOnce(&Self, &CallContext, CancelFlag) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let (desk, call) = (Arc::clone(self), cx.clone());
        cx.run_blocking(move |cancel| work(&desk, &call, cancel))
            .await?
    }

    /// Does a step, if the node is not done and nobody has taken over.
    pub(crate) async fn run_step<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &CallContext,
        fence: Option<u64>,
        work: impl FnOnce(&Self, &CallContext, CancelFlag) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        self.run_blocking(cx, move |desk, call, cancel| {
            desk.hold.admit_step(fence, call.system.now())?;
            work(desk, call, cancel)
        })
        .await
    }

    /// Puppet, with so much time at most.
    pub(crate) fn puppet_runner<'a>(
        &'a self,
        cx: &'a CallContext,
        cancel: CancelFlag,
        seconds: u64,
    ) -> PuppetRunner<'a> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let left = left.saturating_sub(ANSWER_MARGIN).max(left / 2);
        PuppetRunner::new(
            &self.options,
            cx,
            cancel,
            Duration::from_secs(seconds).min(left),
        )
    }
}
