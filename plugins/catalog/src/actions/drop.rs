//! `drop`: forgets refreshes that are owed: somebody has seen to it otherwise.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::error::chain;
use muster_api::{Action, ActionError, Context};
use muster_engine::ledger::Ledger;
use muster_engine::lock::RunLock;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::runs::open;

pub(crate) struct Drop(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    target: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    dropped: usize,
    pending: usize,
}

impl Action for Drop {
    const NAME: &'static str = "drop";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let options = Arc::clone(&self.0);
        cx.blocking(move |_| drop_debts(&options, &input.target))
            .await?
    }
}

/// Under the lock: a run that goes on writes the same file.
fn drop_debts(options: &Options, target: &str) -> Result<Output, ActionError> {
    let failed = |error: &dyn std::error::Error| ActionError::failed(chain(error));
    let state = open(options)?;
    let patience = Duration::from_secs(options.lock_wait);
    let _until_the_end = RunLock::take(&state, &[], patience).map_err(|error| failed(&error))?;
    let mut ledger = Ledger::open(&state).map_err(|error| failed(&error))?;
    let ids: Vec<u64> = ledger
        .debts()
        .filter(|debt| target == "all" || debt.target == target)
        .map(|debt| debt.id)
        .collect();
    if ids.is_empty() {
        return Err(ActionError::failed(format!(
            "no refresh of {target} is owed here"
        )));
    }
    ledger.forget(&ids).map_err(|error| failed(&error))?;
    Ok(Output {
        dropped: ids.len(),
        pending: ledger.debts().count(),
    })
}
