//! Work with the machine's packages, on threads of its own: changes one after the other, looks at once.

use std::sync::Arc;

use muster_api::{ActionError, CallContext};
use muster_engine::EngineError;
use tokio::sync::Mutex;

use crate::package::NodePackages;

/// First come, first served.
#[derive(Debug, Default)]
pub(crate) struct PackageQueue(Arc<Mutex<()>>);

impl PackageQueue {
    /// Does work that changes something, when what was asked for before is done.
    pub(crate) async fn run_exclusive<T: Send + 'static>(
        &self,
        cx: &CallContext,
        work: impl FnOnce(&NodePackages) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        run_blocking(cx, move |packages| {
            // Goes with the work: a tool whose caller has given up still keeps the next one waiting.
            let _turn = turn;
            work(packages)
        })
        .await
    }
}

/// Does work that changes nothing. A wrong request is told apart from a machine that would not (status 4 and 1).
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
