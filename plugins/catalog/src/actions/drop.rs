//! `drop`: removes owed refreshes from the ledger, for targets that were refreshed by other means.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_engine::ledger::RefreshLedger;
use muster_engine::lock::CatalogRunLock;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::runs::open_state_dir;

pub(crate) struct LedgerDropAction(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LedgerDropInput {
    target: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct LedgerDropOutput {
    dropped: usize,
    pending: usize,
}

impl AgentAction for LedgerDropAction {
    const NAME: &'static str = "drop";
    type Input = LedgerDropInput;
    type Output = LedgerDropOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: LedgerDropInput,
    ) -> Result<LedgerDropOutput, ActionError> {
        let options = Arc::clone(&self.0);
        cx.run_blocking(move |_| drop_owed_refreshes(&options, &input.target)).await?
    }
}

/// Takes the run lock, because a running engine writes the same file.
fn drop_owed_refreshes(options: &Options, target: &str) -> Result<LedgerDropOutput, ActionError> {
    let to_error = |error: &dyn std::error::Error| ActionError::failed(error_chain(error));
    let state = open_state_dir(options)?;
    let lock_timeout = Duration::from_secs(options.lock_wait);
    let _run_lock =
        CatalogRunLock::acquire(&state, &[], lock_timeout).map_err(|error| to_error(&error))?;
    let mut ledger = RefreshLedger::open(&state).map_err(|error| to_error(&error))?;
    let ids: Vec<u64> = ledger
        .owed_refreshes()
        .filter(|refresh| target == "all" || refresh.target == target)
        .map(|refresh| refresh.id)
        .collect();
    if ids.is_empty() {
        return Err(ActionError::failed(format!("no pending refresh matches `{target}`")));
    }
    ledger.remove_owed(&ids).map_err(|error| to_error(&error))?;
    Ok(LedgerDropOutput { dropped: ids.len(), pending: ledger.owed_refreshes().count() })
}
