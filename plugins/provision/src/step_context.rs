//! State shared by all steps: the options, the node's lock, and helpers that run a step on a blocking thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::CancelFlag;
use muster_api::{ActionError, CallContext};
use muster_permits::PermitClient as Permits;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fenced_lock::FencedLock;
use crate::options::Options;
use crate::puppet::PuppetRunner;

/// Programs are stopped this long before the call's deadline, so that the reply still arrives.
const ANSWER_MARGIN: Duration = Duration::from_secs(3);

/// State shared by all steps.
#[derive(Debug)]
pub(crate) struct StepContext {
    pub(crate) options: Options,
    pub(crate) lock: FencedLock,
    /// Directory of the resource engine's run lock.
    pub(crate) engine: PathBuf,
    /// Provides the permits of runs.
    pub(crate) permits: Permits,
    /// Notified when a marker has changed.
    pub(crate) changed: Arc<Notify>,
}

impl StepContext {
    pub(crate) fn new(
        options: Options,
        state: PathBuf,
        permits: Permits,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            permits,
            changed,
            options,
            engine: state.join("engine"),
            lock: FencedLock::new(state),
        }
    }

    /// Runs work that changes nothing on a blocking thread.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &CallContext,
        work: impl FnOnce(&Self, &CallContext, CancelFlag) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let (context, call) = (Arc::clone(self), cx.clone());
        cx.run_blocking(move |cancel| work(&context, &call, cancel)).await?
    }

    /// Runs a step, if provisioning has not ended and the fence is current.
    pub(crate) async fn run_step<T: Send + 'static>(
        self: &Arc<Self>,
        cx: &CallContext,
        fence: Option<u64>,
        work: impl FnOnce(&Self, &CallContext, CancelFlag) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        self.run_blocking(cx, move |context, call, cancel| {
            context.lock.admit_step(fence, call.system.now())?;
            work(context, call, cancel)
        })
        .await
    }

    /// A runner for Puppet with this timeout.
    pub(crate) fn puppet_runner<'a>(
        &'a self,
        cx: &'a CallContext,
        cancel: CancelFlag,
        seconds: u64,
    ) -> PuppetRunner<'a> {
        let left = cx.deadline.saturating_duration_since(Instant::now());
        let left = left.saturating_sub(ANSWER_MARGIN).max(left / 2);
        PuppetRunner::new(&self.options, cx, cancel, Duration::from_secs(seconds).min(left))
    }
}
