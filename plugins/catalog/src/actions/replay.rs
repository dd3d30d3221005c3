//! `replay`: makes the owed refreshes now, with the catalog that was applied last.
//!
//! Only the targets are evaluated. Noop, schedules and failures apply to them as in any run.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Deserialize;

use super::list::read_owed_refreshes;
use crate::options::Options;
use crate::runs::{self, CatalogRunOptions, CatalogRunOutcome, CatalogSource};

pub(crate) struct LedgerReplayAction(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LedgerReplayInput {
    target: Option<String>,
}

impl AgentAction for LedgerReplayAction {
    const NAME: &'static str = "replay";
    type Input = LedgerReplayInput;
    type Output = CatalogRunOutcome;

    async fn run(
        &self,
        cx: &CallContext,
        input: LedgerReplayInput,
    ) -> Result<CatalogRunOutcome, ActionError> {
        let options = Arc::clone(&self.0);
        let refreshes = cx.run_blocking(move |_| read_owed_refreshes(&options)).await??;
        let is_requested =
            |target: &String| input.target.as_ref().is_none_or(|requested| requested == target);
        let only: BTreeSet<String> =
            refreshes.into_iter().map(|refresh| refresh.target).filter(is_requested).collect();
        if only.is_empty() {
            return Err(ActionError::failed("no matching refresh is pending"));
        }
        let run_options = CatalogRunOptions { only, ..CatalogRunOptions::default() };
        runs::apply_catalog(cx, &self.0, CatalogSource::Stored, run_options).await
    }
}
