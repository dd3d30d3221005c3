//! Runs package operations on separate threads: changes one after the other, queries concurrently.

use std::sync::Arc;

use muster_api::{ActionError, CallContext};
use muster_engine::EngineError;
use tokio::sync::Mutex;

use crate::package::NodePackages;

/// Queue of changes, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct PackageQueue(Arc<Mutex<()>>);

impl PackageQueue {
    /// Runs a changing operation after all earlier ones have finished.
    pub(crate) async fn run_exclusive<T: Send + 'static>(
        &self,
        cx: &CallContext,
        work: impl FnOnce(&NodePackages) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let guard = Arc::clone(&self.0).lock_owned().await;
        run_blocking(cx, move |packages| {
            // The guard moves into the task: the tool may still run after the caller has timed out, and the next change must wait for it.
            let _guard = guard;
            work(packages)
        })
        .await
    }
}

/// Runs a query. Reports an invalid request with status 4 and a failure of the machine with status 1.
pub(crate) async fn run_blocking<T: Send + 'static>(
    cx: &CallContext,
    work: impl FnOnce(&NodePackages) -> Result<T, EngineError> + Send + 'static,
) -> Result<T, ActionError> {
    let system = Arc::clone(&cx.system);
    let done = cx.run_blocking(move |cancel| work(&NodePackages::new(system, cancel)));
    done.await?.map_err(|error| {
        if error.is_invalid() {
            ActionError::invalid_input(error.one_line_message())
        } else {
            ActionError::failed(error.one_line_message())
        }
    })
}
