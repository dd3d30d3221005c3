//! Work with the machine's packages, on threads of its own: changes one after the other, looks at once.

use std::sync::Arc;

use muster_api::{ActionError, Context};
use muster_engine::EngineError;
use tokio::sync::Mutex;

use crate::package::Packages;

/// First come, first served.
#[derive(Debug, Default)]
pub(crate) struct Queue(Arc<Mutex<()>>);

impl Queue {
    /// Does work that changes something, when what was asked for before is done.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        cx: &Context,
        work: impl FnOnce(&Packages) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        look(cx, move |packages| {
            // Goes with the work: a tool whose caller has given up still keeps the next one waiting.
            let _turn = turn;
            work(packages)
        })
        .await
    }
}

/// Does work that changes nothing. A wrong request is told apart from a machine that would not (status 4 and 1).
pub(crate) async fn look<T: Send + 'static>(
    cx: &Context,
    work: impl FnOnce(&Packages) -> Result<T, EngineError> + Send + 'static,
) -> Result<T, ActionError> {
    let system = Arc::clone(&cx.system);
    let done = cx.blocking(move |cancel| work(&Packages::new(system, cancel)));
    done.await?.map_err(|error| {
        if error.is_invalid() {
            ActionError::invalid(error.line())
        } else {
            ActionError::failed(error.line())
        }
    })
}
