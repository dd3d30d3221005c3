//! State shared by all steps: the options, and the node's lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::{ActionError, BlockingContext};
use muster_puppet::permits::PermitClient as Permits;
use tokio::sync::Notify;

use crate::ProvisionShared;
use crate::delivery::DeliveryTarget;
use crate::fenced_lock::FencedLock;
use crate::options::Options;
use crate::puppet::PuppetRunner;

#[derive(Debug)]
pub(crate) struct StepContext {
    pub(crate) options: Options,
    pub(crate) lock: FencedLock,
    /// Directory of the resource engine's run lock.
    pub(crate) engine: PathBuf,
    pub(crate) permits: Permits,
    /// Notified when a marker has changed.
    pub(crate) changed: Arc<Notify>,
    /// The daemon's configuration and policies; `None` if the daemon has no files.
    pub(crate) delivery: Option<Arc<dyn DeliveryTarget>>,
}

impl StepContext {
    pub(crate) fn new(
        options: Options,
        state: PathBuf,
        ProvisionShared { permits, changed, delivery }: ProvisionShared,
    ) -> Self {
        Self {
            permits,
            changed,
            delivery,
            options,
            engine: state.join("engine"),
            lock: FencedLock::new(state),
        }
    }

    /// Fails if provisioning has ended, or if the fence of a step is not current.
    pub(crate) fn admit_step(
        &self,
        cx: &BlockingContext,
        fence: Option<u64>,
    ) -> Result<(), ActionError> {
        Ok(self.lock.admit_step(fence, cx.system.now())?)
    }

    pub(crate) fn puppet_runner<'a>(
        &'a self,
        cx: &'a BlockingContext,
        seconds: u64,
    ) -> PuppetRunner<'a> {
        let timeout = Duration::from_secs(seconds).min(cx.time_left());
        PuppetRunner::new(&self.options, cx, timeout)
    }
}
