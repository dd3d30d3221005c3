//! `list`: the refreshes that are owed on the node.

use std::sync::Arc;

use muster_api::system::error::chain;
use muster_api::{Action, ActionError, Context};
use muster_engine::ledger::{Certainty, Debt, Ledger};
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::runs::open;

/// Most debts of one answer.
const TOLD: usize = 1000;

pub(crate) struct List(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pending: usize,
    debts: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Row {
    id: u64,
    target: String,
    source: String,
    since: i64,
    certain: bool,
    attempts: u32,
    reason: Option<String>,
    run: String,
}

impl From<Debt> for Row {
    fn from(debt: Debt) -> Self {
        Self {
            id: debt.id,
            target: debt.target,
            source: debt.source,
            since: debt.since,
            certain: debt.certainty == Certainty::Pending,
            attempts: debt.attempts,
            reason: debt.reason,
            run: debt.run,
        }
    }
}

impl Action for List {
    const NAME: &'static str = "list";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let options = Arc::clone(&self.0);
        let debts = cx.blocking(move |_| debts(&options)).await??;
        Ok(Output {
            pending: debts.len(),
            debts: debts.into_iter().take(TOLD).map(Row::from).collect(),
        })
    }
}

/// What is owed, whether or not a run goes on.
pub(crate) fn debts(options: &Options) -> Result<Vec<Debt>, ActionError> {
    let state = open(options)?;
    Ledger::peek(&state).map_err(|error| ActionError::failed(chain(&error)))
}
