//! `list`: the refreshes that are owed on the node.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_engine::ledger::{OwedRefresh, RefreshCertainty, RefreshLedger};
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::runs::open_state_dir;

/// Maximum number of refreshes in one reply.
const MAX_LISTED_REFRESHES: usize = 1000;

pub(crate) struct LedgerListAction(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LedgerListInput {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct LedgerListOutput {
    pending: usize,
    debts: Vec<OwedRefreshRow>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct OwedRefreshRow {
    id: u64,
    target: String,
    source: String,
    since: i64,
    certain: bool,
    attempts: u32,
    reason: Option<String>,
    run: String,
}

impl From<OwedRefresh> for OwedRefreshRow {
    fn from(refresh: OwedRefresh) -> Self {
        Self {
            id: refresh.id,
            target: refresh.target,
            source: refresh.source,
            since: refresh.since,
            certain: refresh.certainty == RefreshCertainty::Pending,
            attempts: refresh.attempts,
            reason: refresh.reason,
            run: refresh.run,
        }
    }
}

impl AgentAction for LedgerListAction {
    const NAME: &'static str = "list";
    type Input = LedgerListInput;
    type Output = LedgerListOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: LedgerListInput,
    ) -> Result<LedgerListOutput, ActionError> {
        let options = Arc::clone(&self.0);
        let refreshes = cx.run_blocking(move |_| read_owed_refreshes(&options)).await??;
        Ok(LedgerListOutput {
            pending: refreshes.len(),
            debts: refreshes
                .into_iter()
                .take(MAX_LISTED_REFRESHES)
                .map(OwedRefreshRow::from)
                .collect(),
        })
    }
}

/// Reads the owed refreshes without the run lock, so it works during a run.
pub(crate) fn read_owed_refreshes(options: &Options) -> Result<Vec<OwedRefresh>, ActionError> {
    let state = open_state_dir(options)?;
    RefreshLedger::read_owed(&state).map_err(|error| ActionError::failed(error_chain(&error)))
}
